"""Exchanges: list, read, calls, recording, lineage and correlation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.exchange.comparison.calls import as_asked
from reenact.exchange.comparison.graph import DEEPEST, Branch, Graph, Node, graph, tree
from reenact.exchange.model import STATUSES
from reenact.server.auth.permissions import Permission, ResourceScope
from reenact.server.context import RequestContext
from reenact.server.exchanges.recordings import calls_of, recording_of
from reenact.server.exchanges.schema import ExchangeBrief, ExchangeView, ReplayBrief
from reenact.server.pagination import listed, one_of, page_of, with_replays, yes_or_no
from reenact.server.problems import Problem
from reenact.server.replays.checks import readable_places
from reenact.server.responses import ListResponse
from reenact.server.storage.database import Scope
from reenact.server.storage.documents import exchange_of
from reenact.server.storage.exchanges import (
    Filters,
    find_exchange,
    list_exchanges,
    of_correlation,
    of_sources,
    of_traces,
)
from reenact.server.storage.replays import replays_of, verdicts_of

__all__ = [
    "get_exchange",
    "may_read",
    "places_of",
    "read_calls",
    "read_correlation",
    "read_exchange",
    "read_exchanges",
    "read_lineage",
    "read_recording",
]

_MOST_REPLAYS = 100


def places_of(ask: RequestContext, permission: Permission) -> tuple[ResourceScope, ...] | None:
    """Where the one who asks may look; None for everywhere."""
    return readable_places(ask.principal.grants, permission, ask.server.now())


def may_read(ask: RequestContext, row: Row[Any]) -> None:
    """Raises :class:`Problem` unless they may read what is in the place of ``row``."""
    ask.require("exchange:read", ResourceScope(row.environment, row.app))


async def get_exchange(ask: RequestContext, exchange_id: str) -> Row[Any]:
    """A row, for somebody who may read it. Raises :class:`Problem`."""
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await find_exchange(scope, exchange_id)
    if row is None:
        raise Problem("not_found", "there is no such exchange")
    may_read(ask, row)
    return row


async def read_exchanges(ask: RequestContext) -> ListResponse:
    """``GET /api/v1/exchanges``: those that the one who asks may read, the newest first.
    Exchanges of replays are left out unless they are asked for."""
    page, replay = page_of(ask), with_replays(ask)
    filters = Filters(
        app=ask.query("app"),
        environment=ask.query("environment"),
        route=ask.query("route"),
        status=one_of(ask, "status", STATUSES),
        replay=None if replay == "any" else bool(replay),
        replayable=yes_or_no(ask, "replayable"),
        since=ask.number("since", 0),
        until=ask.number("until", 0),
        trace_id=ask.query("traceId"),
        correlation_id=ask.query("correlationId"),
        text=ask.query("text"),
    )
    async with ask.server.database.reading(ask.tenant) as scope:
        rows = await list_exchanges(scope, filters, places_of(ask, "exchange:read"), page)
    return listed(rows, page, "started_at", "exchange_id", ExchangeBrief.of)


async def read_exchange(ask: RequestContext) -> ExchangeView:
    """``GET /api/v1/exchanges/{id}``: as it came in, with its replays."""
    row = await get_exchange(ask, ask.path("id"))
    async with ask.server.database.reading(ask.tenant) as scope:
        replays = await replays_of(scope, row.exchange_id, _MOST_REPLAYS)
    return ExchangeView.of(row, tuple(map(ReplayBrief.of, replays)))


async def read_calls(ask: RequestContext) -> ListResponse:
    """``GET …/{id}/calls``: the calls that it made; none where it has no recording. Those of a replay
    are as they were asked."""
    exchange = exchange_of(await get_exchange(ask, ask.path("id")))
    async with ask.server.intake.readers.turn(ask.tenant):
        calls = await calls_of(ask.server, ask.tenant, exchange)
    made = as_asked(calls, exchange.replay, exchange.processors).calls
    return ListResponse(items=[msgspec.to_builtins(call) for call in made])


async def read_recording(ask: RequestContext) -> Response:
    """``GET …/{id}/recording``: the packed capture; 404 where there is none."""
    row = await get_exchange(ask, ask.path("id"))
    data = await recording_of(ask.server, ask.tenant, exchange_of(row))
    return Response(data, media_type="application/octet-stream")


_MOST: Final = 1_000
_ROUNDS: Final = 8
"""How far from an exchange its neighbours are looked for."""


async def read_lineage(ask: RequestContext) -> Branch:
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


async def read_correlation(ask: RequestContext) -> Graph:
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


async def _nodes(ask: RequestContext, scope: Scope, found: dict[str, Row[Any]]) -> list[Node]:
    """Of what the one who asks may read."""
    places = places_of(ask, "exchange:read")
    rows = [row for row in found.values() if _is_in(row, places)]
    verdicts = await verdicts_of(scope, [row.replay_id for row in rows if row.replay_id])
    return [_node(row, verdicts.get(row.replay_id, "")) for row in rows]


def _is_in(row: Row[Any], places: tuple[ResourceScope, ...] | None) -> bool:
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
