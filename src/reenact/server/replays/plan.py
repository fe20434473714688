"""A replay that may be: where, through which route, with which payload."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.exchange.containment import undeclared_drivers
from reenact.exchange.model import Exchange, Payload
from reenact.server.agents.presence import heard_since, presence
from reenact.server.auth.permissions import (
    Decision,
    EnvironmentKind,
    Permission,
    ResourceScope,
    replay_permission,
)
from reenact.server.context import Caller
from reenact.server.problems import Problem
from reenact.server.replays.checks import (
    agent_offline,
    check_agent,
    check_drivers,
    check_reason,
    check_recorded,
    check_right,
    check_source,
    containment_of,
)
from reenact.server.replays.schema import ReplayRequest, check_variables, edited, unfilled
from reenact.server.storage.agents import find_agent, online_agents
from reenact.server.storage.database import Scope
from reenact.server.storage.people import environment_kind
from reenact.server.storage.rows import exchange_of

__all__ = ["Plan", "ReplayTarget", "choose_target", "plan", "plan_target"]


class ReplayTarget(msgspec.Struct, frozen=True):
    """Location of a replay. ``agent`` is None if no agent is online."""

    place: ResourceScope
    kind: EnvironmentKind
    agent: Row[Any] | None

    @property
    def permission(self) -> Permission:
        return replay_permission(self.kind)


class Plan(msgspec.Struct, frozen=True):
    """Everything that a replay needs. ``edited`` is None when the payload is as recorded."""

    source: Row[Any]
    exchange: Exchange
    wanted: ReplayRequest
    goal: ReplayTarget
    agent: Row[Any]
    decision: Decision
    payload: Payload
    edited: Payload | None
    unfilled: tuple[str, ...]
    revision: str
    depth: int


async def plan_target(caller: Caller, source: Row[Any], wanted: ReplayRequest) -> ReplayTarget:
    """Return the target that a replay of ``source`` would have now. Raises :class:`Problem`."""
    async with caller.server.database.reading(caller.tenant) as scope:
        return await choose_target(caller, scope, source, wanted)


async def choose_target(
    caller: Caller, scope: Scope, source: Row[Any], wanted: ReplayRequest
) -> ReplayTarget:
    """Return the target of a replay.

    The environment is the one that the *agent* registered; without an agent it is the requested
    one.
    """
    target, now = wanted.target, caller.server.now()
    if target.agent_id is not None:
        agent = await find_agent(scope, target.agent_id)
        if agent is not None and agent.app != source.app:
            raise Problem(
                "payload_invalid",
                "the agent does not run the app of the exchange",
                app=source.app,
            )
        if agent is not None and target.environment not in (None, agent.environment):
            raise Problem("payload_invalid", "this agent is in another environment")
        environment = source.environment if agent is None else agent.environment
        gone = agent is None or presence(agent, now, caller.server.timings) != "online"
        chosen = None if gone else agent
    else:
        environment = target.environment or source.environment
        place = ResourceScope(environment, source.app)
        online = await online_agents(scope, place, heard_since(now, caller.server.timings))
        ready = [one for one in online if _has_route(one, source.route_id)]
        declared = (one for one in ready if not undeclared_drivers(containment_of(one)))
        chosen = next(declared, None) or next(iter(ready or online), None)
    kind = await environment_kind(scope, environment)
    return ReplayTarget(ResourceScope(environment, source.app), kind, chosen)


def _has_route(agent: Row[Any], route_id: str) -> bool:
    routes = msgspec.json.decode(agent.routes)
    return any(route.get("routeId") == route_id for route in routes)


def plan(caller: Caller, source: Row[Any], wanted: ReplayRequest, goal: ReplayTarget) -> Plan:
    """Raises :class:`Problem` with the first reason why not."""
    server, principal = caller.server, caller.principal
    caller.require("exchange:read", ResourceScope(source.environment, source.app))
    decision = check_right(
        principal.tenant, principal.grants, goal.kind, goal.place, wanted.boundaries, server.now()
    )
    check_reason(goal.kind, wanted.boundaries, wanted.reason)
    exchange, depth = exchange_of(source), source.depth + 1
    check_source(exchange, depth, server.limits.depth)
    check_recorded(exchange.recording is not None, wanted.boundaries)
    check_variables(exchange.recording is not None, wanted.boundaries, wanted.environment_variables)
    if goal.agent is None:
        raise agent_offline(goal.place)
    made = edited(exchange.start, wanted, server.limits.payload)
    payload = exchange.start if made is None else made
    missing = unfilled(exchange.start, payload, exchange.redacted)
    route = check_agent(goal.agent, source, missing, wanted.revision)
    check_drivers(goal.agent, wanted.boundaries)
    return Plan(
        source=source,
        exchange=exchange,
        wanted=wanted,
        goal=goal,
        agent=goal.agent,
        decision=decision,
        payload=payload,
        edited=made,
        unfilled=missing,
        revision=route.revision,
        depth=depth,
    )
