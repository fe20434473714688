"""Traces of which nothing more comes become exchanges."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from reenact.exchange.model import Exchange
from reenact.format.canonical import digest_bytes, jcs
from reenact.server.exchanges.documents import dense, exchange_of
from reenact.server.exchanges.storing import columns_of
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.server.storage.exchange_rows import add_exchanges, digests_of, find_exchange, of_traces
from reenact.server.storage.telemetry_rows import (
    WaitingTrace,
    forget_spans,
    spans_of,
    waiting_traces,
)
from reenact.server.telemetry.from_spans import Kept, exchange_id_of, to_exchanges

__all__ = ["run", "settle"]

_LOG: Final = logging.getLogger("reenact.server")
_AT_ONCE: Final = 100
_MOST_SPANS: Final = 5_000
"""Of one trace at a time; the rest is an exchange of its own, with the same trace id."""
_MOST_KNOWN: Final = 100


async def run(server: Server, stop: asyncio.Event) -> None:
    """Settle until ``stop`` is set. A database that fails for a while is asked again."""
    while not stop.is_set():
        try:
            await settle(server)
        except (SQLAlchemyError, Problem):
            _LOG.exception("traces could not be looked at")
        try:
            await asyncio.wait_for(stop.wait(), server.timings.sweep)
        except TimeoutError:
            continue


async def settle(server: Server) -> int:
    """Make exchanges of what is complete; gives how many."""
    now, timings = server.now(), server.timings
    async with server.database.platform() as platform:
        due = await waiting_traces(
            platform,
            now - int(timings.trace_quiet * 1000),
            now - int(timings.trace_longest * 1000),
            _AT_ONCE,
        )
    return sum([await _settle(server, trace) for trace in due])


async def _settle(server: Server, trace: WaitingTrace) -> int:
    async with server.database.reading(trace.tenant) as scope:
        rows = await spans_of(scope, trace, _MOST_SPANS)
        known = await of_traces(scope, [trace.trace_id], _MOST_KNOWN)
        here = [await find_exchange(scope, row.exchange_id) for row in known if _is_of(row, trace)]
    made = await asyncio.to_thread(_build, rows, [row for row in here if row is not None])
    async with server.database.writing(trace.tenant) as scope:
        there = await digests_of(scope, [exchange.exchange_id for exchange, _ in made])
        new = [one for one in made if one[0].exchange_id not in there]
        values = [_row(server, trace, exchange, digest) for exchange, digest in new]
        await add_exchanges(scope, values)
        await forget_spans(scope, trace, [row.span_id for row in rows])
    return len(new)


def _is_of(row: Row[Any], trace: WaitingTrace) -> bool:
    return (row.app, row.environment) == (trace.app, trace.environment)


def _build(rows: Sequence[Row[Any]], here: Sequence[Row[Any]]) -> list[tuple[Exchange, str]]:
    """Without the spans that are in an exchange already: they were sent twice."""
    seen = {span for row in here for span in _spans_in(exchange_of(row))}
    spans = [msgspec.json.decode(row.document, type=Kept) for row in rows]
    fresh = [
        one
        for one in spans
        if one.span.span_id not in seen and exchange_id_of(one.span) not in seen
    ]
    made = to_exchanges(fresh)
    return [(one, digest_bytes(jcs(msgspec.to_builtins(one)))) for one in made]


def _spans_in(exchange: Exchange) -> list[str]:
    said = (one.input for one in exchange.processors if isinstance(one.input, dict))
    return [exchange.exchange_id, *(str(one.get("spanId", "")) for one in said)]


def _row(server: Server, trace: WaitingTrace, exchange: Exchange, digest: str) -> dict[str, Any]:
    return {
        **columns_of(exchange),
        "digest": digest,
        "document": dense(exchange),
        "app": trace.app,
        "environment": trace.environment,
        "agent_id": "",
        "received_at": server.now(),
    }
