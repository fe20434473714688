"""Two exchanges side by side, and the noise rules that say what does not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Record, Subject
from reenact.errors import UsageError
from reenact.exchange.comparison.noise import NoiseRule, merged, read_rules
from reenact.exchange.comparison.noise_learning import learn
from reenact.exchange.comparison.result import Comparison
from reenact.exchange.model import Id, RouteId
from reenact.server.audit.log import actor_of
from reenact.server.auth.permissions import ResourceScope
from reenact.server.context import RequestContext
from reenact.server.exchanges.service import get_exchange, places_of
from reenact.server.problems import Problem
from reenact.server.replays.result import side_by_side
from reenact.server.replays.service import get_replay
from reenact.server.responses import ListResponse
from reenact.server.storage.documents import exchange_of, unpack
from reenact.server.storage.exchanges import list_rules, rules_in, rules_of, set_rules

__all__ = [
    "RouteRules",
    "change_noise",
    "diff_exchanges",
    "diff_replay",
    "learn_noise",
    "put_noise",
    "read_noise",
]


async def diff_exchanges(ask: RequestContext) -> Comparison:
    """``GET /api/v1/exchanges/{a}/diff/{b}``: the two side by side."""
    return await _compared(ask, ask.path("a"), ask.path("b"))


async def diff_replay(ask: RequestContext) -> Comparison:
    """``GET /api/v1/replays/{id}/diff``: source and replay; 409 while it has no exchange."""
    replay = await get_replay(ask, ask.path("id"))
    if not replay.exchange_id:
        raise Problem("conflict", f"there is nothing to compare: the replay is {replay.state}")
    return await _compared(ask, replay.source_exchange_id, replay.exchange_id)


async def _compared(ask: RequestContext, one: str, other: str) -> Comparison:
    before, after = await get_exchange(ask, one), await get_exchange(ask, other)
    async with ask.server.intake.readers.turn(ask.tenant):
        return await side_by_side(
            ask.server, ask.tenant, before.app, exchange_of(before), exchange_of(after)
        )


class RouteRules(msgspec.Struct, frozen=True, rename="camel"):
    """The rules of a route, as they are given out and put."""

    app: Id
    route: RouteId
    rules: list[Any]


class Learning(msgspec.Struct, frozen=True, rename="camel"):
    """Two replays of one exchange, in which nothing was changed."""

    replays: Annotated[tuple[Id, ...], msgspec.Meta(min_length=2, max_length=2)]


async def read_noise(ask: RequestContext) -> ListResponse:
    """``GET /api/v1/noise``: the rules of the apps that the one who asks may see, all at once."""
    places = places_of(ask, "exchange:read")
    async with ask.server.database.reading(ask.tenant) as scope:
        rows = await list_rules(scope, ask.query("app"), ask.query("route"))
    seen = [row for row in rows if places is None or any(p.app in (None, row.app) for p in places)]
    return ListResponse(items=[_shown(row) for row in seen])


def _shown(row: Row[Any]) -> RouteRules:
    return RouteRules(row.app, row.route_id, msgspec.to_builtins(rules_in(row)))


async def put_noise(ask: RequestContext) -> RouteRules:
    """``PUT /api/v1/noise``: replaces the rules of a route; 422 for rules that cannot be read."""
    wanted = await ask.json(RouteRules)
    rules = _read(wanted.rules)
    return await change_noise(ask, wanted.app, wanted.route, lambda _: rules)


def _read(rules: Any) -> tuple[NoiseRule, ...]:
    try:
        return read_rules(rules)
    except UsageError as error:
        raise Problem("invalid", error.message, hint=error.hint or "") from None


async def learn_noise(ask: RequestContext) -> RouteRules:
    """What differs between two replays without edits is noise, from now on."""
    wanted = await ask.json(Learning)
    one, other = [await get_replay(ask, replay) for replay in wanted.replays]
    _check_pair(one, other)
    _may_change(ask, one.app)
    before, after = [await get_exchange(ask, row.exchange_id) for row in (one, other)]
    async with ask.server.intake.readers.turn(ask.tenant):
        found = await side_by_side(
            ask.server, ask.tenant, before.app, exchange_of(before), exchange_of(after)
        )
    return await change_noise(ask, one.app, one.route_id, lambda old: merged(old, learn(found)))


def _check_pair(one: Row[Any], other: Row[Any]) -> None:
    if one.replay_id == other.replay_id or one.source_exchange_id != other.source_exchange_id:
        raise Problem("invalid", "these are not two replays of one exchange", field="replays")
    for row in (one, other):
        if row.state != "completed":
            raise Problem("conflict", f"the replay {row.replay_id} is {row.state}, not completed")
        if unpack(row.patch, list):
            raise Problem("invalid", f"the replay {row.replay_id} was edited", field="replays")


def _may_change(ask: RequestContext, app: str) -> None:
    """Rules hold wherever the app runs: a grant that is limited to an environment is too little."""
    ask.require("replay:execute", ResourceScope(None, app))


async def change_noise(
    ask: RequestContext,
    app: str,
    route: str,
    change: Callable[[tuple[NoiseRule, ...]], tuple[NoiseRule, ...]],
) -> RouteRules:
    """Put what ``change`` makes of the rules of a route in their place. Raises :class:`Problem` for
    somebody who may not, and for rules that cannot be."""
    _may_change(ask, app)
    async with ask.server.database.writing(ask.tenant) as scope:
        rules = change(await rules_of(scope, app, route))
        _read([*msgspec.to_builtins(rules)])
        await set_rules(scope, app, route, rules, ask.server.now(), ask.principal.id)
        await ask.server.auditor.write(
            scope,
            Record(
                tenant=ask.tenant,
                actor=actor_of(ask.principal),
                action="noise.changed",
                subject=Subject("route", f"{app} {route}"),
                permission="replay:execute",
                outcome="ok",
                details={"rules": f"{len(rules)}"},
            ),
        )
    return RouteRules(app, route, msgspec.to_builtins(rules))
