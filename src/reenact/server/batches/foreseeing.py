"""What the agents of a batch would refuse, seen before anything is asked of them: by the same rules as
one replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.exchange.model import Payload
from reenact.server.batches.shapes import BatchAsked
from reenact.server.exchanges.containment import check_drivers
from reenact.server.exchanges.documents import loose
from reenact.server.exchanges.rights import check_agent
from reenact.server.exchanges.wanting import unfilled
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_rows import documents_of

__all__ = ["foresee"]

_Agents = Sequence[Row[Any]]


class _Start(msgspec.Struct, frozen=True):
    """Of an exchange, what it began with."""

    start: Payload
    redacted: tuple[str, ...] = ()


async def foresee(
    scope: Scope, rows: Sequence[Row[Any]], agents: Mapping[str, _Agents], asked: BatchAsked
) -> dict[str, Problem]:
    """By id, for those of ``rows`` that all ``agents`` of their place would refuse now. ``agents`` are
    by the id of the exchange; where there are none, nothing is foreseen."""
    removed = await _removed(scope, [row for row in rows if not _helped(agents[row.exchange_id])])
    known: dict[Any, Problem | None] = {}  # those that are alike are asked about once
    found: dict[str, Problem] = {}
    for row in rows:
        missing = removed.get(row.exchange_id, ())
        there = agents[row.exchange_id]
        alike = (id(there), row.route_id, row.revision, row.agent_id, missing)
        if alike not in known:
            known[alike] = _refusal(there, row, missing, asked)
        if (problem := known[alike]) is not None:
            found[row.exchange_id] = problem
    return found


def _helped(agents: _Agents) -> bool:
    """Has one of them what redaction took away? Then nobody needs to know what that was."""
    return any("credentials" in one.capabilities.split() for one in agents)


async def _removed(scope: Scope, rows: Sequence[Row[Any]]) -> dict[str, tuple[str, ...]]:
    """By id: the places of a start payload that redaction has emptied."""
    found: dict[str, tuple[str, ...]] = {}
    async for row in documents_of(scope, [row.exchange_id for row in rows]):
        kept = loose(row.document, _Start)
        if kept.redacted and (missing := unfilled(kept.start, kept.start, kept.redacted)):
            found[row.exchange_id] = missing
    return found


def _refusal(
    agents: _Agents, row: Row[Any], missing: tuple[str, ...], asked: BatchAsked
) -> Problem | None:
    """The first, when all refuse it."""
    first: Problem | None = None
    for agent in agents:
        try:
            check_agent(agent, row, missing, asked.revision)
            check_drivers(agent, asked.boundaries)
        except Problem as problem:
            first = first or problem
        else:
            return None
    return first
