"""Names known to a tenant: environments with their kinds, apps, routes and app agents."""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.server.access import has_anywhere
from reenact.server.asking import Ask
from reenact.server.exchanges.history import places_of
from reenact.server.storage.exchange_agents import agent_places, find_agent
from reenact.server.storage.people_rows import environments
from reenact.server.web.components.html import Child, link, tag, url

__all__ = [
    "Known",
    "agent_named",
    "kinds_of",
    "known_to",
]

_OFFERED: Final = 500


class Known(msgspec.Struct, frozen=True):
    """``kinds`` of environments by their names; ``apps`` and ``environments`` are those of agents and
    of ``kinds``."""

    kinds: dict[str, str]
    apps: frozenset[str]
    environments: frozenset[str]


async def kinds_of(ask: Ask) -> dict[str, str]:
    """By name; whoever may not know is told nothing. What is not listed counts as production."""
    if not has_anywhere(ask.principal.grants, "agent:read", ask.server.now()):
        return {}
    async with ask.server.database.reading(ask.tenant) as scope:
        return {one.name: one.kind for one in await environments(scope)}


async def known_to(ask: Ask) -> Known:
    """The same, and what there is to choose from in filters, as far as one may see it."""
    if not has_anywhere(ask.principal.grants, "agent:read", ask.server.now()):
        return Known({}, frozenset(), frozenset())
    async with ask.server.database.reading(ask.tenant) as scope:
        kinds: dict[str, str] = {one.name: one.kind for one in await environments(scope)}
        rows = await agent_places(scope, places_of(ask, "agent:read"), _OFFERED)
    apps = frozenset(row.app for row in rows)
    return Known(kinds, apps, frozenset(kinds) | {row.environment for row in rows})


async def agent_named(ask: Ask, agent_id: str, app: str) -> Child:
    """Its name for people, among the agents of ``app``; its id where it has none, or for somebody who
    may not see agents."""
    known = None
    if agent_id and has_anywhere(ask.principal.grants, "agent:read", ask.server.now()):
        async with ask.server.database.reading(ask.tenant) as scope:
            known = await find_agent(scope, agent_id)
    if known is None:
        return tag("code", agent_id) if agent_id else None
    return link(url("/agents", app=app), known.name or agent_id, title=agent_id)
