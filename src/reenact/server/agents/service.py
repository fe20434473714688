"""Agents, looked at."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.exchange.model import Containment, Route
from reenact.server.agents.presence import STATES, forgotten_since, heard_since, presence
from reenact.server.auth.permissions import EnvironmentKind
from reenact.server.context import RequestContext
from reenact.server.exchanges.service import places_of
from reenact.server.pagination import listed, one_of, page_of, yes_or_no
from reenact.server.replays.checks import containment_of
from reenact.server.responses import ListResponse
from reenact.server.storage.agents import AgentFilters, list_agents
from reenact.server.storage.people import environments

__all__ = ["AgentView", "read_agents"]


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


async def read_agents(context: RequestContext) -> ListResponse[AgentView]:
    """``GET /api/v1/agents``: the agents that the caller can see, newest first.

    Agents in state ``gone`` are listed on request.
    """
    page, filters = page_of(context), _filters(context)
    async with context.server.database.reading(context.tenant) as scope:
        rows = await list_agents(scope, places_of(context, "agent:read"), filters, page)
        kinds = {one.name: one.kind for one in await environments(scope)}
    now = context.server.now()

    def show(row: Row[Any]) -> AgentView:
        return AgentView(
            agent_id=row.agent_id,
            name=row.name,
            app=row.app,
            environment=row.environment,
            environment_kind=kinds.get(row.environment, "production"),
            version=row.version,
            state=presence(row, now, context.server.timings),
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


def _filters(context: RequestContext) -> AgentFilters:
    """Raises :class:`Problem`."""
    state, now, timings = (
        one_of(context, "state", STATES),
        context.server.now(),
        context.server.timings,
    )
    states = (state,) if state else () if yes_or_no(context, "all") else ("online", "offline")
    return AgentFilters(
        app=context.query("app"),
        environment=context.query("environment"),
        states=states,
        heard=heard_since(now, timings),
        forgotten=forgotten_since(now, timings),
    )
