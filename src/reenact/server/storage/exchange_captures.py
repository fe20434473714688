"""Captures of runs, as they are kept: the facts here, the content among the blobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.server.storage.containing import any_contains
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_paging import Page, newest
from reenact.server.storage.exchange_tables import CAPTURES

__all__ = ["CaptureFilters", "add_capture", "find_capture", "list_captures"]


class CaptureFilters(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, times in milliseconds. An empty text and 0 do not limit anything."""

    text: str = ""
    since: int = 0
    until: int = 0


async def add_capture(scope: Scope, values: dict[str, Any]) -> None:
    """Keep the facts of a new one; its content is among the blobs before."""
    await scope.add(CAPTURES, values)


async def find_capture(scope: Scope, *, id: str = "", digest: str = "") -> Row[Any] | None:
    """By its id, or else by its digest; None when this tenant has none."""
    wanted = CAPTURES.c.capture_id == id if id else CAPTURES.c.digest == digest
    return await scope.one(scope.select(CAPTURES).where(wanted))


async def list_captures(scope: Scope, filters: CaptureFilters, page: Page) -> Sequence[Row[Any]]:
    """The newest first; one more than the page."""
    columns = CAPTURES.c
    chosen = scope.select(CAPTURES)
    if filters.text:
        chosen = chosen.where(any_contains([columns.capture_id, columns.name], filters.text))
    if filters.since:
        chosen = chosen.where(columns.created_at >= filters.since)
    if filters.until:
        chosen = chosen.where(columns.created_at < filters.until)
    return await scope.all(newest(chosen, columns.created_at, columns.capture_id, page))
