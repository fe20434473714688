"""Capture uploads and downloads: ``reenact push`` and ``reenact pull``."""

from __future__ import annotations

import asyncio
import lzma
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.errors import ReenactError
from reenact.format.canonical import digest_bytes
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, ApiDescription, Endpoint
from reenact.server.exchanges.redaction import Unclean, clean_recording, clean_text
from reenact.server.pagination import listed, page_of
from reenact.server.problems import Problem
from reenact.server.responses import ListResponse
from reenact.server.runtime import Limits
from reenact.server.storage.exchanges import (
    CaptureFilters,
    add_capture,
    find_capture,
    list_captures,
)
from reenact.store.pack import unpack

__all__ = [
    "ENDPOINTS",
    "CaptureFacts",
    "CaptureView",
    "check",
    "find",
    "read_captures",
]


class CaptureView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A capture that is here. ``captureId`` is the server's; ``name`` the id of its run."""

    capture_id: str
    digest: str
    size: int
    events: int
    content_hash: str
    name: str
    created_at: int
    created_by: str

    @classmethod
    def of(cls, row: Row[Any]) -> CaptureView:
        return cls(**{name: getattr(row, name) for name in cls.__struct_fields__})


async def push(context: RequestContext) -> Response:
    """201; 200 for one that is here already."""
    context.require("capture:write")
    content = context.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/octet-stream":
        raise Problem("unsupported", "the body has to be application/octet-stream")
    async with context.taken(context.server.limits.capture) as data:
        return await _keep(context, data)


async def _keep(context: RequestContext, sent: bytes) -> Response:
    limits = context.server.limits
    async with context.server.database.reading(context.tenant) as scope:
        row = await find_capture(scope, digest=digest_bytes(sent))
    if row is not None:
        return _answer(row, 200)
    facts = await asyncio.to_thread(check, sent, limits)
    try:
        clean = await asyncio.to_thread(clean_recording, sent, limits)
    except Unclean as error:
        raise Problem("payload_invalid", str(error), hint="reenact redact RUN") from None
    data, digest = clean.data, digest_bytes(clean.data)
    await context.server.blobs.put(context.tenant, data)
    values = {
        "capture_id": context.server.new_id("cap"),
        "digest": digest,
        "size": len(data),
        "events": facts.events,
        "content_hash": clean.content_hash or facts.content_hash,
        "name": clean_text(facts.name),
        "created_at": context.server.now(),
        "created_by": context.principal.name or context.principal.id,
    }
    async with context.server.database.writing(context.tenant) as scope:
        before = await find_capture(
            scope, digest=digest
        )  # a concurrent request may have been faster
        if before is None:
            await add_capture(scope, values)
        row = before or await find_capture(scope, digest=digest)
    return _answer(row, 200 if before is not None else 201)


def _answer(row: Row[Any] | None, status: int) -> Response:
    if row is None:
        raise Problem("internal", "the capture was not written")
    return Response(msgspec.json.encode(CaptureView.of(row)), status, media_type="application/json")


async def read_captures(context: RequestContext) -> ListResponse[CaptureView]:
    """``GET /api/v1/captures``: pushed captures, newest first."""
    context.require("capture:read")
    page = page_of(context)
    filters = CaptureFilters(
        text=context.query("text"),
        since=context.number("since", 0),
        until=context.number("until", 0),
    )
    async with context.server.database.reading(context.tenant) as scope:
        rows = await list_captures(scope, filters, page)
    return listed(rows, page, "created_at", "capture_id", CaptureView.of)


async def find(context: RequestContext, capture_id: str) -> Row[Any]:
    """Return the row of a capture that the caller can read. Raises :class:`Problem`."""
    context.require("capture:read")
    async with context.server.database.reading(context.tenant) as scope:
        row = await find_capture(scope, id=capture_id)
    if row is None:
        raise Problem("not_found", "there is no such capture")
    return row


async def pull(context: RequestContext) -> Response:
    row = await find(context, context.path("id"))
    data = await context.server.blobs.get(context.tenant, row.digest)
    return Response(data, media_type="application/octet-stream")


_BYTES: Final = ("application/octet-stream",)

ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/api/v1/captures",
        "capture:write",
        push,
        says=ApiDescription(
            "Push a capture",
            takes=_BYTES,
            answers=CaptureView,
            status=(201, 200),
            codes=("payload_invalid", "rate_limited", "unavailable"),
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/captures",
        "capture:read",
        read_captures,
        says=ApiDescription(
            "Find captures", query=(*PAGED, "text", "since", "until"), lists=CaptureView
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/captures/{id}",
        "capture:read",
        pull,
        says=ApiDescription("A capture, packed", media=_BYTES, codes=("gone",)),
    ),
)


_LOOSER: Final = 16
"""Maximum ratio of unpacked to packed size."""


class CaptureFacts(msgspec.Struct, frozen=True):
    """Facts from the manifest of a capture."""

    capture_id: str
    name: str
    events: int
    content_hash: str


def check(data: bytes, limits: Limits) -> CaptureFacts:
    """The facts of the packed capture ``data``. Raises :class:`Problem` for what is none, or not
    whole. Reads and writes files: not for the event loop."""
    try:
        with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
            packed = Path(folder, "packed")
            packed.write_bytes(data)
            report = unpack(
                packed,
                Path(folder, "capture"),
                most=_LOOSER * limits.capture,
                limits=limits.read,
            )
    except (ReenactError, lzma.LZMAError) as error:
        raise Problem(
            "payload_invalid",
            f"this is no packed capture that is whole: {error}",
            hint="make one with reenact pack",
        ) from None
    manifest = report.manifest
    return CaptureFacts(
        manifest.capture_id, manifest.run_id, manifest.event_count, manifest.integrity.content_hash
    )
