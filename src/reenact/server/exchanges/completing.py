"""The end of a replay that ran: its exchange has come in, and is compared with its source."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Actor, DiffSummary
from reenact.exchange.comparison.compare import compare
from reenact.exchange.comparison.noise import NoiseRule, merged
from reenact.exchange.comparison.result import Comparison, ending_of, http_status_of
from reenact.exchange.model import Exchange, Payload
from reenact.server.exchanges.containment import details_of
from reenact.server.exchanges.documents import exchange_of, loose
from reenact.server.exchanges.finishing import Came, advance, arrived
from reenact.server.exchanges.ingest_lines import Taken
from reenact.server.exchanges.recordings import calls_of
from reenact.server.exchanges.start_payload import first_difference
from reenact.server.exchanges.states import follows
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_noise import rules_of
from reenact.server.storage.exchange_replays import find_replay
from reenact.server.storage.exchange_rows import find_exchange

__all__ = [
    "START_MISMATCH",
    "Judged",
    "complete",
    "judge",
    "refuse_start",
    "side_by_side",
    "with_rules",
]

START_MISMATCH: Final = "start_mismatch"
_OTHER_START: Final = "the agent replayed a start payload that is not the commanded one"
_MESSAGE: Final = 500


class Judged(msgspec.Struct, frozen=True):
    """How a replay compares with its source, and why it is not the same."""

    summary: DiffSummary
    cause: str = ""
    other_start: str | None = None
    """Where its start payload is not the one of the command; None when it is."""


async def judge(server: Server, tenant: str, replayed: Exchange) -> Judged | None:
    """How the exchange of a replay compares with its source; None when it has none. Takes its time,
    and no transaction."""
    if replayed.replay is None:
        return None
    async with server.database.reading(tenant) as scope:
        source = await find_exchange(scope, replayed.replay.source_exchange_id)
        replay = await find_replay(scope, replayed.replay.replay_id)
    if source is None:
        return None
    if replay is not None and replay.payload:
        other = await asyncio.to_thread(_other_start, replay, replayed)
        if other is not None:
            return Judged(DiffSummary("diverged"), _OTHER_START, other)
    try:
        found = await side_by_side(server, tenant, source.app, exchange_of(source), replayed)
    except Problem:  # what cannot be compared is not said to be the same
        return Judged(DiffSummary("diverged"), "it cannot be compared")
    counts = found.counts
    summary = DiffSummary(found.verdict, counts.added, counts.removed, counts.changed)
    return Judged(summary, found.cause)


def _other_start(replay: Row[Any], replayed: Exchange) -> str | None:
    commanded = loose(replay.payload, Payload)
    unknown = msgspec.json.decode(replay.redacted, type=tuple[str, ...])
    return first_difference(commanded, replayed.start, unknown)


async def refuse_start(
    server: Server, scope: Scope, replay: Row[Any], judged: Judged, actor: Actor
) -> bool:
    """The agent did something else than it was told: the replay has failed. False when it is too
    late for that."""
    replay = await arrived(server, scope, replay, actor)
    message = f"{_OTHER_START}, first at {judged.other_start or 'the whole payload'}"
    return await advance(
        server, scope, replay, "failed", actor, code=START_MISMATCH, message=message[:_MESSAGE]
    )


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
        ending=ending_of(exchange),
        http_status=http_status_of(exchange),
        details=_details(exchange),
    )
    return await advance(server, scope, replay, "completed", actor, came=came)


def _details(exchange: Exchange) -> dict[str, str]:
    """What the app agent has reported about drivers, files and variables while the replay ran."""
    replay = exchange.replay
    if replay is None or replay.containment is None:
        return {}
    return details_of(replay.containment, replay.environment_variables)
