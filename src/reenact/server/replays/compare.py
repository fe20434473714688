"""Comparison of exchanges and replays, and the noise rules of routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from sqlalchemy import Row

from reenact.errors import UsageError
from reenact.exchange.comparison.result import Comparison
from reenact.exchange.comparison.route_noise import learn, merged, read_rules
from reenact.exchange.model import Id, RouteId
from reenact.policy.noise import NoiseRule
from reenact.server.auth.permissions import ResourceScope
from reenact.server.context import Caller
from reenact.server.exchanges.service import get_exchange, places_of
from reenact.server.problems import Problem
from reenact.server.replays.result import side_by_side
from reenact.server.replays.service import get_replay
from reenact.server.storage.exchanges import list_rules, rules_in, rules_of, set_rules
from reenact.server.storage.replays import ReplayFilters, list_replays
from reenact.server.storage.rows import Page, exchange_of, unpack

__all__ = [
    "Learning",
    "ReplayPair",
    "RouteRules",
    "change_noise",
    "compare_exchanges",
    "compare_replay",
    "learn_noise",
    "list_noise_rules",
    "replace_noise_rules",
    "replay_pairs",
]


async def compare_replay(caller: Caller, replay_id: str) -> Comparison:
    """Compare a replay with its source. Raises :class:`Problem`."""
    replay = await get_replay(caller, replay_id)
    if not replay.exchange_id:
        raise Problem("conflict", f"there is nothing to compare: the replay is {replay.state}")
    return await compare_exchanges(caller, replay.source_exchange_id, replay.exchange_id)


async def compare_exchanges(caller: Caller, one: str, other: str) -> Comparison:
    """Compare two exchanges under the noise rules of their route. Raises :class:`Problem`."""
    before, after = await get_exchange(caller, one), await get_exchange(caller, other)
    async with caller.server.intake.readers.turn(caller.tenant):
        return await side_by_side(
            caller.server, caller.tenant, before.app, exchange_of(before), exchange_of(after)
        )


class RouteRules(msgspec.Struct, frozen=True, rename="camel"):
    """The rules of a route, as they are given out and put."""

    app: Id
    route: RouteId
    rules: list[Any]


class Learning(msgspec.Struct, frozen=True, rename="camel"):
    """Two replays of one exchange, in which nothing was changed."""

    replays: Annotated[tuple[Id, ...], msgspec.Meta(min_length=2, max_length=2)]


async def list_noise_rules(caller: Caller, app: str = "", route: str = "") -> list[RouteRules]:
    """Return the noise rules of the apps that the caller can read."""
    places = places_of(caller, "exchange:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        rows = await list_rules(scope, app, route)
    seen = [row for row in rows if places is None or any(p.app in (None, row.app) for p in places)]
    return [_shown(row) for row in seen]


def _shown(row: Row[Any]) -> RouteRules:
    return RouteRules(row.app, row.route_id, msgspec.to_builtins(rules_in(row)))


async def replace_noise_rules(caller: Caller, wanted: RouteRules) -> RouteRules:
    """Replace the noise rules of a route. Raises :class:`Problem`."""
    rules = _read(wanted.rules)
    return await change_noise(caller, wanted.app, wanted.route, lambda _: rules)


def _read(rules: Any) -> tuple[NoiseRule, ...]:
    try:
        return read_rules(rules)
    except UsageError as error:
        raise Problem("invalid", error.message, hint=error.hint or "") from None


async def learn_noise(caller: Caller, wanted: Learning) -> RouteRules:
    """Add rules for everything that differs between two unedited replays of one exchange."""
    one, other = [await get_replay(caller, replay) for replay in wanted.replays]
    _check_pair(one, other)
    _may_change(caller, one.app)
    before, after = [await get_exchange(caller, row.exchange_id) for row in (one, other)]
    async with caller.server.intake.readers.turn(caller.tenant):
        found = await side_by_side(
            caller.server, caller.tenant, before.app, exchange_of(before), exchange_of(after)
        )
    return await change_noise(caller, one.app, one.route_id, lambda old: merged(old, learn(found)))


_EXAMINED: Final = 200
_MOST_PAIRS: Final = 10


class ReplayPair(msgspec.Struct, frozen=True):
    """Two replays of one exchange, the older one first; times are in milliseconds."""

    exchange_id: str
    first: str
    first_at: int
    second: str
    second_at: int


async def replay_pairs(caller: Caller, app: str, route: str) -> list[ReplayPair]:
    """Return pairs of completed replays without an edit: the two newest of each exchange, among the
    newest."""
    places = places_of(caller, "exchange:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        wanted = ReplayFilters(state="completed")
        rows = await list_replays(scope, wanted, places, Page(_EXAMINED))
    found: dict[str, list[Row[Any]]] = {}
    for row in rows:
        if (row.app, row.route_id) == (app, route) and not unpack(row.patch, list):
            found.setdefault(row.source_exchange_id, []).append(row)
    pairs = [
        ReplayPair(source, old.replay_id, old.requested_at, new.replay_id, new.requested_at)
        for source, (new, old, *_) in ((s, r) for s, r in found.items() if len(r) > 1)
    ]
    return pairs[:_MOST_PAIRS]


def _check_pair(one: Row[Any], other: Row[Any]) -> None:
    if one.replay_id == other.replay_id or one.source_exchange_id != other.source_exchange_id:
        raise Problem("invalid", "these are not two replays of one exchange", field="replays")
    for row in (one, other):
        if row.state != "completed":
            raise Problem("conflict", f"the replay {row.replay_id} is {row.state}, not completed")
        if unpack(row.patch, list):
            raise Problem("invalid", f"the replay {row.replay_id} was edited", field="replays")


def _may_change(caller: Caller, app: str) -> None:
    """Raise :class:`Problem` without a grant for all environments, because rules apply to all."""
    caller.require("replay:execute", ResourceScope(None, app))


async def change_noise(
    caller: Caller,
    app: str,
    route: str,
    change: Callable[[tuple[NoiseRule, ...]], tuple[NoiseRule, ...]],
) -> RouteRules:
    """Replace the rules of a route by the result of ``change``.

    Raises :class:`Problem` without permission and for invalid rules.
    """
    _may_change(caller, app)
    async with caller.server.database.writing(caller.tenant) as scope:
        rules = change(await rules_of(scope, app, route))
        _read([*msgspec.to_builtins(rules)])
        await set_rules(scope, app, route, rules, caller.server.now(), caller.principal.id)
        await caller.record(
            scope,
            "noise.changed",
            "route",
            f"{app} {route}",
            "replay:execute",
            rules=f"{len(rules)}",
        )
    return RouteRules(app, route, msgspec.to_builtins(rules))
