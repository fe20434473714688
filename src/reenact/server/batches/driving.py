"""Batches, driven on: what has ended is noted, what waits is ordered as far as agents have room.

Everything that counts is in the database. A server that is started again goes on where the last one
was, and two servers may drive the same batch: an exchange is ordered once, whoever does it.
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
from reenact.server.asking import Caller
from reenact.server.batches.ordering import Orders
from reenact.server.batches.subjects import DRIVERS, batch_subject
from reenact.server.exchanges.subjects import replay_subject
from reenact.server.hints import Ear
from reenact.server.ports import Principal, Server
from reenact.server.problems import Problem
from reenact.server.storage.batch_items import asked_items, change_item, open_groups, settled
from reenact.server.storage.batch_rows import change_batch, find_batch, under_way
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_requester import grants_now, tenant_now

__all__ = ["Driver", "run"]

_LOG: Final = logging.getLogger("reenact.server")
_MOST_EARS: Final = 256
_AFTER: Final = {"running": "completed", "cancelling": "cancelled"}


async def run(server: Server, stop: asyncio.Event) -> None:
    """Drive all batches until ``stop`` is set."""
    driver = Driver(server)
    with server.hints.listening(DRIVERS) as ear:
        while not stop.is_set():
            watched = await driver.drive()
            await _rest(server, stop, ear, watched)


async def _rest(server: Server, stop: asyncio.Event, ear: Ear, watched: Sequence[str]) -> None:
    """Until there is something to do, or it is time to look."""
    seconds = server.timings.sweep
    with ExitStack() as stack:
        ears = [stack.enter_context(server.hints.listening(one)) for one in watched]
        tasks = {asyncio.ensure_future(one.wait(seconds)) for one in (ear, *ears)}
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
        return watched[:_MOST_EARS]

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
            server.hints.give(batch_subject(tenant, batch_id))
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
    """Whoever confirmed it, with what they may do now."""
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
