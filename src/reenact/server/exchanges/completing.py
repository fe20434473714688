"""The end of a replay that ran: its exchange has come in, and is compared with its source."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Actor, DiffSummary
from reenact.exchange.comparison.comparing import compare
from reenact.exchange.comparison.result import Comparison
from reenact.exchange.comparison.rules import NoiseRule, merged
from reenact.exchange.model import Exchange
from reenact.server.exchanges.documents import exchange_of
from reenact.server.exchanges.finishing import Came, advance, arrived
from reenact.server.exchanges.ingest_lines import Taken
from reenact.server.exchanges.recordings import calls_of
from reenact.server.exchanges.states import follows
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_noise import rules_of
from reenact.server.storage.exchange_rows import find_exchange

__all__ = ["Judged", "complete", "judge", "side_by_side", "with_rules"]


class Judged(msgspec.Struct, frozen=True):
    """How a replay compares with its source, and why it is not the same."""

    summary: DiffSummary
    cause: str = ""


async def judge(server: Server, tenant: str, replayed: Exchange) -> Judged | None:
    """How the exchange of a replay compares with its source; None when it has none. Takes its time,
    and no transaction."""
    if replayed.replay is None:
        return None
    async with server.database.reading(tenant) as scope:
        source = await find_exchange(scope, replayed.replay.source_exchange_id)
    if source is None:
        return None
    try:
        found = await side_by_side(server, tenant, source.app, exchange_of(source), replayed)
    except Problem:  # what cannot be compared is not said to be the same
        return Judged(DiffSummary("diverged"), "it cannot be compared")
    counts = found.counts
    summary = DiffSummary(found.verdict, counts.added, counts.removed, counts.changed)
    return Judged(summary, found.cause)


async def side_by_side(
    server: Server, tenant: str, app: str, before: Exchange, after: Exchange
) -> Comparison:
    """The comparison of two exchanges, by the noise rules of the first one's route. Raises
    :class:`Problem` when a recording cannot be read."""
    [found] = await with_rules(server, tenant, app, before, after, [()])
    return found


async def with_rules(
    server: Server,
    tenant: str,
    app: str,
    before: Exchange,
    after: Exchange,
    more: Sequence[tuple[NoiseRule, ...]],
) -> list[Comparison]:
    """The same as it would be with each of ``more`` besides the rules that there are."""
    async with server.database.reading(tenant) as scope:
        rules = await rules_of(scope, app, before.route_id)
    made = await calls_of(server, tenant, before)
    makes = await calls_of(server, tenant, after)
    return [
        await asyncio.to_thread(compare, before, after, made, makes, merged(rules, one))
        for one in more
    ]


async def complete(
    server: Server, scope: Scope, replay: Row[Any], taken: Taken, judged: Judged, actor: Actor
) -> bool:
    """The exchange of ``replay`` is here: the replay is done. False when it is too late."""
    replay = await arrived(server, scope, replay, actor)
    if not follows(replay.state, "completed"):
        return False
    exchange = taken.exchange
    outcome = msgspec.to_builtins(
        {"status": exchange.status, "error": exchange.error, "result": exchange.result}
    )
    came = Came(
        exchange_id=exchange.exchange_id,
        result_digest=await server.auditor.remember(scope, outcome),
        trace_digest=taken.digest,
        summary=judged.summary,
        cause=judged.cause,
    )
    return await advance(server, scope, replay, "completed", actor, came=came)
