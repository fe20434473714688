"""A replay, ordered by somebody: every reason to say no, and the record of either.

There is no other way to a replay. Whoever orders one, with a request or with a batch, comes through
here, and is asked the same.
"""

from __future__ import annotations

from typing import Any, Protocol

from sqlalchemy import Row

from reenact.audit.record import Record, Source, Target
from reenact.server.asking import Caller
from reenact.server.audit import actor_of
from reenact.server.exchanges.cleaning import clean_text
from reenact.server.exchanges.issuing import issue
from reenact.server.exchanges.planning import Goal, Plan, aim, plan
from reenact.server.exchanges.rights import permission_used
from reenact.server.exchanges.subjects import agent_subject
from reenact.server.exchanges.wanting import ReplayRequest
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_replays import find_replay
from reenact.server.storage.exchange_rows import find_exchange
from reenact.server.storage.retention_rows import is_erased

__all__ = ["Once", "order"]


class Once(Protocol):
    """What keeps an order that is given twice one replay."""

    @property
    def batch(self) -> str:
        """The batch that it is a part of; empty for one by itself."""

    async def before(self, scope: Scope) -> Row[Any] | None:
        """The replay that was ordered before. Raises :class:`Problem` when there cannot be one."""

    async def check(self, scope: Scope) -> None:
        """Raises :class:`Problem` when there are too many at the moment. In the transaction in
        which the replay is written."""

    async def remember(self, scope: Scope, replay_id: str) -> None:
        """In the same transaction, when it is written."""


async def order(caller: Caller, exchange_id: str, wanted: ReplayRequest, once: Once) -> Row[Any]:
    """The replay, new or from before. Raises :class:`Problem`; whatever is refused is in the audit
    log, with its code."""
    async with caller.server.database.reading(caller.tenant) as scope:
        source = await find_exchange(scope, exchange_id)
        if source is None:
            raise Problem("not_found", "there is no such exchange")
        goal: Goal | None = None
        before: Row[Any] | None = None
        refused: Problem | None = None
        try:
            goal = await aim(caller, scope, source, wanted)
            before = await once.before(scope)
            if before is None:
                planned = plan(caller, source, wanted, goal)
                await _check_recording(scope, source, wanted)
        except Problem as problem:
            refused = problem
    if refused is not None:
        raise await _denied(caller, source, wanted, goal, refused)
    if before is not None:
        return before
    try:
        row = await _commit(caller, planned, once)
    except Problem as problem:
        raise await _denied(caller, source, wanted, goal, problem) from None
    caller.server.hints.give(agent_subject(caller.tenant, row.agent_id))
    return row


async def _check_recording(scope: Scope, source: Row[Any], wanted: ReplayRequest) -> None:
    if wanted.boundaries == "live" or not source.recording_digest:
        return
    if await is_erased(scope, source.recording_digest):
        raise Problem(
            "not_replayable",
            "the recording of its calls is not kept any more",
            hint="retention has erased it",
            command="reenact retention show",
        )


async def _commit(caller: Caller, planned: Plan, once: Once) -> Row[Any]:
    async with caller.server.database.writing(caller.tenant) as scope:
        before = await once.before(scope)  # somebody may have been quicker
        if before is not None:
            return before
        await once.check(scope)
        replay_id = await issue(caller, scope, planned, once.batch)
        await once.remember(scope, replay_id)
        row = await find_replay(scope, replay_id)
        if row is None:
            raise Problem("internal", "the replay was not written")
        return row


async def _denied(
    caller: Caller, source: Row[Any], wanted: ReplayRequest, goal: Goal | None, problem: Problem
) -> Problem:
    """``problem``, once it is in the log."""
    if problem.audited:
        return problem
    permission = problem.details.get("permission") or (
        permission_used(goal.kind, wanted.boundaries) if goal is not None else "replay:execute"
    )
    agent = goal.agent if goal is not None else None
    record = Record(
        tenant=caller.tenant,
        actor=actor_of(caller.principal),
        action="replay.denied",
        env=(goal.place.environment if goal is not None else None) or source.environment,
        source=Source(source.exchange_id, source.digest, source.route_id, source.revision),
        target=Target(agent.agent_id, agent.app) if agent is not None else None,
        boundaries=wanted.boundaries,
        reason=clean_text(wanted.reason),
        permission=str(permission),
        tier=caller.principal.tenant.tier,
        code=problem.code,
        outcome="denied" if problem.status == 403 else "refused",
    )
    async with caller.server.database.writing(caller.tenant) as scope:
        await caller.server.auditor.write(scope, record)
    problem.audited = True
    return problem
