"""Which agent gets the next replay of a batch: one that is there, has the route, and has room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.server.access import Place
from reenact.server.agents.presence import heard_since
from reenact.server.batches.part import MINUTE
from reenact.server.ports import Server
from reenact.server.storage.batch_items import count_of_agent
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_agents import online_agents

__all__ = ["Choice"]


class Choice:
    """For one look at one batch; what was seen once is not asked again."""

    def __init__(self, server: Server, scope: Scope, batch: Row[Any]) -> None:
        self._server = server
        self._scope = scope
        self._batch = batch
        self._agents: dict[Place, Sequence[Row[Any]]] = {}
        self._routes: dict[str, frozenset[str]] = {}
        self._load: dict[str, tuple[int, int]] = {}

    async def anybody(self, place: Place) -> bool:
        """Is somebody there?"""
        return bool(await self._at(place))

    async def agent(self, place: Place, route_id: str) -> str:
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

    async def _at(self, place: Place) -> Sequence[Row[Any]]:
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
