"""What an agent calls itself, and the way to it."""

from __future__ import annotations

from reenact.server.access import has_anywhere
from reenact.server.asking import Ask
from reenact.server.pages.markup import Child, link, tag, url
from reenact.server.storage.exchange_agents import find_agent

__all__ = ["agent_named"]


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
