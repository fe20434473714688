"""Background driver of confirmed batches.

It records replays that have ended and requests waiting ones while app agents have capacity. All state is
in the database: a restarted server continues, and two servers can drive the same batch because an
exchange is requested at most once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from reenact.audit.record import Actor
from reenact.errors import ReenactError
from reenact.exchange.model import TERMINAL
from reenact.server.agents.presence import heard_since
from reenact.server.auth.permissions import ResourceScope
from reenact.server.batches.schema import BatchRequest
from reenact.server.context import Caller
from reenact.server.notifications import DRIVERS, Subscription, batch_subject, replay_subject
from reenact.server.problems import Problem
from reenact.server.replays.schema import ReplayRequest, Target
from reenact.server.replays.service import order
from reenact.server.runtime import Principal, Server
from reenact.server.storage.agents import online_agents
from reenact.server.storage.batches import (
    asked_items,
    change_batch,
    change_item,
    count_of_agent,
    find_batch,
    find_item,
    locked_batch,
    open_groups,
    refuse_place,
    set_hindered,
    settled,
    under_way,
    waiting_items,
)
from reenact.server.storage.database import Scope
from reenact.server.storage.people import grants_now, tenant_now
from reenact.server.storage.replays import find_replay
from reenact.server.storage.rows import unpack

__all__ = [
    "MINUTE",
    "Choice",
    "Driver",
    "Orders",
    "Part",
    "run",
]

_LOG: Final = logging.getLogger("reenact.server")
_MOST_SUBSCRIPTIONS: Final = 256
_AFTER: Final = {"running": "completed", "cancelling": "cancelled"}


async def run(server: Server, stop: asyncio.Event) -> None:
    """Drive all batches until ``stop`` is set."""
    driver = Driver(server)
    with server.notifications.subscribe(DRIVERS) as subscription:
        while not stop.is_set():
            watched = await driver.drive()
            await _wait(server, stop, subscription, watched)


async def _wait(
    server: Server, stop: asyncio.Event, subscription: Subscription, watched: Sequence[str]
) -> None:
    """Until there is something to do, or it is time to look."""
    seconds = server.timings.sweep
    with ExitStack() as stack:
        subscriptions = [
            stack.enter_context(server.notifications.subscribe(one)) for one in watched
        ]
        tasks = {asyncio.ensure_future(one.wait(seconds)) for one in (subscription, *subscriptions)}
        tasks.add(asyncio.ensure_future(stop.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Driver:
    """Of all batches of all tenants, one after the other."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._orders = Orders(server)

    async def drive(self) -> list[str]:
        """One step of each; gives what to listen for. One that fails does not keep the others."""
        async with self._server.database.platform() as platform:
            batches = await under_way(platform)
        watched: list[str] = []
        for one in batches:
            try:
                replays = await self.step(one.tenant, one.batch_id)
                watched += (replay_subject(one.tenant, replay) for replay in replays)
            except (ReenactError, Problem, SQLAlchemyError):
                _LOG.exception("the batch %s could not be driven on", one.batch_id)
        self._orders.forget_all_but({one.batch_id for one in batches})
        return watched[:_MOST_SUBSCRIPTIONS]

    async def step(self, tenant: str, batch_id: str) -> list[str]:
        """Ids of the replays that are under way after it."""
        server = self._server
        noted = await self._note(tenant, batch_id)
        async with server.database.reading(tenant) as scope:
            batch = await find_batch(scope, batch_id)
            caller = None if batch is None else await _caller(server, scope, batch)
        if batch is None or caller is None or batch.state not in _AFTER:
            return []
        ordered = batch.state == "running" and await self._orders.give(caller, batch)
        ended = await self._end(tenant, batch)
        if noted or ordered or ended:
            server.notifications.publish(batch_subject(tenant, batch_id))
        async with server.database.reading(tenant) as scope:
            return [item.replay_id for item in await asked_items(scope, batch_id)]

    async def _note(self, tenant: str, batch_id: str) -> bool:
        """Write down what came of replays that have ended."""
        async with self._server.database.reading(tenant) as scope:
            rows = await settled(scope, batch_id, sorted(TERMINAL))
        if not rows:
            return False
        async with self._server.database.writing(tenant) as scope:
            for row in rows:
                values = {
                    "state": "ended",
                    "outcome": row.state,
                    "code": row.code,
                    "message": row.message,
                    "verdict": row.verdict,
                    "cause": row.cause,
                    "ending": row.ending,
                    "http_status": row.http_status,
                }
                await change_item(scope, batch_id, row.exchange_id, "asked", values)
        return True

    async def _end(self, tenant: str, batch: Row[Any]) -> bool:
        async with self._server.database.reading(tenant) as scope:
            if await open_groups(scope, batch.batch_id):
                return False
        values = {"state": _AFTER[batch.state], "ended_at": self._server.now(), "hindered": ""}
        async with self._server.database.writing(tenant) as scope:
            if await open_groups(scope, batch.batch_id):
                return False
            return await change_batch(scope, batch.batch_id, batch.state, values)


async def _caller(server: Server, scope: Scope, batch: Row[Any]) -> Caller:
    """Return the user who confirmed the batch, with their current permissions."""
    actor = msgspec.json.decode(batch.actor, type=Actor)
    principal = Principal(
        type="user" if actor.type == "user" else "key",
        id=actor.id,
        name=batch.actor_name,
        tenant=await tenant_now(scope),
        grants=await grants_now(scope, actor.id, actor.auth, actor.credential, server.now()),
        auth="session" if actor.auth == "session" else "key",
        credential=actor.credential,
        ip=actor.ip,
        agent_header=actor.ua,
    )
    return Caller(server, principal)


_AT_ONCE: Final = 200
_MOST: Final = 64
"""Orders of one batch before the others get their turn."""
_LATER: Final = frozenset({"rate_limited", "agent_offline", "conflict"})
"""Codes of what may be another time."""

_Group = tuple[ResourceScope, str]


class Orders:
    """Requests of batch replays.

    It remembers how long a location has had no agent, so that a batch waits for an agent that
    restarts, but not longer.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._alone: dict[tuple[str, ResourceScope], int] = {}

    def forget_all_but(self, batches: set[str]) -> None:
        self._alone = {key: at for key, at in self._alone.items() if key[0] in batches}

    async def give(self, caller: Caller, batch: Row[Any]) -> bool:
        """Order what can be ordered now. False when nothing has changed."""
        chosen, hindered = await self._choose(caller, batch)
        done = 0
        for item, agent in chosen:
            done += await self._order(caller, batch, item, agent)
        if hindered != batch.hindered:
            async with self._server.database.writing(caller.tenant) as scope:
                await set_hindered(scope, batch.batch_id, hindered)
            done += 1
        return bool(done)

    async def _choose(
        self, caller: Caller, batch: Row[Any]
    ) -> tuple[list[tuple[Row[Any], str]], str]:
        """Items and their agents, and the code of what the others wait for."""
        found: list[tuple[Row[Any], str]] = []
        full: dict[_Group, str] = {}
        async with self._server.database.reading(caller.tenant) as scope:
            choice = Choice(self._server, scope, batch)
            groups = {_group(one) for one in await open_groups(scope, batch.batch_id, ["waiting"])}
            after = 0
            while len(found) < _MOST and groups - full.keys():
                items = await waiting_items(scope, batch.batch_id, after, _AT_ONCE)
                for item in items:
                    after = item.position
                    group = _group(item)
                    if group in full or len(found) >= _MOST:
                        continue
                    why, agent = await self._agent(choice, batch.batch_id, group)
                    if why:
                        full[group] = why
                    else:
                        found.append((item, agent))
                if len(items) < _AT_ONCE:
                    break
        return found, "agent_offline" if "agent_offline" in full.values() else ""

    async def _agent(self, choice: Choice, batch_id: str, group: _Group) -> tuple[str, str]:
        """Return an agent, or the code of the obstacle; neither after waiting too long."""
        place, route_id = group
        if not await choice.anybody(place):
            since = self._alone.setdefault((batch_id, place), self._server.now())
            patience = self._server.timings.batch_patience * 1000
            return ("agent_offline" if self._server.now() - since < patience else "", "")
        self._alone.pop((batch_id, place), None)
        agent = await choice.agent(place, route_id)
        if agent:
            choice.took(agent)
        return ("" if agent else "busy", agent)

    async def _order(self, caller: Caller, batch: Row[Any], item: Row[Any], agent: str) -> bool:
        part = Part(batch, item.exchange_id, agent, self._server.now())
        try:
            await order(caller, item.exchange_id, _wanted(batch, item, agent), part)
        except Problem as problem:
            if problem.code in _LATER and agent:
                return False
            await self._refuse(caller, batch, item, problem)
        return True

    async def _refuse(
        self, caller: Caller, batch: Row[Any], item: Row[Any], problem: Problem
    ) -> None:
        """Refuse all waiting items of a location, because the missing permission applies to all of
        them."""
        async with self._server.database.writing(caller.tenant) as scope:
            values = {"state": "refused", "code": problem.code, "message": problem.message}
            await change_item(scope, batch.batch_id, item.exchange_id, "waiting", values)
            if problem.status == 403:
                place = ResourceScope(item.environment, item.app)
                await refuse_place(scope, batch.batch_id, place, problem.code, problem.message)


def _group(row: Row[Any]) -> _Group:
    return ResourceScope(row.environment, row.app), row.route_id


def _wanted(batch: Row[Any], item: Row[Any], agent: str) -> ReplayRequest:
    asked = unpack(batch.wanted, BatchRequest)
    target = Target(agent_id=agent) if agent else Target(environment=item.environment)
    return ReplayRequest(
        target=target,
        boundaries=asked.boundaries,
        strict=asked.strict,
        environment_variables=asked.environment_variables,
        revision=asked.revision,
        reason=asked.reason,
    )


class Choice:
    """For one look at one batch; what was seen once is not asked again."""

    def __init__(self, server: Server, scope: Scope, batch: Row[Any]) -> None:
        self._server = server
        self._scope = scope
        self._batch = batch
        self._agents: dict[ResourceScope, Sequence[Row[Any]]] = {}
        self._routes: dict[str, frozenset[str]] = {}
        self._load: dict[str, tuple[int, int]] = {}

    async def anybody(self, place: ResourceScope) -> bool:
        """Return whether any agent is online."""
        return bool(await self._at(place))

    async def agent(self, place: ResourceScope, route_id: str) -> str:
        """The one with the least to do; empty when all have enough."""
        online = await self._at(place)
        fit = [one for one in online if route_id in self._routes_of(one)] or online
        best, least = "", self._batch.concurrency
        for one in fit:
            busy, lately = await self._load_of(one.agent_id)
            if busy < least and lately < self._batch.per_minute:
                best, least = one.agent_id, busy
        return best

    def took(self, agent_id: str) -> None:
        """It has one more now."""
        busy, lately = self._load.get(agent_id, (0, 0))
        self._load[agent_id] = (busy + 1, lately + 1)

    async def _at(self, place: ResourceScope) -> Sequence[Row[Any]]:
        if place not in self._agents:
            since = heard_since(self._server.now(), self._server.timings)
            self._agents[place] = await online_agents(self._scope, place, since)
        return self._agents[place]

    def _routes_of(self, agent: Row[Any]) -> frozenset[str]:
        if agent.agent_id not in self._routes:
            routes = msgspec.json.decode(agent.routes)
            self._routes[agent.agent_id] = frozenset(one["routeId"] for one in routes)
        return self._routes[agent.agent_id]

    async def _load_of(self, agent_id: str) -> tuple[int, int]:
        if agent_id not in self._load:
            since = self._server.now() - MINUTE + 1
            self._load[agent_id] = await count_of_agent(self._scope, agent_id, since)
        return self._load[agent_id]


MINUTE: Final = 60_000


class Part:
    """One exchange of a batch, requested at most once.

    Its row is written together with the replay and stores the id of the replay permanently.
    """

    def __init__(self, batch_row: Row[Any], exchange_id: str, agent_id: str, now: int) -> None:
        self.batch: str = batch_row.batch_id
        self._row = batch_row
        self._exchange_id = exchange_id
        self._agent_id = agent_id
        self._now = now

    async def before(self, scope: Scope) -> Row[Any] | None:
        item = await find_item(scope, self.batch, self._exchange_id)
        if item is None or item.state not in ("waiting", "asked", "ended"):
            raise _not_now("conflict", "the batch does not want it any more")
        return await find_replay(scope, item.replay_id) if item.replay_id else None

    async def check(self, scope: Scope) -> None:
        """Check again inside the transaction: a different server can drive the same batch, or a
        user may have cancelled it."""
        row = await locked_batch(scope, self.batch)
        if row is None or row.state != "running":
            raise _not_now("conflict", "the batch is not running")
        if not self._agent_id:
            return
        busy, lately = await count_of_agent(scope, self._agent_id, self._now - MINUTE + 1)
        if busy >= self._row.concurrency or lately >= self._row.per_minute:
            raise _not_now("rate_limited", "the agent has enough to do")

    async def remember(self, scope: Scope, replay_id: str) -> None:
        values = {
            "state": "asked",
            "replay_id": replay_id,
            "agent_id": self._agent_id,
            "asked_at": self._now,
        }
        if not await change_item(scope, self.batch, self._exchange_id, "waiting", values):
            raise _not_now("conflict", "the batch does not want it any more")


def _not_now(code: str, message: str) -> Problem:
    """Return a problem that is not audited, because no user was refused."""
    return Problem(code, message, audited=True)
