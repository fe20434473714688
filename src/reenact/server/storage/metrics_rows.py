"""Numbers over all tenants, for whoever runs the server."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import func, select, text

from reenact.server.storage.batch_tables import BATCH_ITEMS, BATCHES
from reenact.server.storage.database import Platform
from reenact.server.storage.exchange_tables import AGENTS, COMMANDS, OPEN, REPLAYS
from reenact.server.storage.tables import TENANTS

__all__ = ["Numbers", "read_numbers"]

_OPEN = ("requested", "delivered", "running")
_DRIVEN = ("running", "cancelling")


class Numbers(msgspec.Struct, frozen=True):
    """How much there is of what is under way, over all tenants; replays and batches by state."""

    replays: dict[str, int]
    agents: int
    spooled: int
    commands: int
    batches: dict[str, int]
    waiting: int
    tenants: int


async def read_numbers(platform: Platform, heard_since: int, now: int) -> Numbers:
    """As they are now. Nothing here looks at what has ended."""
    online = (AGENTS.c.last_seen_at > heard_since, AGENTS.c.gone_at == 0)
    agents = select(
        func.count().label("agents"), func.coalesce(func.sum(AGENTS.c.spooled), 0).label("spooled")
    ).where(*online)
    pending = select(func.count()).where(COMMANDS.c.done_at == 0, COMMANDS.c.expires_at > now)
    driven = BATCHES.c.state.in_(_DRIVEN)
    waiting = (
        select(func.count())
        .select_from(BATCH_ITEMS)
        .join(
            BATCHES,
            (BATCHES.c.tenant == BATCH_ITEMS.c.tenant)
            & (BATCHES.c.batch_id == BATCH_ITEMS.c.batch_id),
        )
        .where(driven, BATCH_ITEMS.c.state == "waiting")
    )
    found = await platform.one(agents)
    return Numbers(
        replays=await _by_state(platform, REPLAYS, text(OPEN), _OPEN),
        agents=int(found.agents) if found else 0,
        spooled=int(found.spooled) if found else 0,
        commands=await _count(platform, pending.select_from(COMMANDS)),
        batches=await _by_state(platform, BATCHES, driven, _DRIVEN),
        waiting=await _count(platform, waiting),
        tenants=await _count(platform, select(func.count()).select_from(TENANTS)),
    )


async def _count(platform: Platform, query: Any) -> int:
    row = await platform.one(query)
    return int(row[0]) if row else 0


async def _by_state(
    platform: Platform, table: Any, which: Any, states: tuple[str, ...]
) -> dict[str, int]:
    """0 for states in which there is nothing."""
    counted = select(table.c.state, func.count().label("rows")).where(which).group_by(table.c.state)
    found = {row.state: int(row.rows) for row in await platform.all(counted)}
    return {state: found.get(state, 0) for state in states}
