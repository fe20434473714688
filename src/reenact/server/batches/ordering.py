"""The replays of a batch, ordered: as many as its agents have room for, and each once."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Row

from reenact.server.access import Place
from reenact.server.asking import Caller
from reenact.server.batches.choosing import Choice
from reenact.server.batches.part import Part
from reenact.server.batches.shapes import BatchAsked
from reenact.server.exchanges.documents import loose
from reenact.server.exchanges.ordering import order
from reenact.server.exchanges.wanting import ReplayRequest, Target
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.server.storage.batch_items import change_item, open_groups, refuse_place, waiting_items
from reenact.server.storage.batch_rows import set_hindered

__all__ = ["Orders"]

_AT_ONCE: Final = 200
_MOST: Final = 64
"""Orders of one batch before the others get their turn."""
_LATER: Final = frozenset({"rate_limited", "agent_offline", "conflict"})
"""Codes of what may be another time."""

_Group = tuple[Place, str]


class Orders:
    """Remembers since when it saw nobody in a place: a batch waits that long for an agent that is
    being started again, and no longer."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._alone: dict[tuple[str, Place], int] = {}

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
        """Why not now, or which agent; none when nobody has come for too long."""
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
        """Who may not replay one exchange there may replay none: the others are not tried."""
        async with self._server.database.writing(caller.tenant) as scope:
            values = {"state": "refused", "code": problem.code, "message": problem.message}
            await change_item(scope, batch.batch_id, item.exchange_id, "waiting", values)
            if problem.status == 403:
                place = Place(item.environment, item.app)
                await refuse_place(scope, batch.batch_id, place, problem.code, problem.message)


def _group(row: Row[Any]) -> _Group:
    return Place(row.environment, row.app), row.route_id


def _wanted(batch: Row[Any], item: Row[Any], agent: str) -> ReplayRequest:
    asked = loose(batch.wanted, BatchAsked)
    target = Target(agent_id=agent) if agent else Target(environment=item.environment)
    return ReplayRequest(
        target=target,
        boundaries=asked.boundaries,
        strict=asked.strict,
        environment_variables=asked.environment_variables,
        revision=asked.revision,
        reason=asked.reason,
    )
