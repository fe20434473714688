"""Exchanges, looked at: lists, one of them, its calls and its recording."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.exchange.comparison.calls import as_asked
from reenact.exchange.model import STATUSES
from reenact.server.access import Permission, Place
from reenact.server.answering import Listed
from reenact.server.asking import Ask
from reenact.server.exchanges.documents import exchange_of
from reenact.server.exchanges.paging import listed, one_of, page_of, with_replays, yes_or_no
from reenact.server.exchanges.recordings import calls_of, recording_of
from reenact.server.exchanges.rights import readable_places
from reenact.server.exchanges.shapes import ExchangeBrief, ExchangeView, ReplayBrief
from reenact.server.problems import Problem
from reenact.server.storage.exchange_replays import replays_of
from reenact.server.storage.exchange_rows import Filters, find_exchange, list_exchanges

__all__ = [
    "get_exchange",
    "may_read",
    "places_of",
    "read_calls",
    "read_exchange",
    "read_exchanges",
    "read_recording",
]

_MOST_REPLAYS = 100


def places_of(ask: Ask, permission: Permission) -> tuple[Place, ...] | None:
    """Where the one who asks may look; None for everywhere."""
    return readable_places(ask.principal.grants, permission, ask.server.now())


def may_read(ask: Ask, row: Row[Any]) -> None:
    """Raises :class:`Problem` unless they may read what is in the place of ``row``."""
    ask.require("exchange:read", Place(row.environment, row.app))


async def get_exchange(ask: Ask, exchange_id: str) -> Row[Any]:
    """A row, for somebody who may read it. Raises :class:`Problem`."""
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await find_exchange(scope, exchange_id)
    if row is None:
        raise Problem("not_found", "there is no such exchange")
    may_read(ask, row)
    return row


async def read_exchanges(ask: Ask) -> Listed:
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


async def read_exchange(ask: Ask) -> ExchangeView:
    """``GET /api/v1/exchanges/{id}``: as it came in, with its replays."""
    row = await get_exchange(ask, ask.path("id"))
    async with ask.server.database.reading(ask.tenant) as scope:
        replays = await replays_of(scope, row.exchange_id, _MOST_REPLAYS)
    return ExchangeView.of(row, tuple(map(ReplayBrief.of, replays)))


async def read_calls(ask: Ask) -> Listed:
    """``GET …/{id}/calls``: the calls that it made; none where it has no recording. Those of a replay
    are as they were asked."""
    exchange = exchange_of(await get_exchange(ask, ask.path("id")))
    async with ask.server.intake.readers.turn(ask.tenant):
        calls = await calls_of(ask.server, ask.tenant, exchange)
    made = as_asked(calls, exchange.replay, exchange.processors).calls
    return Listed(items=[msgspec.to_builtins(call) for call in made])


async def read_recording(ask: Ask) -> Response:
    """``GET …/{id}/recording``: the packed capture; 404 where there is none."""
    row = await get_exchange(ask, ask.path("id"))
    data = await recording_of(ask.server, ask.tenant, exchange_of(row))
    return Response(data, media_type="application/octet-stream")
