"""Checks that decide whether a replay is allowed (pure).

They run when a replay is requested and again before its command is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from reenact.exchange.containment import (
    drivers_argument,
    drivers_text,
    effective_containment,
    refusal_message,
    undeclared_drivers,
)
from reenact.exchange.model import Boundaries, Containment, EnvironmentVariables, Exchange, Route
from reenact.server.auth.permissions import (
    Decision,
    EnvironmentKind,
    Grant,
    Permission,
    ResourceScope,
    decide,
    is_entitled,
    permissions_of,
    replay_permission,
)
from reenact.server.context import deny
from reenact.server.problems import Problem
from reenact.server.runtime import TenantFacts

__all__ = [
    "NO_RECORDING",
    "agent_offline",
    "check_agent",
    "check_drivers",
    "check_reason",
    "check_recorded",
    "check_right",
    "check_source",
    "containment_of",
    "details_of",
    "needs_reason",
    "permission_used",
    "readable_places",
]

NO_RECORDING: Final = (
    "its outbound calls were not recorded, and so there is nothing to answer them with"
)


def check_right(
    tenant: TenantFacts,
    grants: Iterable[Grant],
    kind: EnvironmentKind,
    place: ResourceScope,
    boundaries: str,
    now: int,
) -> Decision:
    """Return the decision that allows the replay there: by ``replay:live`` when calls can go out for
    real. Raises :class:`Problem`."""
    permission, held = replay_permission(kind), tuple(grants)
    if not is_entitled(tenant.tier, tenant.dedicated):
        raise Problem(
            "tier_required",
            "exchange replay is available only in the tiers high and business on dedicated infrastructure",
            hint="ask the administrators of the platform",
            tier=tenant.tier,
            dedicated=tenant.dedicated,
            permission=permission,
        )
    decision = decide(held, permission, place, now)
    if not decision.allowed:
        production = permission == "replay:execute:production"
        code = "production_permission_required" if production else "permission_denied"
        raise deny(permission, place, code)
    if boundaries == "recorded":
        return decision
    live = decide(held, "replay:live", place, now)
    if not live.allowed:
        raise deny("replay:live", place, "live_permission_required")
    return live


def permission_used(kind: EnvironmentKind, boundaries: str) -> Permission:
    """Return the permission under which a replay is audited: the strongest one that it needs."""
    return replay_permission(kind) if boundaries == "recorded" else "replay:live"


def check_reason(kind: EnvironmentKind, boundaries: str, reason: str) -> None:
    """Raises :class:`Problem` for a replay in production, or with live calls, without a reason."""
    if reason.strip() or not needs_reason(kind, boundaries):
        return
    what = "in production" if kind == "production" else "with live calls"
    raise Problem("reason_required", f"a replay {what} needs a reason", hint="give a reason")


def needs_reason(kind: EnvironmentKind, boundaries: str) -> bool:
    """Return whether a replay there, with these boundaries, requires a reason."""
    return kind == "production" or boundaries != "recorded"


def check_source(source: Exchange, depth: int, most: int) -> None:
    """Raises :class:`Problem` for what is never replayed."""
    if source.not_replayable:
        raise Problem(
            "not_replayable", f"this exchange cannot be replayed: {source.not_replayable}"
        )
    if depth > most:
        raise Problem(
            "replay_depth",
            f"this would be replay {depth} of a replay, and {most} is the most",
            hint="replay the original",
            depth=depth,
        )


def check_recorded(has_recording: bool, boundaries: str) -> None:
    """Raises :class:`Problem` for a replay that would find no answer to any call."""
    if boundaries == "recorded" and not has_recording:
        raise Problem(
            "not_replayable",
            NO_RECORDING,
            hint="let them go out: boundaries recorded_then_live, or live",
        )


def agent_offline(place: ResourceScope) -> Problem:
    """Return the problem for a location without an online agent."""
    return Problem(
        "agent_offline",
        f"no agent of {place.app} is online in {place.environment}",
        hint="start the app, and look at its agents",
        command="reenact agents",
    )


def check_agent(agent: Any, source: Any, unfilled: tuple[str, ...], revision: str) -> Route:
    """The route at ``agent`` that the exchange of the row ``source`` would go through. Raises
    :class:`Problem`."""
    capabilities = agent.capabilities.split()
    if "replay" not in capabilities:
        raise Problem("not_replayable", "this agent runs no replays", agentId=agent.agent_id)
    route = _route_at(agent, source)
    if route is None:
        raise Problem(
            "not_replayable",
            f"the agent has no route {source.route_id[:200]!r} any more",
            agentId=agent.agent_id,
        )
    if unfilled and "credentials" not in capabilities:
        raise Problem(
            "not_replayable",
            "values were removed from this payload before it was stored: "
            + ", ".join(unfilled[:10]),
            hint="give them with the replay, or give the agent a credentials hook",
            paths=list(unfilled[:100]),
        )
    if revision == "same" and route.revision != source.revision:
        raise Problem(
            "revision_mismatch",
            "the revision of the route has changed since the recording",
            hint="replay it with the current one: revision current",
            recorded=source.revision,
            current=route.revision,
        )
    return route


def _route_at(agent: Any, source: Any) -> Route | None:
    """Return the registered route of the source.

    An exchange that arrived from the agent since its registration proves a route that the next
    heartbeat will register.
    """
    for route in msgspec.json.decode(agent.routes, type=tuple[Route, ...]):
        if route.route_id == source.route_id:
            return route
    if source.agent_id == agent.agent_id and source.received_at >= agent.registered_at:
        return Route(route_id=source.route_id, revision=source.revision)
    return None


def readable_places(
    grants: Iterable[Grant], permission: Permission, now: int
) -> tuple[ResourceScope, ...] | None:
    """Return the locations in which the grants have ``permission``; None means everywhere."""
    places = []
    for grant in grants:
        if permission in permissions_of(grant.what) and not 0 < grant.expires_at <= now:
            if not grant.environment and not grant.app:
                return None
            places.append(ResourceScope(grant.environment or None, grant.app or None))
    return tuple(places)


_MOST: Final = 2_000
"""Characters of the scratch folders in an audit record."""


def containment_of(row: Any) -> Containment:
    """Return the containment that is stored with an app agent or a replay."""
    return msgspec.json.decode(row.containment, type=Containment)


def check_drivers(agent: Any, boundaries: Boundaries) -> None:
    """Raise :class:`Problem` if the app has loaded a driver that it has not declared."""
    found = effective_containment(containment_of(agent), boundaries)
    names = undeclared_drivers(found)
    if names:
        raise Problem(
            "drivers_undeclared",
            refusal_message(names),
            hint=f"add to the app: Agent(…, {drivers_argument(found)})",
            agentId=agent.agent_id,
            drivers=list(names),
        )


def details_of(containment: Containment, variables: EnvironmentVariables) -> dict[str, str]:
    """Return the details of an audit record about a replay."""
    found = {
        "drivers": drivers_text(containment),
        "environmentVariables": variables,
        "files": containment.files,
    }
    if containment.scratch and containment.files == "refuse":
        found["scratch"] = ", ".join(containment.scratch)[:_MOST]
    return found
