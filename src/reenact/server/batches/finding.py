"""The exchanges that a batch is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.server.asking import Ask
from reenact.server.batches.shapes import MOST_ITEMS, BatchAsked, Search
from reenact.server.exchanges.history import places_of
from reenact.server.problems import Problem
from reenact.server.storage.batch_rows import find_search
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_paging import Page
from reenact.server.storage.exchange_rows import Filters, briefs_of, list_exchanges

__all__ = ["Found", "find", "to_filters"]


class Found(msgspec.Struct, frozen=True):
    """``missing`` counts those that were named and are not there, for the one who asks. ``search``
    is what was looked for."""

    rows: Sequence[Row[Any]]
    missing: int
    search: Search | None


def to_filters(search: Search, now: int) -> Filters:
    """As they are at ``now``. Replays are left out unless they are asked for: a batch that has run
    would find itself."""
    since = max(search.since, now - search.within if search.within else 0)
    return Filters(
        app=search.app,
        environment=search.environment,
        route=search.route,
        status=search.status,
        replay=None if search.replay == "any" else bool(search.replay),
        replayable=search.replayable,
        since=since,
        until=search.until,
        trace_id=search.trace_id,
        correlation_id=search.correlation_id,
        text=search.text,
    )


async def find(ask: Ask, scope: Scope, asked: BatchAsked) -> Found:
    """What the one who asks may read of it. Raises :class:`Problem`."""
    if (asked.search is not None) + bool(asked.saved) + bool(asked.exchanges) != 1:
        raise Problem("invalid", "a batch is a search, a saved one, or exchanges", field="search")
    places = places_of(ask, "exchange:read")
    if asked.exchanges:
        ids = tuple(dict.fromkeys(asked.exchanges))
        found = await briefs_of(scope, ids, places)
        return Found(found, len(ids) - len(found), None)
    search = asked.search or await _saved(scope, asked.saved)
    filters = to_filters(search, ask.server.now())
    rows = await list_exchanges(scope, filters, places, Page(MOST_ITEMS))
    if len(rows) > MOST_ITEMS:
        raise Problem(
            "invalid",
            f"this search finds more than {MOST_ITEMS:,} exchanges",
            hint="look for less: a shorter time, one route",
            field="search",
        )
    return Found(rows, 0, search)


async def _saved(scope: Scope, name: str) -> Search:
    row = await find_search(scope, name)
    if row is None:
        raise Problem("not_found", "there is no saved search of this name")
    return msgspec.json.decode(row.filters, type=Search)
