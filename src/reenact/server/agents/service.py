"""App agents: list, registration, heartbeat, sign-off, and their part in replays.

A key acts only for agents that registered with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Record, Subject
from reenact.errors import UsageError
from reenact.exchange.containment import drivers_text
from reenact.exchange.model import (
    PROTOCOL,
    TERMINAL,
    Containment,
    Heartbeat,
    Payload,
    Registered,
    Registration,
    ReplaySource,
    Route,
    StateReport,
)
from reenact.server.agents.presence import Presence, forgotten_since, heard_since, presence
from reenact.server.audit.log import actor_of
from reenact.server.auth.permissions import EnvironmentKind
from reenact.server.context import Caller
from reenact.server.exchanges.redaction import clean_registration, clean_text
from reenact.server.exchanges.service import places_of, recording_of
from reenact.server.notifications import agent_subject, replay_subject
from reenact.server.pagination import ListResponse, listed
from reenact.server.problems import Problem
from reenact.server.replays.checks import containment_of
from reenact.server.replays.state import advance, arrived, give_up
from reenact.server.storage.agents import (
    AgentFilters,
    add_agent,
    change_agent,
    find_agent,
    hear_agent,
    list_agents,
)
from reenact.server.storage.database import Scope
from reenact.server.storage.exchanges import find_exchange
from reenact.server.storage.people import environment_kind, environments
from reenact.server.storage.replays import find_replay, open_replays
from reenact.server.storage.rows import Page, exchange_of, unpack

__all__ = [
    "AgentView",
    "agent_name",
    "heartbeat",
    "present_agent",
    "read_source",
    "read_source_recording",
    "register",
    "report_state",
    "say_goodbye",
    "search_agents",
]


class AgentView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An agent as it was last heard of."""

    agent_id: str
    name: str
    app: str
    environment: str
    environment_kind: EnvironmentKind
    version: str
    state: str
    registered_at: int
    last_seen_at: int
    routes: tuple[Route, ...]
    capabilities: list[str]
    containment: Containment
    spooled: int
    dropped: int
    running: list[str]


async def search_agents(
    caller: Caller,
    page: Page,
    *,
    app: str = "",
    environment: str = "",
    states: Sequence[Presence] = ("online", "offline"),
) -> ListResponse[AgentView]:
    """Return the agents that the caller can see, last registration first. No ``states`` means all
    of them."""
    caller.require_anywhere("agent:read")
    now, timings = caller.server.now(), caller.server.timings
    filters = AgentFilters(
        app=app,
        environment=environment,
        states=states,
        heard=heard_since(now, timings),
        forgotten=forgotten_since(now, timings),
    )
    async with caller.server.database.reading(caller.tenant) as scope:
        rows = await list_agents(scope, places_of(caller, "agent:read"), filters, page)
        kinds = {one.name: one.kind for one in await environments(scope)}

    def show(row: Row[Any]) -> AgentView:
        return AgentView(
            agent_id=row.agent_id,
            name=row.name,
            app=row.app,
            environment=row.environment,
            environment_kind=kinds.get(row.environment, "production"),
            version=row.version,
            state=presence(row, now, timings),
            registered_at=row.registered_at,
            last_seen_at=row.last_seen_at,
            routes=msgspec.json.decode(row.routes, type=tuple[Route, ...]),
            capabilities=row.capabilities.split(),
            containment=containment_of(row),
            spooled=row.spooled,
            dropped=row.dropped,
            running=msgspec.json.decode(row.running, type=list[str]),
        )

    return listed(rows, page, "registered_at", "agent_id", show)


async def agent_name(caller: Caller, agent_id: str) -> str | None:
    """Return the name of an agent or its id; None for an unknown one and without permission."""
    if not agent_id or not caller.has_anywhere("agent:read"):
        return None
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await find_agent(scope, agent_id)
    return None if row is None else row.name or agent_id


_AUDITED = (
    "key_id",
    "app",
    "environment",
    "name",
    "version",
    "routes",
    "capabilities",
    "containment",
)
"""Columns whose changes are audited."""


async def register(caller: Caller, sent: Registration) -> Registered:
    """Register an agent for the app and environment of its key.

    A registration for a different one is refused and audited.
    """
    caller.require("agent:connect")
    if sent.protocol != PROTOCOL:
        raise Problem("invalid", f"this server supports protocol {PROTOCOL}", field="protocol")
    try:
        sent = clean_registration(sent)
    except UsageError as error:
        raise Problem("invalid", error.message, hint=error.hint) from None
    server, principal = caller.server, caller.principal
    if (sent.app, sent.environment) != (principal.app, principal.environment):
        raise await _refused(caller, sent, "the key is for another app or environment")
    async with server.database.writing(caller.tenant) as scope:
        before = await find_agent(scope, sent.agent_id)
        ours = before is None or (before.app, before.environment) == (sent.app, sent.environment)
        if ours:
            values = _values(caller, sent, before)
            if before is None:
                await add_agent(scope, values)
            else:
                await change_agent(scope, sent.agent_id, values)
            if before is None or any(getattr(before, name) != values[name] for name in _AUDITED):
                await server.auditor.write(scope, _registered(caller, sent))
            kind = await environment_kind(scope, sent.environment)
    if not ours:
        raise await _refused(caller, sent, "an agent elsewhere has this id")
    server.notifications.publish(agent_subject(caller.tenant, sent.agent_id))
    return Registered(
        agent_id=sent.agent_id,
        tenant=caller.tenant,
        epoch=values["epoch"],
        command_key=server.signer.key.to_text(),
        environment_kind=kind,
        heartbeat_seconds=server.timings.heartbeat,
        max_batch_bytes=server.limits.batch,
        max_body_bytes=server.limits.payload,
    )


def _values(caller: Caller, sent: Registration, before: Row[Any] | None) -> dict[str, Any]:
    now = caller.server.now()
    return {
        "agent_id": sent.agent_id,
        "key_id": caller.principal.credential,
        "app": sent.app,
        "environment": sent.environment,
        "name": sent.name,
        "version": sent.version,
        "routes": msgspec.json.encode(sent.routes),
        "capabilities": " ".join(sorted({one for one in sent.capabilities if one.isalpha()})),
        "containment": msgspec.json.encode(sent.containment).decode(),
        "epoch": 1 if before is None else before.epoch + 1,
        "registered_at": now,
        "last_seen_at": now,
        "gone_at": 0,
    }


def _registered(caller: Caller, sent: Registration) -> Record:
    return Record(
        tenant=caller.tenant,
        actor=actor_of(caller.principal),
        action="agent.registered",
        env=sent.environment,
        subject=Subject("agent", sent.agent_id),
        details={
            "app": sent.app,
            "version": sent.version[:200],
            "drivers": drivers_text(sent.containment),
            "files": sent.containment.files,
        },
        outcome="ok",
    )


async def _refused(caller: Caller, sent: Registration, why: str) -> Problem:
    problem = Problem(
        "key_bound_elsewhere",
        why,
        hint="use the key that was made for this app and environment",
        app=caller.principal.app,
        environment=caller.principal.environment,
        audited=True,
    )
    record = Record(
        tenant=caller.tenant,
        actor=actor_of(caller.principal),
        action="agent.refused",
        env=caller.principal.environment or sent.environment,
        subject=Subject("agent", sent.agent_id),
        details={"app": sent.app, "environment": sent.environment},
        code=problem.code,
        outcome="refused",
    )
    async with caller.server.database.writing(caller.tenant) as scope:
        await caller.server.auditor.write(scope, record)
    return problem


async def heartbeat(caller: Caller, agent_id: str, sent: Heartbeat) -> None:
    """Note that an agent is present. Raises :class:`Problem`."""
    caller.require("agent:connect")
    values = {
        "last_seen_at": caller.server.now(),
        "spooled": sent.spooled,
        "dropped": sent.dropped,
        "running": msgspec.json.encode(sent.running[:100]).decode(),
    }
    async with caller.server.database.writing(caller.tenant) as scope:
        if not await hear_agent(scope, agent_id, caller.principal.credential, sent.epoch, values):
            await present_agent(caller, scope, agent_id, sent.epoch)  # raises the reason


async def say_goodbye(caller: Caller, agent_id: str, epoch: int) -> None:
    """Sign off an agent. An older registration is ignored. Raises :class:`Problem`."""
    caller.require("agent:connect")
    refused: list[str] = []
    async with caller.server.database.writing(caller.tenant) as scope:
        row = await _known_agent(caller, scope, agent_id)
        if epoch == row.epoch:
            await change_agent(
                scope, row.agent_id, {"gone_at": caller.server.now(), "running": "[]"}
            )
            for replay in await open_replays(scope, row.agent_id):
                if await give_up(caller.server, scope, replay):
                    refused.append(replay.replay_id)
    caller.server.notifications.publish(agent_subject(caller.tenant, row.agent_id))
    for replay_id in refused:
        caller.server.notifications.publish(replay_subject(caller.tenant, replay_id))


async def _known_agent(caller: Caller, scope: Scope, agent_id: str) -> Row[Any]:
    """Return the agent if it registered with the key of the caller. Raises :class:`Problem`."""
    row = await find_agent(scope, agent_id)
    if row is None or row.gone_at or row.key_id != caller.principal.credential:
        raise Problem("agent_unknown", "no such agent is registered", hint="register again")
    return row


async def present_agent(caller: Caller, scope: Scope, agent_id: str, epoch: int) -> Row[Any]:
    """Return the agent if ``epoch`` is its last registration. Raises :class:`Problem`."""
    row = await _known_agent(caller, scope, agent_id)
    if epoch < row.epoch:
        raise Problem(
            "agent_superseded",
            "another process has registered under this agent id",
            hint="use a separate id for each process",
        )
    if epoch > row.epoch:
        raise Problem("agent_unknown", "there was no such registration", hint="register again")
    return row


async def report_state(caller: Caller, agent_id: str, replay_id: str, sent: StateReport) -> None:
    """Record a reported state. Late and repeated reports change nothing."""
    caller.require("agent:connect")
    async with caller.server.database.writing(caller.tenant) as scope:
        agent = await present_agent(caller, scope, agent_id, sent.epoch)
        replay = await _replay(scope, agent, replay_id)
        actor = actor_of(caller.principal)
        if sent.state != "delivered":
            replay = await arrived(caller.server, scope, replay, actor)
        message = clean_text(sent.message)
        await advance(
            caller.server, scope, replay, sent.state, actor, code=sent.code, message=message
        )
    caller.server.notifications.publish(replay_subject(caller.tenant, replay.replay_id))


async def read_source(caller: Caller, agent_id: str, replay_id: str) -> ReplaySource:
    """Return the data that a replay of an agent starts with.

    Raises :class:`Problem` ``gone`` after its end.
    """
    caller.require("agent:connect")
    async with caller.server.database.reading(caller.tenant) as scope:
        replay, source = await _open_replay(caller, scope, agent_id, replay_id)
    return ReplaySource(
        payload=unpack(replay.payload, Payload),
        redacted=msgspec.json.decode(replay.redacted, type=tuple[str, ...]),
        recording=exchange_of(source).recording,
    )


async def read_source_recording(caller: Caller, agent_id: str, replay_id: str) -> bytes:
    """Return the packed capture of the source of a replay.

    Raises :class:`Problem` ``gone`` after its end.
    """
    caller.require("agent:connect")
    async with caller.server.database.reading(caller.tenant) as scope:
        _, source = await _open_replay(caller, scope, agent_id, replay_id)
    return await recording_of(caller.server, caller.tenant, exchange_of(source))


async def _open_replay(
    caller: Caller, scope: Scope, agent_id: str, replay_id: str
) -> tuple[Row[Any], Row[Any]]:
    """Return a replay of an agent that has not ended, and its source."""
    replay = await _replay(scope, await _known_agent(caller, scope, agent_id), replay_id)
    if replay.state in TERMINAL:
        raise Problem("gone", f"this replay is {replay.state}")
    source = await find_exchange(scope, replay.source_exchange_id)
    if source is None:
        raise Problem("gone", "the exchange is no longer stored")
    return replay, source


async def _replay(scope: Scope, agent: Row[Any], replay_id: str) -> Row[Any]:
    row = await find_replay(scope, replay_id)
    if row is None or row.agent_id != agent.agent_id:
        raise Problem("not_found", "this agent has no such replay")
    return row
