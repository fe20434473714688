"""Exchanges: list, read, lineage and correlation; recordings, and the calls in them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Row

from reenact.errors import ReenactError
from reenact.exchange.comparison.calls import Call, as_asked
from reenact.exchange.comparison.calls import read_calls as parse_calls
from reenact.exchange.model import Exchange
from reenact.exchange.related_exchanges import DEEPEST, Branch, Graph, Node, graph, tree
from reenact.server.auth.permissions import Permission, ResourceScope
from reenact.server.context import Caller
from reenact.server.exchanges.schema import ExchangeBrief, ExchangeView, ReplayBrief
from reenact.server.pagination import ListResponse, listed
from reenact.server.problems import Problem
from reenact.server.replays.checks import readable_places
from reenact.server.runtime import Limits, Server
from reenact.server.storage.database import Scope
from reenact.server.storage.exchanges import (
    Filters,
    find_exchange,
    list_exchanges,
    of_correlation,
    of_sources,
    of_traces,
)
from reenact.server.storage.replays import replays_of, verdicts_of
from reenact.server.storage.rows import Page, exchange_of
from reenact.store.pack import unpack
from reenact.store.reader import open_recording
from reenact.store.source import SeekableSource

__all__ = [
    "calls_of",
    "check_calls",
    "get_exchange",
    "may_read",
    "places_of",
    "read_calls",
    "read_correlation",
    "read_exchange",
    "read_lineage",
    "read_recording",
    "recording_of",
    "search_exchanges",
    "with_recording",
]

_MOST_REPLAYS = 100


def places_of(caller: Caller, permission: Permission) -> tuple[ResourceScope, ...] | None:
    """Return where the caller has ``permission``; None means everywhere."""
    return readable_places(caller.principal.grants, permission, caller.server.now())


def may_read(caller: Caller, row: Row[Any]) -> None:
    """Raise :class:`Problem` unless the caller can read exchanges of the app and environment of ``row``."""
    caller.require("exchange:read", ResourceScope(row.environment, row.app))


async def get_exchange(caller: Caller, exchange_id: str) -> Row[Any]:
    """Return the row of an exchange that the caller can read. Raises :class:`Problem`."""
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await find_exchange(scope, exchange_id)
    if row is None:
        raise Problem("not_found", "there is no such exchange")
    may_read(caller, row)
    return row


async def search_exchanges(
    caller: Caller, filters: Filters, page: Page
) -> ListResponse[ExchangeBrief]:
    """Return the exchanges that the caller can read, newest first."""
    async with caller.server.database.reading(caller.tenant) as scope:
        rows = await list_exchanges(scope, filters, places_of(caller, "exchange:read"), page)
    return listed(rows, page, "started_at", "exchange_id", ExchangeBrief.of)


async def read_exchange(caller: Caller, exchange_id: str) -> ExchangeView:
    """Return an exchange with its replays. Raises :class:`Problem`."""
    row = await get_exchange(caller, exchange_id)
    async with caller.server.database.reading(caller.tenant) as scope:
        replays = await replays_of(scope, row.exchange_id, _MOST_REPLAYS)
    return ExchangeView.of(row, tuple(map(ReplayBrief.of, replays)))


async def read_calls(caller: Caller, exchange_id: str) -> tuple[Call, ...]:
    """Return the calls of an exchange, none without a recording. Raises :class:`Problem`.

    The calls of a replay are returned as the program requested them.
    """
    exchange = exchange_of(await get_exchange(caller, exchange_id))
    async with caller.server.intake.readers.turn(caller.tenant):
        calls = await calls_of(caller.server, caller.tenant, exchange)
    return tuple(as_asked(calls, exchange.replay, exchange.processors).calls)


async def read_recording(caller: Caller, exchange_id: str) -> bytes:
    """Return the packed capture of an exchange. Raises :class:`Problem`."""
    row = await get_exchange(caller, exchange_id)
    return await recording_of(caller.server, caller.tenant, exchange_of(row))


_MOST: Final = 1_000
_ROUNDS: Final = 8
"""Maximum distance between an exchange and its listed neighbours."""


async def read_lineage(caller: Caller, exchange_id: str) -> Branch:
    """Return the original of an exchange and all replays that the caller can read, as a tree."""
    row = await get_exchange(caller, exchange_id)
    async with caller.server.database.reading(caller.tenant) as scope:
        top = await _original(scope, row)
        found = {top.exchange_id: top}
        level: Sequence[str] = [top.exchange_id]
        for _ in range(DEEPEST):
            level = _new(found, await of_sources(scope, level, _MOST))
            if not level or len(found) >= _MOST:
                break
        nodes = await _nodes(caller, scope, found)
    return tree(nodes, row.exchange_id)


async def _original(scope: Scope, row: Row[Any]) -> Row[Any]:
    """The top of the tree that ``row`` is in, as far as it is still here."""
    for _ in range(DEEPEST):
        above = await find_exchange(scope, row.source_exchange_id)
        if above is None:
            break
        row = above
    return row


async def read_correlation(caller: Caller, exchange_id: str) -> Graph:
    """Return the related exchanges that the caller can read, as a graph."""
    row = await get_exchange(caller, exchange_id)
    async with caller.server.database.reading(caller.tenant) as scope:
        found = {row.exchange_id: row}
        fresh = [row]
        for _ in range(_ROUNDS):
            fresh = await _neighbours(scope, found, fresh)
            if not fresh or len(found) >= _MOST:
                break
        nodes = await _nodes(caller, scope, found)
    return graph(nodes, row.exchange_id)


async def _neighbours(
    scope: Scope, found: dict[str, Row[Any]], rows: list[Row[Any]]
) -> list[Row[Any]]:
    """Return new exchanges with the same trace or correlation id, new sources and new replays."""
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


async def _nodes(caller: Caller, scope: Scope, found: dict[str, Row[Any]]) -> list[Node]:
    """Return the nodes that the caller can read."""
    places = places_of(caller, "exchange:read")
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


T = TypeVar("T")
_LOOSER: Final = 16
"""Maximum ratio of unpacked to packed size."""


async def recording_of(server: Server, tenant: str, exchange: Exchange) -> bytes:
    """The packed capture. Raises :class:`Problem` when there is none."""
    if exchange.recording is None:
        raise Problem("not_found", "this exchange has no recording")
    return await server.blobs.get(tenant, exchange.recording.digest)


async def calls_of(server: Server, tenant: str, exchange: Exchange) -> tuple[Call, ...]:
    """The calls that it made; none where it has no recording. Raises :class:`Problem`."""
    if exchange.recording is None:
        return ()

    def read(source: SeekableSource) -> tuple[Call, ...]:
        check_calls(source, server.limits.called)
        return parse_calls(source, exchange.processors)

    return await with_recording(server, tenant, exchange.recording.digest, read)


def check_calls(source: SeekableSource, most: int) -> None:
    """Raises :class:`Problem` if the events of ``source`` have more than ``most`` bytes.

    All calls of an exchange are held in memory at a time, and a small file can stand for many bytes.
    """
    left = most
    with closing(source.reopen()) as again:
        for event in again:
            left -= len(event.payload)
            if left < 0:
                raise Problem(
                    "too_large",
                    f"the calls of this exchange have more than {most:,} bytes",
                    hint="download the recording, and use reenact view and reenact diff",
                    limit=most,
                )


async def with_recording(
    server: Server, tenant: str, digest: str, read: Callable[[SeekableSource], T]
) -> T:
    """Return the result of ``read``, called in a thread, for the packed capture ``digest``.

    Raises :class:`Problem`.
    """
    data = await server.blobs.get(tenant, digest)
    return await asyncio.to_thread(_read, data, server.limits, read)


def _read(data: bytes, limits: Limits, read: Callable[[SeekableSource], T]) -> T:
    try:
        with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
            packed = Path(folder, "packed")
            packed.write_bytes(data)
            capture = Path(folder, "capture")
            unpack(packed, capture, most=_LOOSER * limits.capture, limits=limits.read)
            with open_recording(capture, limits=limits.read) as source:
                if len(source) > limits.viewed:
                    raise Problem(
                        "too_large",
                        f"the recording has {len(source):,} events, more than {limits.viewed:,}",
                        hint="download it, and use reenact view and reenact diff",
                        limit=limits.viewed,
                    )
                return read(source)
    except ReenactError as error:
        raise Problem("damaged", f"the recording cannot be read: {error.message}") from None
