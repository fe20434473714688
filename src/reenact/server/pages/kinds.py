"""Which environments are production, and what agents have named."""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.server.access import has_anywhere
from reenact.server.asking import Ask
from reenact.server.exchanges.history import places_of
from reenact.server.storage.exchange_agents import agent_places
from reenact.server.storage.people_rows import environments

__all__ = ["Known", "kinds_of", "known_to"]

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
