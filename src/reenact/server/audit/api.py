"""API of the audit log."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import IO, Any, Final

import msgspec
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from reenact.server.audit import service
from reenact.server.audit.service import FILTERS, FORMATS, NumberedRecord
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, api
from reenact.server.pagination import ListResponse
from reenact.server.storage.audit import RecordFilter

__all__ = ["ENDPOINTS", "record_filter"]

_CHUNK: Final = 1 << 16


class ConsistencyHashes(msgspec.Struct, frozen=True):
    """Proof that a log is the beginning of a longer one: hashes of nodes in base64."""

    hashes: list[str]


def record_filter(context: RequestContext, since: int, until: int) -> RecordFilter:
    """Return the filters of a list of audit records. Raises :class:`Problem`."""
    words: dict[str, Any] = {field: context.query(name) for name, field in FILTERS.items()}
    before = context.number("cursor", 0) if context.query("cursor") else None
    return RecordFilter(**words, since=since, until=until, before=before)


async def _list_records(context: RequestContext) -> ListResponse[NumberedRecord]:
    context.require("audit:read")  # before the query is read
    wanted = record_filter(context, context.number("since", 0), context.number("until", 0))
    return await service.list_records(context, wanted, context.limit)


async def _read_head(context: RequestContext) -> Response:
    return PlainTextResponse(await service.read_head(context))


async def _read_keys(context: RequestContext) -> Response:
    spans = await service.read_keys(context)
    return PlainTextResponse("".join(f"{one.start} {one.key.to_text()}\n" for one in spans))


async def _prove_record(context: RequestContext) -> Response:
    proof = await service.prove_record(context, context.path("seq"))
    return PlainTextResponse(proof.to_text())


async def _prove_growth(context: RequestContext) -> ConsistencyHashes:
    context.require("audit:read")  # before the query is read
    old, new = context.number("from", 0), context.number("to", 0) if context.query("to") else None
    nodes = await service.prove_growth(context, old, new)
    return ConsistencyHashes([b64encode(node).decode() for node in nodes])


async def _export(context: RequestContext) -> Response:
    form = context.query("format", "tar")
    file = await service.export_log(context, form)
    media, suffix = FORMATS[form]
    name = f'attachment; filename="audit-{context.tenant}.{suffix}"'
    return StreamingResponse(_chunks(file), media_type=media, headers={"Content-Disposition": name})


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        while chunk := await asyncio.to_thread(file.read, _CHUNK):
            yield chunk
    finally:
        file.close()


_TEXT: Final = ("text/plain; charset=utf-8",)

ENDPOINTS: Final = (
    api(
        "GET",
        "/api/v1/audit/records",
        "audit:read",
        _list_records,
        "Find records",
        query=(*PAGED, *FILTERS, "since", "until"),
        lists=NumberedRecord,
    ),
    api(
        "GET",
        "/api/v1/audit/head",
        "audit:read",
        _read_head,
        "The newest signed head",
        media=_TEXT,
        codes=("not_found",),
    ),
    api("GET", "/api/v1/audit/key", "audit:read", _read_keys, "The verifier keys", media=_TEXT),
    api(
        "GET",
        "/api/v1/audit/proof/{seq}",
        "audit:read",
        _prove_record,
        "The proof of a record",
        media=_TEXT,
    ),
    api(
        "GET",
        "/api/v1/audit/consistency",
        "audit:read",
        _prove_growth,
        "That the log has only grown",
        query=("from", "to"),
        answers=ConsistencyHashes,
    ),
    api(
        "GET",
        "/api/v1/audit/export",
        "audit:export",
        _export,
        "The whole log",
        query=("format",),
        media=tuple(media for media, _ in FORMATS.values()),
    ),
)
