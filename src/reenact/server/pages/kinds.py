"""Which environments are production."""

from __future__ import annotations

from reenact.server.access import has_anywhere
from reenact.server.asking import Ask
from reenact.server.tenants.endpoints import list_environments

__all__ = ["kinds_of"]


async def kinds_of(ask: Ask) -> dict[str, str]:
    """By name; whoever may not know is told nothing. What is not listed counts as production."""
    if not has_anywhere(ask.principal.grants, "agent:read", ask.server.now()):
        return {}
    found = await list_environments(ask)
    return {one.name: one.kind for one in found.items}
