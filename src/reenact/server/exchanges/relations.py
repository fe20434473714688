"""What an exchange belongs to: its replays as a tree, and its neighbours as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row

from reenact.exchange.comparison.graph import DEEPEST, Branch, Graph, Node, graph, tree
from reenact.server.access import Place
from reenact.server.asking import Ask
from reenact.server.exchanges.history import get_exchange, places_of
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_replays import verdicts_of
from reenact.server.storage.exchange_rows import (
    find_exchange,
    of_correlation,
    of_sources,
    of_traces,
)

__all__ = ["read_correlation", "read_lineage"]

_MOST: Final = 1_000
_ROUNDS: Final = 8
"""How far from an exchange its neighbours are looked for."""


async def read_lineage(ask: Ask) -> Branch:
    """``GET …/{id}/lineage``: its original and every replay of it that one may read, as a tree."""
    row = await get_exchange(ask, ask.path("id"))
    async with ask.server.database.reading(ask.tenant) as scope:
        top = await _original(scope, row)
        found = {top.exchange_id: top}
        level: Sequence[str] = [top.exchange_id]
        for _ in range(DEEPEST):
            level = _new(found, await of_sources(scope, level, _MOST))
            if not level or len(found) >= _MOST:
                break
        nodes = await _nodes(ask, scope, found)
    return tree(nodes, row.exchange_id)


async def _original(scope: Scope, row: Row[Any]) -> Row[Any]:
    """The top of the tree that ``row`` is in, as far as it is still here."""
    for _ in range(DEEPEST):
        above = await find_exchange(scope, row.source_exchange_id)
        if above is None:
            break
        row = above
    return row


async def read_correlation(ask: Ask) -> Graph:
    """``GET …/{id}/correlation``: what belongs together, as far as one may read it, as a graph."""
    row = await get_exchange(ask, ask.path("id"))
    async with ask.server.database.reading(ask.tenant) as scope:
        found = {row.exchange_id: row}
        fresh = [row]
        for _ in range(_ROUNDS):
            fresh = await _neighbours(scope, found, fresh)
            if not fresh or len(found) >= _MOST:
                break
        nodes = await _nodes(ask, scope, found)
    return graph(nodes, row.exchange_id)


async def _neighbours(
    scope: Scope, found: dict[str, Row[Any]], rows: list[Row[Any]]
) -> list[Row[Any]]:
    """Those of the same trace or business, and sources and replays, that were not found before."""
    new: list[str] = []
    traces = list({row.trace_id for row in rows if row.trace_id})
    business = list({row.correlation_id for row in rows if row.correlation_id})
    new += _new(found, await of_traces(scope, traces, _MOST))
    new += _new(found, await of_correlation(scope, business, _MOST))
    new += _new(found, await of_sources(scope, [row.exchange_id for row in rows], _MOST))
    for source in {row.source_exchange_id for row in rows if row.source_exchange_id}:
        if source not in found and (above := await find_exchange(scope, source)) is not None:
            new += _new(found, [above])
    return [found[one] for one in new]


def _new(found: dict[str, Row[Any]], rows: Sequence[Row[Any]]) -> list[str]:
    fresh = [row for row in rows if row.exchange_id not in found]
    found.update((row.exchange_id, row) for row in fresh)
    return [row.exchange_id for row in fresh]


async def _nodes(ask: Ask, scope: Scope, found: dict[str, Row[Any]]) -> list[Node]:
    """Of what the one who asks may read."""
    places = places_of(ask, "exchange:read")
    rows = [row for row in found.values() if _is_in(row, places)]
    verdicts = await verdicts_of(scope, [row.replay_id for row in rows if row.replay_id])
    return [_node(row, verdicts.get(row.replay_id, "")) for row in rows]


def _is_in(row: Row[Any], places: tuple[Place, ...] | None) -> bool:
    return places is None or any(
        place.environment in (None, row.environment) and place.app in (None, row.app)
        for place in places
    )


def _node(row: Row[Any], verdict: str) -> Node:
    return Node(
        exchange_id=row.exchange_id,
        app=row.app,
        environment=row.environment,
        route_id=row.route_id,
        status=row.status,
        http_status=row.http_status,
        started_at=row.started_at,
        duration=row.duration,
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_span_id=row.parent_span_id,
        correlation_id=row.correlation_id,
        replay_of=row.source_exchange_id,
        replay_id=row.replay_id,
        verdict=verdict,
    )
