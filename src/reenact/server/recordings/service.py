"""Captures that were pushed: store, list, read."""

from __future__ import annotations

import asyncio
import lzma
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.errors import ReenactError
from reenact.format.canonical import digest_bytes
from reenact.server.context import Caller
from reenact.server.exchanges.redaction import Unclean, clean_recording, clean_text
from reenact.server.pagination import ListResponse, listed
from reenact.server.problems import Problem
from reenact.server.runtime import Limits
from reenact.server.storage.exchanges import (
    CaptureFilters,
    add_capture,
    find_capture,
    list_captures,
)
from reenact.server.storage.rows import Page
from reenact.store.pack import unpack

__all__ = ["CaptureView", "read_capture", "read_content", "search_captures", "store_capture"]

_RATIO: Final = 16
"""Maximum ratio of unpacked to packed size."""


class CaptureView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A stored capture. ``captureId`` is the server's; ``name`` the id of its run."""

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


async def store_capture(caller: Caller, sent: bytes) -> tuple[CaptureView, bool]:
    """Store a packed capture without its secrets. The flag is False if it was stored before.

    Raises :class:`Problem`.
    """
    caller.require("capture:write")
    server = caller.server
    async with server.database.reading(caller.tenant) as scope:
        row = await find_capture(scope, digest=digest_bytes(sent))
    if row is not None:
        return CaptureView.of(row), False
    facts = await asyncio.to_thread(_facts, sent, server.limits)
    try:
        clean = await asyncio.to_thread(clean_recording, sent, server.limits)
    except Unclean as error:
        raise Problem("payload_invalid", str(error), hint="reenact redact RUN") from None
    await server.blobs.put(caller.tenant, clean.data)
    view = CaptureView(
        capture_id=server.new_id("cap"),
        digest=digest_bytes(clean.data),
        size=len(clean.data),
        events=facts.events,
        content_hash=clean.content_hash or facts.content_hash,
        name=clean_text(facts.name),
        created_at=server.now(),
        created_by=caller.principal.name or caller.principal.id,
    )
    async with server.database.writing(caller.tenant) as scope:
        before = await find_capture(scope, digest=view.digest)
        if before is not None:  # a concurrent request was faster
            return CaptureView.of(before), False
        await add_capture(scope, msgspec.structs.asdict(view))
    return view, True


async def search_captures(
    caller: Caller, filters: CaptureFilters, page: Page
) -> ListResponse[CaptureView]:
    """Return the captures, newest first."""
    caller.require("capture:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        rows = await list_captures(scope, filters, page)
    return listed(rows, page, "created_at", "capture_id", CaptureView.of)


async def read_capture(caller: Caller, capture_id: str) -> CaptureView:
    """Return a capture. Raises :class:`Problem`."""
    caller.require("capture:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await find_capture(scope, id=capture_id)
    if row is None:
        raise Problem("not_found", "there is no such capture")
    return CaptureView.of(row)


async def read_content(caller: Caller, capture_id: str) -> bytes:
    """Return a capture, packed. Raises :class:`Problem`."""
    found = await read_capture(caller, capture_id)
    return await caller.server.blobs.get(caller.tenant, found.digest)


class _Facts(msgspec.Struct, frozen=True):
    """Facts from the manifest of a capture."""

    name: str
    events: int
    content_hash: str


def _facts(data: bytes, limits: Limits) -> _Facts:
    """Return the facts of the packed capture ``data``.

    Reads and writes files, so it must not run in the event loop. Raises :class:`Problem` for an
    incomplete capture and for anything else.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
            packed = Path(folder, "packed")
            packed.write_bytes(data)
            most, capture = _RATIO * limits.capture, Path(folder, "capture")
            manifest = unpack(packed, capture, most=most, limits=limits.read).manifest
    except (ReenactError, lzma.LZMAError) as error:
        raise Problem(
            "payload_invalid",
            f"the body is not a complete packed capture: {error}",
            hint="create one with reenact pack",
        ) from None
    return _Facts(manifest.run_id, manifest.event_count, manifest.integrity.content_hash)
