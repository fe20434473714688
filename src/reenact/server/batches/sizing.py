"""What a batch would do, counted before anything is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.exchange.containment import effective_containment
from reenact.exchange.model import Boundaries, Containment
from reenact.server.access import EnvironmentKind, Place
from reenact.server.agents.presence import heard_since
from reenact.server.asking import Caller
from reenact.server.batches.foreseeing import foresee
from reenact.server.batches.shapes import BatchAsked, Group, Sizing
from reenact.server.exchanges.containment import containment_of
from reenact.server.exchanges.rights import agent_offline, check_reason, check_right
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_agents import online_agents
from reenact.server.storage.people_rows import environment_kind

__all__ = ["Standing", "sized", "skips", "standing_at"]

_MOST_GROUPS: Final = 200
_MOST_DRIVERS: Final = 200
_MOST_PLACES: Final = 100


class Standing(msgspec.Struct, frozen=True):
    """How things are in a place for somebody who wants to replay there."""

    kind: EnvironmentKind
    agents: Sequence[Row[Any]]
    refused: Problem | None


async def standing_at(
    caller: Caller, scope: Scope, place: Place, boundaries: str, reason: str
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
    caller: Caller, scope: Scope, rows: Sequence[Row[Any]], missing: int, asked: BatchAsked
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


def _place(row: Row[Any], asked: BatchAsked) -> Place:
    return Place(asked.environment or row.environment, row.app)


async def _refused(
    scope: Scope, rows: Sequence[Row[Any]], asked: BatchAsked, standings: dict[Place, Standing]
) -> dict[str, Problem]:
    """By id: those that would not be replayed as things are, and why."""
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
    asked: BatchAsked,
    standings: dict[Place, Standing],
    good: set[str],
    refused: dict[str, Problem],
) -> tuple[Group, ...]:
    found: dict[tuple[Place, str], list[str]] = {}
    for row in rows:
        found.setdefault((_place(row, asked), row.route_id), []).append(row.exchange_id)
    largest = sorted(found.items(), key=lambda item: -len(item[1]))[:_MOST_GROUPS]
    return tuple(
        _group(place, route_id, standings[place], members, good, refused, asked.boundaries)
        for (place, route_id), members in largest
    )


def _group(
    place: Place,
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
