"""Agents, as they are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Row, and_, not_, or_

from reenact.server.auth.permissions import ResourceScope
from reenact.server.runtime import OpenStream
from reenact.server.storage.database import Scope
from reenact.server.storage.rows import Page, newest, within
from reenact.server.storage.tables import AGENTS

__all__ = [
    "AgentFilters",
    "add_agent",
    "agent_names",
    "agent_places",
    "change_agent",
    "find_agent",
    "hear_agent",
    "list_agents",
    "miss_agent",
    "next_command",
    "next_stream",
    "online_agents",
    "present_streams",
]

_AT_ONCE: Final = 500
_FRESH = {"gone_at": 0, "spooled": 0, "dropped": 0, "running": "[]", "last_command": 0, "stream": 0}


async def find_agent(scope: Scope, agent_id: str) -> Row[Any] | None:
    """By its id; None when this tenant has none."""
    return await scope.one(scope.select(AGENTS).where(AGENTS.c.agent_id == agent_id))


async def agent_names(scope: Scope, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of agents by id, without unnamed ones."""
    chosen = scope.select(AGENTS, AGENTS.c.agent_id, AGENTS.c.name).where(
        AGENTS.c.agent_id.in_([*ids]), AGENTS.c.name != ""
    )
    return {row.agent_id: row.name for row in await scope.all(chosen)}


async def add_agent(scope: Scope, values: dict[str, Any]) -> None:
    """One that was never here."""
    await scope.add(AGENTS, {**_FRESH, **values})


async def change_agent(scope: Scope, agent_id: str, values: dict[str, Any]) -> None:
    """Set these columns of an agent; nothing happens when there is none."""
    await scope.run(scope.update(AGENTS).where(AGENTS.c.agent_id == agent_id).values(values))


async def hear_agent(
    scope: Scope, agent_id: str, key_id: str, epoch: int, values: dict[str, Any]
) -> bool:
    """Set these columns, in one question: it is what agents say most. False when nothing is changed,
    since this is not the last registration of an agent that is there, made with this key."""
    changed = await scope.run(
        scope.update(AGENTS)
        .where(
            AGENTS.c.agent_id == agent_id,
            AGENTS.c.key_id == key_id,
            AGENTS.c.epoch == epoch,
            AGENTS.c.gone_at == 0,
        )
        .values(values)
    )
    return changed.rowcount == 1


async def miss_agent(scope: Scope, stream: OpenStream, heard: int, now: int) -> bool:
    """Mark the agent of a stream as gone, unless it was heard after ``heard``, or has registered again
    or opened another stream. True when it is marked by this call."""
    changed = await scope.run(
        scope.update(AGENTS)
        .where(
            AGENTS.c.agent_id == stream.agent_id,
            AGENTS.c.epoch == stream.epoch,
            AGENTS.c.stream == stream.number,
            AGENTS.c.last_seen_at <= heard,
            AGENTS.c.gone_at == 0,
        )
        .values({"gone_at": now, "running": "[]"})
    )
    return changed.rowcount == 1


async def online_agents(scope: Scope, place: ResourceScope, since: int) -> Sequence[Row[Any]]:
    """Return the agents of an app and environment that were heard after ``since``, latest first."""
    return await scope.all(
        scope.select(AGENTS)
        .where(
            AGENTS.c.app == place.app,
            AGENTS.c.environment == place.environment,
            AGENTS.c.last_seen_at > since,
            AGENTS.c.gone_at == 0,
        )
        .order_by(AGENTS.c.last_seen_at.desc(), AGENTS.c.agent_id)
    )


class AgentFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list of agents; an empty one matches all.

    An agent heard after ``heard`` is online, one not heard after ``forgotten`` has the state ``gone``.
    """

    app: str
    environment: str
    states: Sequence[str]
    heard: int
    forgotten: int


async def list_agents(
    scope: Scope, places: Sequence[ResourceScope] | None, filters: AgentFilters, page: Page
) -> Sequence[Row[Any]]:
    """Return the agents in ``places`` (None: everywhere), last registration first."""
    chosen = scope.select(AGENTS).where(within(AGENTS, places))
    if filters.app:
        chosen = chosen.where(AGENTS.c.app == filters.app)
    if filters.environment:
        chosen = chosen.where(AGENTS.c.environment == filters.environment)
    if filters.states:
        chosen = chosen.where(or_(*(_is(state, filters) for state in filters.states)))
    return await scope.all(newest(chosen, AGENTS.c.registered_at, AGENTS.c.agent_id, page))


def _is(state: str, filters: AgentFilters) -> ColumnElement[bool]:
    kept = AGENTS.c.last_seen_at > filters.forgotten
    here = and_(kept, AGENTS.c.gone_at == 0, AGENTS.c.last_seen_at > filters.heard)
    return {"online": here, "offline": and_(kept, not_(here)), "gone": not_(kept)}[state]


async def agent_places(
    scope: Scope, places: Sequence[ResourceScope] | None, most: int
) -> Sequence[Row[Any]]:
    """The ``app`` and ``environment`` of agents in ``places`` (None: everywhere), each pair once."""
    columns = (AGENTS.c.app, AGENTS.c.environment)
    chosen = scope.select(AGENTS, *columns).where(within(AGENTS, places)).distinct()
    return await scope.all(chosen.order_by(*columns).limit(most))


async def present_streams(scope: Scope, agent_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the last registration and the last stream of each present agent."""
    columns = (AGENTS.c.agent_id, AGENTS.c.epoch, AGENTS.c.stream)
    found: dict[str, tuple[int, int]] = {}
    for start in range(0, len(agent_ids), _AT_ONCE):
        some = agent_ids[start : start + _AT_ONCE]
        chosen = scope.select(AGENTS, *columns).where(AGENTS.c.agent_id.in_(some))
        rows = await scope.all(chosen.where(AGENTS.c.gone_at == 0))
        found |= {row.agent_id: (row.epoch, row.stream) for row in rows}
    return found


async def next_command(scope: Scope, agent_id: str) -> int:
    """The number of the next command for it, counted up."""
    return await _count_up(scope, agent_id, "last_command")


async def next_stream(scope: Scope, agent_id: str) -> int:
    """The number of a stream that it opens now, counted up."""
    return await _count_up(scope, agent_id, "stream")


async def _count_up(scope: Scope, agent_id: str, name: str) -> int:
    column = AGENTS.c[name]
    await change_agent(scope, agent_id, {name: column + 1})
    found = await scope.one(scope.select(AGENTS, column).where(AGENTS.c.agent_id == agent_id))
    if found is None:
        raise LookupError(f"agent {agent_id} does not exist")
    number: int = found[0]
    return number
