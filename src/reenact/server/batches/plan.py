"""Batch plans: search, count and predict refusals before anything runs.

The plan fixes the exchanges of a batch. Nothing runs before a user has confirmed it. Refusals are
predicted with the same checks as for a single replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.exchange.containment import effective_containment
from reenact.exchange.model import Boundaries, Containment, Payload
from reenact.server.agents.presence import heard_since
from reenact.server.auth.permissions import EnvironmentKind, ResourceScope
from reenact.server.batches.schema import MOST_ITEMS, BatchRequest, Group, Search, Sizing
from reenact.server.context import Caller
from reenact.server.exchanges.service import places_of
from reenact.server.problems import Problem
from reenact.server.replays.checks import (
    agent_offline,
    check_agent,
    check_drivers,
    check_reason,
    check_right,
    containment_of,
)
from reenact.server.replays.schema import unfilled
from reenact.server.storage.agents import online_agents
from reenact.server.storage.batches import (
    find_search,
)
from reenact.server.storage.database import Scope
from reenact.server.storage.exchanges import Filters, briefs_of, documents_of, list_exchanges
from reenact.server.storage.people import environment_kind
from reenact.server.storage.rows import Page, unpack

__all__ = [
    "Found",
    "Standing",
    "find",
    "foresee",
    "sized",
    "skips",
    "standing_at",
    "to_filters",
]


class Found(msgspec.Struct, frozen=True):
    """Exchanges of a batch.

    ``missing`` counts named exchanges that the caller cannot find. ``search`` is the effective
    search.
    """

    rows: Sequence[Row[Any]]
    missing: int
    search: Search | None


def to_filters(search: Search, now: int) -> Filters:
    """As they are at ``now``. Replays are left out unless they are asked for: a batch that has run
    would find itself."""
    since = max(search.since, now - search.within if search.within else 0)
    return Filters(
        app=search.app,
        environment=search.environment,
        route=search.route,
        status=search.status,
        replay=None if search.replay == "any" else bool(search.replay),
        replayable=search.replayable,
        since=since,
        until=search.until,
        trace_id=search.trace_id,
        correlation_id=search.correlation_id,
        text=search.text,
    )


async def find(caller: Caller, scope: Scope, asked: BatchRequest) -> Found:
    """Return the requested exchanges that the caller can read. Raises :class:`Problem`."""
    if (asked.search is not None) + bool(asked.saved) + bool(asked.exchanges) != 1:
        raise Problem("invalid", "a batch is a search, a saved one, or exchanges", field="search")
    places = places_of(caller, "exchange:read")
    if asked.exchanges:
        ids = tuple(dict.fromkeys(asked.exchanges))
        found = await briefs_of(scope, ids, places)
        return Found(found, len(ids) - len(found), None)
    search = asked.search or await _saved(scope, asked.saved)
    filters = to_filters(search, caller.server.now())
    rows = await list_exchanges(scope, filters, places, Page(MOST_ITEMS))
    if len(rows) > MOST_ITEMS:
        raise Problem(
            "invalid",
            f"this search finds more than {MOST_ITEMS:,} exchanges",
            hint="look for less: a shorter time, one route",
            field="search",
        )
    return Found(rows, 0, search)


async def _saved(scope: Scope, name: str) -> Search:
    row = await find_search(scope, name)
    if row is None:
        raise Problem("not_found", "no saved search has this name")
    return msgspec.json.decode(row.filters, type=Search)


_MOST_GROUPS: Final = 200
_MOST_DRIVERS: Final = 200
_MOST_PLACES: Final = 100


class Standing(msgspec.Struct, frozen=True):
    """Permission and agents of a caller in one environment and app."""

    kind: EnvironmentKind
    agents: Sequence[Row[Any]]
    refused: Problem | None


async def standing_at(
    caller: Caller, scope: Scope, place: ResourceScope, boundaries: str, reason: str
) -> Standing:
    """By the same rules as one replay."""
    server, principal = caller.server, caller.principal
    kind = await environment_kind(scope, place.environment or "")
    agents = await online_agents(scope, place, heard_since(server.now(), server.timings))
    refused: Problem | None = None
    try:
        check_right(principal.tenant, principal.grants, kind, place, boundaries, server.now())
        check_reason(kind, boundaries, reason)
    except Problem as problem:
        refused = problem
    return Standing(kind, agents, refused)


def skips(row: Row[Any], depth: int, boundaries: str) -> str:
    """The code for which an exchange is never replayed; empty for one that may be."""
    if row.not_replayable or (boundaries == "recorded" and not row.recording_digest):
        return "not_replayable"
    return "replay_depth" if row.depth + 1 > depth else ""


async def sized(
    caller: Caller, scope: Scope, rows: Sequence[Row[Any]], missing: int, asked: BatchRequest
) -> Sizing:
    """Nothing is changed."""
    depth = caller.server.limits.depth
    places = {_place(row, asked) for row in rows}
    standings = {
        place: await standing_at(caller, scope, place, asked.boundaries, asked.reason)
        for place in places
    }
    good = [row for row in rows if not skips(row, depth, asked.boundaries)]
    refused = await _refused(scope, good, asked, standings)
    return Sizing(
        exchanges=len(rows),
        replayable=len(good),
        not_found=missing,
        skipped=_tally(skips(row, depth, asked.boundaries) for row in rows),
        refused=_tally(problem.code for problem in refused.values()),
        live=0 if asked.boundaries == "recorded" else len(good),
        without_recording=sum(not (row.recording_digest or row.not_replayable) for row in rows),
        environments=_tally(_place(row, asked).environment or "" for row in rows),
        apps=_tally(row.app for row in rows),
        routes=_tally(row.route_id for row in rows),
        groups=_groups(rows, asked, standings, {row.exchange_id for row in good}, refused),
    )


def _place(row: Row[Any], asked: BatchRequest) -> ResourceScope:
    return ResourceScope(asked.environment or row.environment, row.app)


async def _refused(
    scope: Scope,
    rows: Sequence[Row[Any]],
    asked: BatchRequest,
    standings: dict[ResourceScope, Standing],
) -> dict[str, Problem]:
    """Return the expected refusals by exchange id."""
    found: dict[str, Problem] = {}
    agents: dict[str, Sequence[Row[Any]]] = {}
    for row in rows:
        place = _place(row, asked)
        standing = standings[place]
        if standing.refused is not None:
            found[row.exchange_id] = standing.refused
        elif not standing.agents:
            found[row.exchange_id] = agent_offline(place)
        else:
            agents[row.exchange_id] = standing.agents
    asked_about = [row for row in rows if row.exchange_id in agents]
    return found | await foresee(scope, asked_about, agents, asked)


def _tally(words: Iterable[str]) -> dict[str, int]:
    """The most frequent ones first."""
    return dict(Counter(filter(None, words)).most_common(_MOST_GROUPS))


def _groups(
    rows: Sequence[Row[Any]],
    asked: BatchRequest,
    standings: dict[ResourceScope, Standing],
    good: set[str],
    refused: dict[str, Problem],
) -> tuple[Group, ...]:
    found: dict[tuple[ResourceScope, str], list[str]] = {}
    for row in rows:
        found.setdefault((_place(row, asked), row.route_id), []).append(row.exchange_id)
    largest = sorted(found.items(), key=lambda item: -len(item[1]))[:_MOST_GROUPS]
    return tuple(
        _group(place, route_id, standings[place], members, good, refused, asked.boundaries)
        for (place, route_id), members in largest
    )


def _group(
    place: ResourceScope,
    route_id: str,
    standing: Standing,
    members: Sequence[str],
    good: set[str],
    refused: dict[str, Problem],
    boundaries: Boundaries,
) -> Group:
    problems = [refused[one] for one in members if one in refused]
    code = next(iter(_tally(one.code for one in problems)), "")
    alike = [one for one in problems if one.code == code]
    return Group(
        app=place.app or "",
        environment=place.environment or "",
        environment_kind=standing.kind,
        route_id=route_id,
        exchanges=len(members),
        replayable=sum(one in good for one in members),
        agents=len(standing.agents),
        refused=code,
        refusals=len(alike),
        message=alike[0].message if alike else "",
        containment=_containment(standing, boundaries),
    )


def _containment(standing: Standing, boundaries: Boundaries) -> Containment:
    """Return the containment of all app agents at a place. A driver that they treat differently is
    listed with each treatment."""
    found = [effective_containment(containment_of(one), boundaries) for one in standing.agents]
    drivers = {driver for one in found for driver in one.drivers}
    return Containment(
        drivers=tuple(sorted(drivers, key=lambda one: (one.name, one.treatment)))[:_MOST_DRIVERS],
        files="allow" if any(one.files == "allow" for one in found) else "refuse",
        scratch=tuple(dict.fromkeys(place for one in found for place in one.scratch))[
            :_MOST_PLACES
        ],
    )


_Agents = Sequence[Row[Any]]


class _Start(msgspec.Struct, frozen=True):
    """Of an exchange, what it began with."""

    start: Payload
    redacted: tuple[str, ...] = ()


async def foresee(
    scope: Scope, rows: Sequence[Row[Any]], agents: Mapping[str, _Agents], asked: BatchRequest
) -> dict[str, Problem]:
    """Return the refusals by exchange id for ``rows`` that all ``agents`` of their location would
    refuse now.

    ``agents`` is keyed by exchange id; without agents no refusal is predicted.
    """
    removed = await _removed(scope, [row for row in rows if not _helped(agents[row.exchange_id])])
    known: dict[Any, Problem | None] = {}  # equal cases are checked once
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
    """Return whether one of the agents can fill in redacted values."""
    return any("credentials" in one.capabilities.split() for one in agents)


async def _removed(scope: Scope, rows: Sequence[Row[Any]]) -> dict[str, tuple[str, ...]]:
    """By id: the places of a start payload that redaction has emptied."""
    found: dict[str, tuple[str, ...]] = {}
    async for row in documents_of(scope, [row.exchange_id for row in rows]):
        kept = unpack(row.document, _Start)
        if kept.redacted and (missing := unfilled(kept.start, kept.start, kept.redacted)):
            found[row.exchange_id] = missing
    return found


def _refusal(
    agents: _Agents, row: Row[Any], missing: tuple[str, ...], asked: BatchRequest
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
