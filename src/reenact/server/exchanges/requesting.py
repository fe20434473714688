"""``POST /exchanges/{id}/replays``: the question, every reason to say no, and the record of either."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.audit.record import Record, Source, Target
from reenact.format.canonical import digest_bytes
from reenact.server.asking import Ask
from reenact.server.audit import actor_of
from reenact.server.exchanges.issuing import issue
from reenact.server.exchanges.planning import Goal, Plan, aim, plan
from reenact.server.exchanges.shapes import ReplayView
from reenact.server.exchanges.subjects import agent_subject
from reenact.server.exchanges.wanting import ReplayRequest
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_replays import (
    count_replays,
    find_replay,
    find_request,
    remember_request,
)
from reenact.server.storage.exchange_rows import find_exchange

__all__ = ["request_replay"]

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_MINUTE: Final = 60_000


async def request_replay(ask: Ask) -> Response:
    """202 with the replay. Whatever is refused is in the audit log, with its code."""
    wanted = await ask.json(ReplayRequest, most=4 * ask.server.limits.payload)
    key = _Key.of(ask, wanted)
    async with ask.server.database.reading(ask.tenant) as scope:
        source = await find_exchange(scope, ask.path("id"))
        if source is None:
            raise Problem("not_found", "there is no such exchange")
        goal: Goal | None = None
        before: Row[Any] | None = None
        refused: Problem | None = None
        try:
            goal = await aim(ask, scope, source, wanted)
            before = await key.before(scope)
            if before is None:
                planned = plan(ask, source, wanted, goal)
        except Problem as problem:
            refused = problem
    if refused is not None:
        raise await _denied(ask, source, wanted, goal, refused)
    if before is not None:
        return _answer(before)
    try:
        row = await _commit(ask, planned, key)
    except Problem as problem:
        raise await _denied(ask, source, wanted, goal, problem) from None
    ask.server.hints.give(agent_subject(ask.tenant, row.agent_id))
    return _answer(row)


async def _commit(ask: Ask, planned: Plan, key: _Key) -> Row[Any]:
    async with ask.server.database.writing(ask.tenant) as scope:
        before = await key.before(scope)  # somebody may have been quicker
        if before is not None:
            return before
        await _check_rate(ask, scope)
        replay_id = await issue(ask, scope, planned)
        await key.remember(scope, replay_id)
        row = await find_replay(scope, replay_id)
        if row is None:
            raise Problem("internal", "the replay was not written")
        return row


async def _check_rate(ask: Ask, scope: Scope) -> None:
    most = ask.server.limits.replays_per_minute
    if await count_replays(scope, ask.server.now() - _MINUTE + 1) >= most:
        raise Problem(
            "rate_limited",
            f"more than {most} replays in a minute",
            hint="wait, and ask again",
            retry_after=_MINUTE // 1000,
        )


class _Key:
    """The ``Idempotency-Key``; without one every request is another one."""

    def __init__(self, ask: Ask, text: str, digest: str) -> None:
        self._ask = ask
        self._text = text
        self._digest = digest
        self._principal = f"{ask.principal.type}:{ask.principal.id}"

    @classmethod
    def of(cls, ask: Ask, wanted: ReplayRequest) -> _Key:
        text = ask.request.headers.get("idempotency-key", "")
        if text and not _KEY.fullmatch(text):
            raise Problem("invalid", "Idempotency-Key has 1 to 200 visible ASCII characters")
        return cls(ask, text, digest_bytes(msgspec.json.encode((ask.path("id"), wanted))))

    async def before(self, scope: Scope) -> Row[Any] | None:
        """The replay that was asked for under this key. Raises :class:`Problem` when something
        else was."""
        found = await find_request(scope, self._principal, self._text) if self._text else None
        if found is None:
            return None
        if found.digest != self._digest:
            raise Problem(
                "idempotency_conflict",
                "something else was asked for under this Idempotency-Key",
                hint="use a new key for a new replay",
            )
        row = await find_replay(scope, found.replay_id)
        if row is None:
            raise Problem("gone", "the replay that was asked for under this key is gone")
        return row

    async def remember(self, scope: Scope, replay_id: str) -> None:
        if self._text:
            await remember_request(
                scope, self._principal, self._text, self._digest, replay_id, self._ask.server.now()
            )


def _answer(row: Row[Any]) -> Response:
    headers = {"Location": f"/api/v1/replays/{row.replay_id}"}
    body = msgspec.json.encode(ReplayView.of(row))
    return Response(body, 202, headers, "application/json")


async def _denied(
    ask: Ask, source: Row[Any], wanted: ReplayRequest, goal: Goal | None, problem: Problem
) -> Problem:
    """``problem``, once it is in the log."""
    permission = problem.details.get("permission") or (
        goal.permission if goal is not None else "replay:execute"
    )
    agent = goal.agent if goal is not None else None
    record = Record(
        tenant=ask.tenant,
        actor=actor_of(ask.principal),
        action="replay.denied",
        env=(goal.place.environment if goal is not None else None) or source.environment,
        source=Source(source.exchange_id, source.digest, source.route_id, source.revision),
        target=Target(agent.agent_id, agent.app) if agent is not None else None,
        boundaries=wanted.boundaries,
        reason=wanted.reason,
        permission=str(permission),
        tier=ask.principal.tenant.tier,
        code=problem.code,
        outcome="denied" if problem.status == 403 else "refused",
    )
    async with ask.server.database.writing(ask.tenant) as scope:
        await ask.server.auditor.write(scope, record)
    problem.audited = True
    return problem
