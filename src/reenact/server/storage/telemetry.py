"""Queries of received spans and of exchanges that wait for their export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row, func, or_, select, tuple_

from reenact.server.storage.database import Platform, Scope, to_value
from reenact.server.storage.tables import EXPORTS, SPANS

__all__ = [
    "WaitingTrace",
    "add_spans",
    "forget_exports",
    "forget_old_exports",
    "forget_spans",
    "hold_exports",
    "queue_exports",
    "release_exports",
    "spans_of",
    "waiting_traces",
]

_AT_ONCE: Final = 500


class WaitingTrace(msgspec.Struct, frozen=True):
    """Part of a trace from one app."""

    tenant: str
    app: str
    environment: str
    trace_id: str


async def add_spans(scope: Scope, rows: Sequence[dict[str, Any]]) -> None:
    """Keep spans, of one app in one environment; one that comes again takes the place of the first."""
    if not rows:
        return
    place = (SPANS.c.app == rows[0]["app"], SPANS.c.environment == rows[0]["environment"])
    last = {(row["trace_id"], row["span_id"]): row for row in rows}
    ids = list(last)
    for start in range(0, len(ids), _AT_ONCE):
        some = tuple_(SPANS.c.trace_id, SPANS.c.span_id).in_(ids[start : start + _AT_ONCE])
        await scope.run(scope.delete(SPANS).where(*place, some))
    await scope.add(SPANS, *last.values())


async def waiting_traces(
    platform: Platform, quiet_since: int, older_than: int, most: int
) -> list[WaitingTrace]:
    """Return traces without new spans since ``quiet_since``, or that began before ``older_than``."""
    key = (SPANS.c.tenant, SPANS.c.app, SPANS.c.environment, SPANS.c.trace_id)
    over = or_(
        func.max(SPANS.c.received_at) <= quiet_since, func.min(SPANS.c.received_at) <= older_than
    )
    rows = await platform.all(select(*key).group_by(*key).having(over).limit(most))
    return [to_value(row, WaitingTrace) for row in rows]


async def spans_of(scope: Scope, trace: WaitingTrace, most: int) -> Sequence[Row[Any]]:
    """In the order in which they came."""
    chosen = scope.select(SPANS).where(*_of(trace)).order_by(SPANS.c.received_at, SPANS.c.span_id)
    return await scope.all(chosen.limit(most))


async def forget_spans(scope: Scope, trace: WaitingTrace, ids: Sequence[str]) -> None:
    """Delete processed spans. ``ids`` are ids of spans of ``trace``."""
    for start in range(0, len(ids), _AT_ONCE):
        some = SPANS.c.span_id.in_(ids[start : start + _AT_ONCE])
        await scope.run(scope.delete(SPANS).where(*_of(trace), some))


def _of(trace: WaitingTrace) -> tuple[Any, ...]:
    return (
        SPANS.c.app == trace.app,
        SPANS.c.environment == trace.environment,
        SPANS.c.trace_id == trace.trace_id,
    )


async def queue_exports(scope: Scope, ids: Sequence[str], now: int) -> None:
    """They are new."""
    rows = [{"exchange_id": one, "queued_at": now, "held_until": 0} for one in ids]
    await scope.add(EXPORTS, *rows)


async def hold_exports(scope: Scope, now: int, until: int, most: int) -> list[str]:
    """Hold the oldest free exports until the given time, and return them."""
    free = EXPORTS.c.held_until <= now
    chosen = (
        scope.select(EXPORTS, EXPORTS.c.exchange_id)
        .where(free)
        .order_by(EXPORTS.c.queued_at, EXPORTS.c.exchange_id)
        .limit(most)
    )
    ids = [row.exchange_id for row in await scope.all(chosen)]
    await _hold(scope, ids, until)
    return ids


async def release_exports(scope: Scope, ids: Sequence[str], until: int) -> None:
    """They could not be sent, and are tried again from then on."""
    await _hold(scope, ids, until)


async def _hold(scope: Scope, ids: Sequence[str], until: int) -> None:
    if ids:
        wanted = scope.update(EXPORTS).where(EXPORTS.c.exchange_id.in_(ids))
        await scope.run(wanted.values(held_until=until))


async def forget_exports(scope: Scope, ids: Sequence[str]) -> None:
    """They were sent, or are not to be."""
    if ids:
        await scope.run(scope.delete(EXPORTS).where(EXPORTS.c.exchange_id.in_(ids)))


async def forget_old_exports(scope: Scope, before: int) -> int:
    """Delete exports that could not be sent for too long, and return their number."""
    found = await scope.run(scope.delete(EXPORTS).where(EXPORTS.c.queued_at < before))
    return int(found.rowcount)
