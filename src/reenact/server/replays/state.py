"""States of a replay, their deadlines, and the transitions between them.

requested ─► delivered ─► running ─► completed
    │            │           │     └► failed
    └────────────┴───────────┴──────► refused, cancelled, expired

The end of a replay is written together with the second of its two audit records.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Actor, DiffSummary, Record, Source, Target
from reenact.exchange.model import TERMINAL, State
from reenact.server.audit.log import SYSTEM
from reenact.server.runtime import Server, Timings
from reenact.server.storage.database import Scope
from reenact.server.storage.exchanges import find_exchange
from reenact.server.storage.replays import change_replay, end_commands, find_replay, was_sent

__all__ = [
    "NEXT",
    "ReplayResult",
    "advance",
    "arrived",
    "deadline_of",
    "due_at",
    "follows",
    "give_up",
    "source_of",
    "target_of",
]

_OUTCOMES: Final[dict[State, str]] = {
    "completed": "ok",
    "failed": "failed",
    "refused": "refused",
    "cancelled": "cancelled",
    "expired": "expired",
}


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a replay: its exchange, the digests, and the comparison."""

    exchange_id: str = ""
    result_digest: str = ""
    trace_digest: str = ""
    summary: DiffSummary | None = None
    cause: str = ""
    ending: str = ""
    http_status: int = 0
    details: dict[str, str] = {}


async def give_up(server: Server, scope: Scope, replay: Row[Any]) -> bool:
    """End ``replay``, as read in this transaction, because its agent was lost.

    A running replay has failed, any other is refused.
    """
    state: State = "failed" if replay.state == "running" else "refused"
    message = "the agent has signed off, or is not heard any more"
    return await advance(
        server, scope, replay, state, SYSTEM, code="agent_offline", message=message
    )


async def advance(
    server: Server,
    scope: Scope,
    replay: Row[Any],
    state: State,
    actor: Actor,
    *,
    code: str = "",
    message: str = "",
    outcome: ReplayResult | None = None,
) -> bool:
    """Put ``replay``, as it was read in this transaction, into ``state``. False, and nothing is
    changed, when that cannot follow: it comes late, or twice."""
    if not follows(replay.state, state):
        return False
    now = server.now()
    values: dict[str, Any] = {
        "state": state,
        "code": code,
        "message": message,
        "due_at": due_at(state, now, replay.deadline, server.timings),
        **_stamp(state, now),
    }
    if state in TERMINAL:
        values["payload"] = b""
    if outcome is not None and outcome.summary is not None:
        values.update(
            exchange_id=outcome.exchange_id,
            verdict=outcome.summary.verdict,
            cause=outcome.cause,
            ending=outcome.ending,
            http_status=outcome.http_status,
        )
    if not await change_replay(scope, replay.replay_id, replay.state, values):
        return False
    if state in TERMINAL:
        await end_commands(scope, replay.replay_id, now)
        record = await _finished(scope, replay, state, actor, code, outcome)
        seq = await server.auditor.write(scope, record)
        await change_replay(scope, replay.replay_id, state, {"result_seq": seq})
        server.meters.add("reenact_replays_ended_total", state=state)
    else:
        await end_commands(scope, replay.replay_id, now, only="replay")
    return True


async def arrived(server: Server, scope: Scope, replay: Row[Any], actor: Actor) -> Row[Any]:
    """Return ``replay`` after a report of its agent, so at least delivered.

    The acknowledgement of the command may have been lost.
    """
    if replay.state != "requested" or not await was_sent(scope, replay.replay_id):
        return replay
    await advance(server, scope, replay, "delivered", actor)
    return await find_replay(scope, replay.replay_id) or replay


def _stamp(state: State, now: int) -> dict[str, int]:
    if state in TERMINAL:
        return {"ended_at": now}
    return {"delivered_at": now} if state == "delivered" else {"started_at": now}


async def _finished(
    scope: Scope,
    replay: Row[Any],
    state: State,
    actor: Actor,
    code: str,
    outcome: ReplayResult | None,
) -> Record:
    outcome = outcome or ReplayResult()
    return Record(
        tenant=scope.tenant,
        actor=actor,
        action="replay.finished",
        env=replay.environment,
        source=await source_of(scope, replay.source_exchange_id),
        target=target_of(replay),
        replay_id=replay.replay_id,
        boundaries=replay.boundaries,
        outcome=_OUTCOMES[state],
        code=code[:128],
        result_exchange_id=outcome.exchange_id,
        result_digest=outcome.result_digest,
        trace_digest=outcome.trace_digest,
        diff_summary=outcome.summary,
        details=outcome.details,
    )


async def source_of(scope: Scope, exchange_id: str) -> Source:
    """The source exchange, as records name it."""
    row = await find_exchange(scope, exchange_id)
    if row is None:
        return Source(exchange_id)
    return Source(exchange_id, row.digest, row.route_id, row.revision)


def target_of(replay: Row[Any]) -> Target:
    """The agent and the app of a replay, as records name them."""
    return Target(replay.agent_id, replay.app)


NEXT: Final[dict[State, frozenset[State]]] = {
    "requested": frozenset({"delivered", "refused", "cancelled", "expired"}),
    "delivered": frozenset({"running", "refused", "failed", "cancelled", "completed", "expired"}),
    "running": frozenset({"completed", "failed", "cancelled", "expired"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "refused": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
}


def follows(before: State, after: State) -> bool:
    """May a replay go from ``before`` to ``after``? What comes late, or twice, may not."""
    return after in NEXT[before]


def deadline_of(requested_at: int, timings: Timings) -> int:
    """Until when a replay that is asked for now has to be done, in milliseconds."""
    return requested_at + _ms(timings.deliver + timings.start + timings.run)


def due_at(state: State, now: int, deadline: int, timings: Timings) -> int:
    """Return when a state that begins now expires; 0 means never."""
    if state == "requested":
        return now + _ms(timings.deliver)
    if state == "delivered":
        return min(deadline, now + _ms(timings.start))
    return deadline if state == "running" else 0


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
