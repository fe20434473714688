"""Names known to a tenant: environments with their kinds, apps, routes and app agents."""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.server.auth.permissions import has_anywhere
from reenact.server.context import RequestContext
from reenact.server.exchanges.service import places_of
from reenact.server.storage.agents import agent_places, find_agent
from reenact.server.storage.people import environments
from reenact.server.web.components.html import Child, link, tag, url

__all__ = [
    "KnownNames",
    "agent_link",
    "environment_kinds",
    "known_names",
]

_OFFERED: Final = 500


class KnownNames(msgspec.Struct, frozen=True):
    """Apps and environments for filters. ``kinds`` maps environments to their kinds."""

    kinds: dict[str, str]
    apps: frozenset[str]
    environments: frozenset[str]


async def environment_kinds(context: RequestContext) -> dict[str, str]:
    """Return the kinds of all environments by name; nothing without permission to see them.

    An unlisted environment counts as production.
    """
    if not has_anywhere(context.principal.grants, "agent:read", context.server.now()):
        return {}
    async with context.server.database.reading(context.tenant) as scope:
        return {one.name: one.kind for one in await environments(scope)}


async def known_names(context: RequestContext) -> KnownNames:
    """Return the apps and environments that filters offer to the user."""
    if not has_anywhere(context.principal.grants, "agent:read", context.server.now()):
        return KnownNames({}, frozenset(), frozenset())
    async with context.server.database.reading(context.tenant) as scope:
        kinds: dict[str, str] = {one.name: one.kind for one in await environments(scope)}
        rows = await agent_places(scope, places_of(context, "agent:read"), _OFFERED)
    apps = frozenset(row.app for row in rows)
    return KnownNames(kinds, apps, frozenset(kinds) | {row.environment for row in rows})


async def agent_link(context: RequestContext, agent_id: str, app: str) -> Child:
    """Return the name of an app agent as a link, or its id if it has no name or the user cannot see
    agents."""
    known = None
    if agent_id and has_anywhere(context.principal.grants, "agent:read", context.server.now()):
        async with context.server.database.reading(context.tenant) as scope:
            known = await find_agent(scope, agent_id)
    if known is None:
        return tag("code", agent_id) if agent_id else None
    return link(url("/agents", app=app), known.name or agent_id, title=agent_id)
