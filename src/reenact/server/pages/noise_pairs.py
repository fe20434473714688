"""Pairs of replays that noise can be learnt from."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.server.asking import Ask
from reenact.server.exchanges.documents import loose
from reenact.server.exchanges.history import places_of
from reenact.server.storage.exchange_paging import Page
from reenact.server.storage.exchange_replays import ReplayFilters, list_replays

__all__ = ["Pair", "pairs_of"]

_LOOKED_AT: Final = 200
_SHOWN: Final = 10


class Pair(msgspec.Struct, frozen=True):
    """Two replays of one exchange, the older one first; times are in milliseconds."""

    exchange_id: str
    first: str
    first_at: int
    second: str
    second_at: int


async def pairs_of(ask: Ask, app: str, route: str) -> list[Pair]:
    """Completed replays without an edit: the two newest of each exchange, among the newest."""
    wanted = ReplayFilters(state="completed")
    async with ask.server.database.reading(ask.tenant) as scope:
        rows = await list_replays(scope, wanted, places_of(ask, "exchange:read"), Page(_LOOKED_AT))
    found: dict[str, list[Row[Any]]] = {}
    for row in rows:
        if (row.app, row.route_id) == (app, route) and not loose(row.patch, list):
            found.setdefault(row.source_exchange_id, []).append(row)
    pairs = [
        Pair(source, old.replay_id, old.requested_at, new.replay_id, new.requested_at)
        for source, (new, old, *_) in ((s, r) for s, r in found.items() if len(r) > 1)
    ]
    return pairs[:_SHOWN]
