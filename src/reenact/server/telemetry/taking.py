"""``POST /v1/traces``: OTLP over HTTP, as protobuf or JSON.

Spans wait in the database until no more of their trace come (:mod:`…settling`); what is answered
with 200 is on the disk. A span that is none is refused alone, and the answer says how many were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.responses import Response

from reenact.errors import ExtraMissing, UsageError
from reenact.interop.otel import Received
from reenact.interop.otel_json import answer_json, read_json
from reenact.interop.otel_protobuf import answer_protobuf, read_protobuf
from reenact.server.asking import Ask
from reenact.server.exchanges.ingest_lines import inflate
from reenact.server.ports import Limits, Server
from reenact.server.problems import Problem
from reenact.server.routing import Endpoint, Says
from reenact.server.storage.telemetry_rows import add_spans
from reenact.server.telemetry.cleaning import clean_span, resource_of
from reenact.server.telemetry.from_spans import Kept

__all__ = ["DEPLOYMENT", "ENDPOINTS"]

DEPLOYMENT: Final = "rr.deployment"
"""Of a resource: the server that sent it. What we sent ourselves is not taken in again."""
_LOOSER: Final = 4
_MOST: Final = 50_000
"""Spans of one request."""
_TOLD: Final = 500
"""Characters of what is said about refused ones."""


class _Coding(msgspec.Struct, frozen=True):
    read: Callable[[bytes], Received]
    answer: Callable[[int, str], bytes]


_CODINGS: Final = {
    "application/x-protobuf": _Coding(read_protobuf, answer_protobuf),
    "application/json": _Coding(read_json, answer_json),
}


class Taken(msgspec.Struct, frozen=True):
    """What of a request is kept, and what was wrong with the rest."""

    spans: tuple[Kept, ...]
    refused: tuple[str, ...]


async def take_traces(ask: Ask) -> Response:
    headers = ask.request.headers
    content = headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = _CODINGS.get(content)
    if coding is None:
        raise Problem("unsupported", "traces are application/x-protobuf or application/json")
    zipped = headers.get("content-encoding", "").strip().lower()
    server = ask.server
    async with ask.taken(server.limits.batch) as data:
        taken = await asyncio.to_thread(_read, server, coding, data, zipped)
        now = server.now()
        rows = [_row(ask, one, now) for one in taken.spans]
        async with server.database.writing(ask.tenant) as scope:
            await add_spans(scope, rows)
    why = "; ".join(dict.fromkeys(taken.refused))[:_TOLD]
    return Response(coding.answer(len(taken.refused), why), media_type=content)


def _read(server: Server, coding: _Coding, data: bytes, zipped: str) -> Taken:
    plain = _unzipped(data, zipped, server.limits)
    try:
        received = coding.read(plain)
    except ExtraMissing as error:
        raise Problem("unsupported", error.message, hint=error.hint) from None
    except UsageError as error:
        raise Problem("malformed", error.message[:_TOLD]) from None
    if sum(len(group.spans) for group in received.groups) > _MOST:
        raise Problem("too_large", f"a request has at most {_MOST} spans", limit=_MOST)
    kept: list[Kept] = []
    refused = list(received.refused)
    for group in received.groups:
        if group.resource.get(DEPLOYMENT) == server.deployment:
            continue  # it is here already, as it was recorded
        resource = resource_of(group)
        for span in group.spans:
            try:
                kept.append(clean_span(span, resource, group.scope))
            except UsageError as error:
                refused.append(error.message)
    return Taken(tuple(kept), tuple(refused))


def _unzipped(data: bytes, zipped: str, limits: Limits) -> bytes:
    if zipped == "gzip":
        return b"".join(inflate((data,), _LOOSER * limits.batch))
    if zipped not in ("", "identity"):
        raise Problem("unsupported", "Content-Encoding is gzip, or none")
    return data


def _row(ask: Ask, kept: Kept, now: int) -> dict[str, Any]:
    """App and environment are what the key says, whatever the resource does."""
    return {
        "app": ask.principal.app,
        "environment": ask.principal.environment,
        "trace_id": kept.span.trace_id,
        "span_id": kept.span.span_id,
        "received_at": now,
        "document": msgspec.json.encode(kept),
    }


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/v1/traces",
        "agent:connect",
        take_traces,
        says=Says(
            "Take in traces (OTLP)",
            takes=tuple(_CODINGS),
            media=tuple(_CODINGS),
            codes=("rate_limited", "unavailable"),
        ),
    ),
)
