"""Registration, heartbeat and sign-off of app agents."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Record, Subject
from reenact.errors import UsageError
from reenact.exchange.containment import drivers_text
from reenact.exchange.model import PROTOCOL, Heartbeat, Registered, Registration
from reenact.server.audit.log import actor_of
from reenact.server.context import RequestContext
from reenact.server.exchanges.redaction import clean_registration
from reenact.server.notifications import agent_subject, replay_subject
from reenact.server.problems import Problem
from reenact.server.replays.state import give_up
from reenact.server.storage.agents import add_agent, change_agent, find_agent, hear_agent
from reenact.server.storage.database import Scope
from reenact.server.storage.people import environment_kind
from reenact.server.storage.replays import open_replays

__all__ = [
    "heartbeat",
    "known_agent",
    "present_agent",
    "register",
    "say_goodbye",
]

_TOLD = ("key_id", "app", "environment", "name", "version", "routes", "capabilities", "containment")
"""Columns whose changes are audited."""


async def register(context: RequestContext) -> Registered:
    """Register an agent for the app and environment of its key.

    A registration for a different one is refused and audited.
    """
    said = await context.json(Registration)
    if said.protocol != PROTOCOL:
        raise Problem("invalid", f"this server speaks protocol {PROTOCOL}", field="protocol")
    try:
        said = clean_registration(said)
    except UsageError as error:
        raise Problem("invalid", error.message, hint=error.hint) from None
    server, principal = context.server, context.principal
    if (said.app, said.environment) != (principal.app, principal.environment):
        raise await _refused(context, said, "the key is for another app or environment")
    async with server.database.writing(context.tenant) as scope:
        before = await find_agent(scope, said.agent_id)
        ours = before is None or (before.app, before.environment) == (said.app, said.environment)
        if ours:
            values = _values(context, said, before)
            if before is None:
                await add_agent(scope, values)
            else:
                await change_agent(scope, said.agent_id, values)
            if before is None or any(getattr(before, name) != values[name] for name in _TOLD):
                await server.auditor.write(scope, _registered(context, said))
            kind = await environment_kind(scope, said.environment)
    if not ours:
        raise await _refused(context, said, "an agent elsewhere has this id")
    server.notifications.publish(agent_subject(context.tenant, said.agent_id))
    return Registered(
        agent_id=said.agent_id,
        tenant=context.tenant,
        epoch=values["epoch"],
        command_key=server.signer.key.to_text(),
        environment_kind=kind,
        heartbeat_seconds=server.timings.heartbeat,
        max_batch_bytes=server.limits.batch,
        max_body_bytes=server.limits.payload,
    )


def _values(context: RequestContext, said: Registration, before: Row[Any] | None) -> dict[str, Any]:
    now = context.server.now()
    return {
        "agent_id": said.agent_id,
        "key_id": context.principal.credential,
        "app": said.app,
        "environment": said.environment,
        "name": said.name,
        "version": said.version,
        "routes": msgspec.json.encode(said.routes),
        "capabilities": " ".join(sorted({one for one in said.capabilities if one.isalpha()})),
        "containment": msgspec.json.encode(said.containment).decode(),
        "epoch": 1 if before is None else before.epoch + 1,
        "registered_at": now,
        "last_seen_at": now,
        "gone_at": 0,
    }


def _registered(context: RequestContext, said: Registration) -> Record:
    return Record(
        tenant=context.tenant,
        actor=actor_of(context.principal),
        action="agent.registered",
        env=said.environment,
        subject=Subject("agent", said.agent_id),
        details={
            "app": said.app,
            "version": said.version[:200],
            "drivers": drivers_text(said.containment),
            "files": said.containment.files,
        },
        outcome="ok",
    )


async def _refused(context: RequestContext, said: Registration, why: str) -> Problem:
    problem = Problem(
        "key_bound_elsewhere",
        why,
        hint="use the key that was made for this app and environment",
        app=context.principal.app,
        environment=context.principal.environment,
        audited=True,
    )
    record = Record(
        tenant=context.tenant,
        actor=actor_of(context.principal),
        action="agent.refused",
        env=context.principal.environment or said.environment,
        subject=Subject("agent", said.agent_id),
        details={"app": said.app, "environment": said.environment},
        code=problem.code,
        outcome="refused",
    )
    async with context.server.database.writing(context.tenant) as scope:
        await context.server.auditor.write(scope, record)
    return problem


async def heartbeat(context: RequestContext) -> None:
    """``POST /api/v1/agents/{id}/heartbeat``: it is there; 204. Raises :class:`Problem`."""
    said = await context.json(Heartbeat)
    agent_id = context.path("agent_id")
    values = {
        "last_seen_at": context.server.now(),
        "spooled": said.spooled,
        "dropped": said.dropped,
        "running": msgspec.json.encode(said.running[:100]).decode(),
    }
    async with context.server.database.writing(context.tenant) as scope:
        if not await hear_agent(scope, agent_id, context.principal.credential, said.epoch, values):
            await present_agent(context, scope, said.epoch)  # says why not


async def say_goodbye(context: RequestContext) -> None:
    """Of an older registration it means nothing."""
    epoch = context.number("epoch", 0)
    refused: list[str] = []
    async with context.server.database.writing(context.tenant) as scope:
        row = await known_agent(context, scope)
        if epoch == row.epoch:
            await change_agent(
                scope, row.agent_id, {"gone_at": context.server.now(), "running": "[]"}
            )
            for replay in await open_replays(scope, row.agent_id):
                if await give_up(context.server, scope, replay):
                    refused.append(replay.replay_id)
    context.server.notifications.publish(agent_subject(context.tenant, row.agent_id))
    for replay_id in refused:
        context.server.notifications.publish(replay_subject(context.tenant, replay_id))


async def known_agent(context: RequestContext, scope: Scope) -> Row[Any]:
    """The agent in the path, if it registered with the key that is shown. Raises :class:`Problem`."""
    row = await find_agent(scope, context.path("agent_id"))
    if row is None or row.gone_at or row.key_id != context.principal.credential:
        raise Problem("agent_unknown", "no such agent is registered", hint="register again")
    return row


async def present_agent(context: RequestContext, scope: Scope, epoch: int) -> Row[Any]:
    """Return the agent if ``epoch`` is its last registration. Raises :class:`Problem`."""
    row = await known_agent(context, scope)
    if epoch < row.epoch:
        raise Problem(
            "agent_superseded",
            "another process has registered under this agent id",
            hint="give each process an id of its own",
        )
    if epoch > row.epoch:
        raise Problem("agent_unknown", "there was no such registration", hint="register again")
    return row
