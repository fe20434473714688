"""Replays, looked at and cancelled."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact._system import monotonic
from reenact.audit.record import Record
from reenact.exchange.model import STATES, TERMINAL, VERDICTS, Command
from reenact.server.access import Place, replay_permission
from reenact.server.agents.sse import Channel, EventStream
from reenact.server.agents.waiting import rest
from reenact.server.answering import Listed
from reenact.server.asking import Ask, Caller
from reenact.server.audit import actor_of
from reenact.server.exchanges.finishing import advance, source_of, target_of
from reenact.server.exchanges.history import may_read, places_of
from reenact.server.exchanges.issuing import send
from reenact.server.exchanges.paging import listed, one_of, page_of
from reenact.server.exchanges.shapes import ReplayView
from reenact.server.exchanges.subjects import agent_subject, replay_subject
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_outbox import has_cancel, was_sent
from reenact.server.storage.exchange_replays import ReplayFilters, find_replay, list_replays
from reenact.server.storage.people_rows import environment_kind

__all__ = ["cancel", "cancel_replay", "get_replay", "read_replay", "read_replays", "watch_replay"]


async def get_replay(ask: Ask, replay_id: str) -> Row[Any]:
    """A row, for somebody who may read it. Raises :class:`Problem`."""
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await _found(scope, replay_id)
    may_read(ask, row)
    return row


async def _found(scope: Scope, replay_id: str) -> Row[Any]:
    row = await find_replay(scope, replay_id)
    if row is None:
        raise Problem("not_found", "there is no such replay")
    return row


async def read_replays(ask: Ask) -> Listed:
    """``GET /api/v1/replays``: those that the one who asks may read, the newest first."""
    page = page_of(ask)
    filters = ReplayFilters(
        exchange=ask.query("exchange"),
        app=ask.query("app"),
        environment=ask.query("environment"),
        route=ask.query("route"),
        state=one_of(ask, "state", STATES),
        verdict=one_of(ask, "verdict", VERDICTS),
        by=ask.query("by"),
        since=ask.number("since", 0),
        until=ask.number("until", 0),
    )
    async with ask.server.database.reading(ask.tenant) as scope:
        rows = await list_replays(scope, filters, places_of(ask, "exchange:read"), page)
    return listed(rows, page, "requested_at", "replay_id", ReplayView.of)


async def read_replay(ask: Ask) -> ReplayView:
    """``GET /api/v1/replays/{id}``: as it is now."""
    return ReplayView.of(await get_replay(ask, ask.path("id")))


async def watch_replay(ask: Ask) -> Response:
    """Every state from the present one to the last one, as it comes."""
    row = await get_replay(ask, ask.path("id"))

    async def write(channel: Channel) -> None:
        await channel.retry(ask.server.timings.retry)
        await _tell(ask, channel, row)

    return EventStream(write, ask.server.timings.slow)


async def _tell(ask: Ask, channel: Channel, row: Row[Any]) -> None:
    server, said, quiet_since = ask.server, "", monotonic()
    with server.hints.listening(replay_subject(ask.tenant, row.replay_id)) as ear:
        while not server.stopping.is_set():
            async with server.database.reading(ask.tenant) as scope:
                row = await _found(scope, row.replay_id)
            if row.state != said:
                said, quiet_since = row.state, monotonic()
                await channel.event("state", msgspec.json.encode(ReplayView.of(row)))
            if row.state in TERMINAL:
                return
            if monotonic() - quiet_since >= server.timings.ping:
                quiet_since = monotonic()
                await channel.ping()
            await rest(server, ear, server.timings.poll)


async def cancel_replay(ask: Ask) -> ReplayView:
    """``POST /api/v1/replays/{id}/cancel``: the replay as it is then, also when it had ended."""
    return ReplayView.of(await cancel(ask, ask.path("id")))


async def cancel(caller: Caller, replay_id: str) -> Row[Any]:
    """One that has not left yet ends at once; of another the agent is told. One that has ended
    stays as it is."""
    server = caller.server
    async with server.database.writing(caller.tenant) as scope:
        row = await _found(scope, replay_id)
        permission = replay_permission(await environment_kind(scope, row.environment))
        caller.require(permission, Place(row.environment, row.app))
        if row.state not in TERMINAL and not await has_cancel(scope, row.replay_id):
            await server.auditor.write(scope, await _cancelled(caller, scope, row, permission))
            if row.state == "requested" and not await was_sent(scope, row.replay_id):
                await advance(server, scope, row, "cancelled", actor_of(caller.principal))
            else:
                await send(server, scope, _cancel(caller, row), server.now())
        row = await _found(scope, row.replay_id)
    server.hints.give(replay_subject(caller.tenant, row.replay_id))
    server.hints.give(agent_subject(caller.tenant, row.agent_id))
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
