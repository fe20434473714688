"""Replays: request, list, read, cancel, prove.

Single replays and batches are requested through :func:`order`, so all of them pass the same checks.
Refusals are audited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Record, Source, Target, read_record
from reenact.audit.replay_proof import Opening, ReplayProof
from reenact.exchange.model import TERMINAL, Command
from reenact.format.canonical import digest_bytes
from reenact.server.audit.log import actor_of
from reenact.server.auth.permissions import ResourceScope, replay_permission
from reenact.server.context import Caller
from reenact.server.exchanges.redaction import clean_text
from reenact.server.exchanges.schema import ReplayView
from reenact.server.exchanges.service import may_read, places_of
from reenact.server.notifications import agent_subject, replay_subject
from reenact.server.pagination import ListResponse, listed
from reenact.server.problems import Problem
from reenact.server.replays.checks import permission_used
from reenact.server.replays.commands import issue, send
from reenact.server.replays.plan import Plan, ReplayTarget, choose_target, plan
from reenact.server.replays.schema import ReplayRequest
from reenact.server.replays.state import advance, source_of, target_of
from reenact.server.storage.batches import count_asked
from reenact.server.storage.database import Scope
from reenact.server.storage.exchanges import find_exchange
from reenact.server.storage.people import environment_kind
from reenact.server.storage.replays import (
    ReplayFilters,
    count_replays,
    find_replay,
    find_request,
    has_cancel,
    list_replays,
    remember_request,
    was_sent,
)
from reenact.server.storage.retention import is_erased
from reenact.server.storage.rows import Page

__all__ = [
    "Idempotency",
    "cancel",
    "cancel_replay",
    "get_replay",
    "order",
    "prove_replay",
    "read_replay",
    "replay_of_key",
    "request_replay",
    "search_replays",
]


class Idempotency(Protocol):
    """Guard that turns a repeated request into one replay."""

    @property
    def batch(self) -> str:
        """Id of the batch; empty for a single replay."""

    async def before(self, scope: Scope) -> Row[Any] | None:
        """The replay that was ordered before. Raises :class:`Problem` when there cannot be one."""

    async def check(self, scope: Scope) -> None:
        """Raises :class:`Problem` when there are too many at the moment. In the transaction in
        which the replay is written."""

    async def remember(self, scope: Scope, replay_id: str) -> None:
        """In the same transaction, when it is written."""


async def order(
    caller: Caller, exchange_id: str, wanted: ReplayRequest, once: Idempotency
) -> Row[Any]:
    """Return the new replay, or the one of an earlier request.

    Raises :class:`Problem`; refusals are audited with their code.
    """
    async with caller.server.database.reading(caller.tenant) as scope:
        source = await find_exchange(scope, exchange_id)
        if source is None:
            raise Problem("not_found", "there is no such exchange")
        goal: ReplayTarget | None = None
        before: Row[Any] | None = None
        refused: Problem | None = None
        try:
            goal = await choose_target(caller, scope, source, wanted)
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
    caller.server.notifications.publish(agent_subject(caller.tenant, row.agent_id))
    return row


async def _check_recording(scope: Scope, source: Row[Any], wanted: ReplayRequest) -> None:
    if wanted.boundaries == "live" or not source.recording_digest:
        return
    if await is_erased(scope, source.recording_digest):
        raise Problem(
            "not_replayable",
            "the recording of its calls is no longer stored",
            hint="retention has erased it",
            command="reenact retention show",
        )


async def _commit(caller: Caller, planned: Plan, once: Idempotency) -> Row[Any]:
    async with caller.server.database.writing(caller.tenant) as scope:
        before = await once.before(scope)  # a concurrent request may have been faster
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
    caller: Caller,
    source: Row[Any],
    wanted: ReplayRequest,
    goal: ReplayTarget | None,
    problem: Problem,
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


_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_MINUTE: Final = 60_000


async def request_replay(
    caller: Caller, exchange_id: str, wanted: ReplayRequest, key: str
) -> ReplayView:
    """Request a replay once per idempotency ``key``; an empty key always requests a new one.

    Raises :class:`Problem`.
    """
    return ReplayView.of(
        await order(caller, exchange_id, wanted, _Key.of(caller, key, exchange_id, wanted))
    )


class _Key:
    """Idempotency key of a single replay."""

    batch = ""

    def __init__(self, caller: Caller, text: str, digest: str) -> None:
        self._server = caller.server
        self._text = text
        self._digest = digest
        self._principal = _requester(caller)

    @classmethod
    def of(cls, caller: Caller, text: str, exchange_id: str, wanted: ReplayRequest) -> _Key:
        if text and not _KEY.fullmatch(text):
            raise Problem("invalid", "Idempotency-Key has 1 to 200 visible ASCII characters")
        return cls(caller, text, digest_bytes(msgspec.json.encode((exchange_id, wanted))))

    async def before(self, scope: Scope) -> Row[Any] | None:
        """The replay that was asked for under this key. Raises :class:`Problem` when something
        else was."""
        found = await find_request(scope, self._principal, self._text) if self._text else None
        if found is None:
            return None
        if found.digest != self._digest:
            raise Problem(
                "idempotency_conflict",
                "a different request was sent with this Idempotency-Key",
                hint="use a new key for a new replay",
            )
        row = await find_replay(scope, found.replay_id)
        if row is None:
            raise Problem("gone", "the replay that was requested with this key was deleted")
        return row

    async def check(self, scope: Scope) -> None:
        """Check the rate limit of a tenant. Batches have their own limits."""
        most, since = self._server.limits.replays_per_minute, self._server.now() - _MINUTE + 1
        if await count_replays(scope, since) - await count_asked(scope, since) >= most:
            raise Problem(
                "rate_limited",
                f"more than {most} replays in a minute",
                hint="wait, and ask again",
                retry_after=_MINUTE // 1000,
            )

    async def remember(self, scope: Scope, replay_id: str) -> None:
        if self._text:
            await remember_request(
                scope, self._principal, self._text, self._digest, replay_id, self._server.now()
            )


async def get_replay(caller: Caller, replay_id: str) -> Row[Any]:
    """Return the row of a replay that the caller can read. Raises :class:`Problem`."""
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await _found(scope, replay_id)
    may_read(caller, row)
    return row


async def _found(scope: Scope, replay_id: str) -> Row[Any]:
    row = await find_replay(scope, replay_id)
    if row is None:
        raise Problem("not_found", "there is no such replay")
    return row


async def search_replays(
    caller: Caller, filters: ReplayFilters, page: Page
) -> ListResponse[ReplayView]:
    """Return the replays that the caller can read, newest first."""
    async with caller.server.database.reading(caller.tenant) as scope:
        rows = await list_replays(scope, filters, places_of(caller, "exchange:read"), page)
    return listed(rows, page, "requested_at", "replay_id", ReplayView.of)


async def read_replay(caller: Caller, replay_id: str) -> ReplayView:
    """Return the current state of a replay. Raises :class:`Problem`."""
    return ReplayView.of(await get_replay(caller, replay_id))


def _requester(caller: Caller) -> str:
    return f"{caller.principal.type}:{caller.principal.id}"


async def replay_of_key(caller: Caller, key: str) -> str:
    """Return the id of the replay that the caller requested with this idempotency key, or an empty
    string."""
    caller.require_anywhere("exchange:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        found = await find_request(scope, _requester(caller), key)
    return "" if found is None else str(found.replay_id)


async def cancel_replay(caller: Caller, replay_id: str) -> ReplayView:
    """Cancel a replay that has not ended, and return its state. Raises :class:`Problem`."""
    return ReplayView.of(await cancel(caller, replay_id))


async def cancel(caller: Caller, replay_id: str) -> Row[Any]:
    """Cancel a replay.

    One that was not sent ends immediately; otherwise the agent gets a command. A replay that has
    ended is unchanged.
    """
    server = caller.server
    async with server.database.writing(caller.tenant) as scope:
        row = await _found(scope, replay_id)
        permission = replay_permission(await environment_kind(scope, row.environment))
        caller.require(permission, ResourceScope(row.environment, row.app))
        if row.state not in TERMINAL and not await has_cancel(scope, row.replay_id):
            await server.auditor.write(scope, await _cancelled(caller, scope, row, permission))
            if row.state == "requested" and not await was_sent(scope, row.replay_id):
                await advance(server, scope, row, "cancelled", actor_of(caller.principal))
            else:
                await send(server, scope, _cancel(caller, row), server.now())
        row = await _found(scope, row.replay_id)
    server.notifications.publish(replay_subject(caller.tenant, row.replay_id))
    server.notifications.publish(agent_subject(caller.tenant, row.agent_id))
    return row


def _cancel(caller: Caller, row: Row[Any]) -> Command:
    server = caller.server
    return Command(
        type="cancel",
        command_id=server.new_id("cmd"),
        replay_id=row.replay_id,
        tenant=caller.tenant,
        agent_id=row.agent_id,
        issued_at=server.now(),
        expires_at=row.deadline,
        nonce=server.secret(16).hex(),
    )


async def _cancelled(caller: Caller, scope: Scope, row: Row[Any], permission: str) -> Record:
    return Record(
        tenant=caller.tenant,
        actor=actor_of(caller.principal),
        action="replay.cancelled",
        env=row.environment,
        source=await source_of(scope, row.source_exchange_id),
        target=target_of(row),
        replay_id=row.replay_id,
        boundaries=row.boundaries,
        permission=permission,
        outcome="ok",
    )


async def prove_replay(caller: Caller, replay_id: str) -> ReplayProof:
    """Return a proof that can be verified offline. Raises :class:`Problem`.

    It contains values only for a caller who can also read the exchange.
    """
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await find_replay(scope, replay_id)
        if row is None:
            raise Problem("not_found", "there is no such replay")
        caller.require("audit:read", ResourceScope(row.environment, row.app))
        return await _proof(caller, scope, row)


async def _proof(caller: Caller, scope: Scope, row: Row[Any]) -> ReplayProof:
    auditor = caller.server.auditor
    requested = await auditor.prove(scope, row.audit_seq)
    finished = await auditor.prove(scope, row.result_seq) if row.result_seq else None
    records = [read_record(one.leaf) for one in (requested, finished) if one is not None]
    readable = caller.may("exchange:read", ResourceScope(row.environment, row.app)).allowed
    return ReplayProof(
        replay_id=row.replay_id,
        key=auditor.key(scope.tenant).to_text(),
        requested=requested.to_text(),
        finished=finished.to_text() if finished is not None else "",
        values=await _openings(caller, scope, records) if readable else (),
    )


async def _openings(caller: Caller, scope: Scope, records: list[Record]) -> tuple[Opening, ...]:
    found: list[Opening] = []
    for digest in dict.fromkeys(one for record in records for one in _digests(record)):
        kept = await caller.server.auditor.recall(scope, digest)
        if kept is not None:
            found.append(Opening(digest, kept.salt, kept.value))
    return tuple(found)


def _digests(record: Record) -> Iterator[str]:
    digests = [record.payload_digest_before, record.payload_digest_after, record.result_digest]
    for change in record.patch:
        digests += (change.before, change.after)
    yield from filter(None, digests)
