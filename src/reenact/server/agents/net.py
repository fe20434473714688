"""The net under the hints of command streams: what a hint has missed is found within ``Timings.poll``.

All streams of a process are looked after together, with a few questions per tenant, so that a thousand
agents that have nothing to do cost little. Whoever may have something is woken, and looks for itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from reenact.server.exchanges.subjects import agent_subject
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_agents import present_streams
from reenact.server.storage.exchange_outbox import with_unsent
from reenact.server.storage.exchange_requester import key_holds
from reenact.server.streams import Open

__all__ = ["run", "sweep"]

_LOG: Final = logging.getLogger("reenact.server")


async def run(server: Server, stop: asyncio.Event) -> None:
    """Look now and then until ``stop`` is set. A database that fails for a while is asked again."""
    while not stop.is_set():
        try:
            await sweep(server)
        except (SQLAlchemyError, Problem):
            _LOG.exception("command streams could not be looked after")
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), server.timings.poll)


async def sweep(server: Server) -> int:
    """Wake the streams that may have something to do; gives how many there were."""
    tenants: defaultdict[str, list[Open]] = defaultdict(list)
    for one in server.streams.open:
        tenants[one.tenant].append(one)
    woken = 0
    for tenant, streams in tenants.items():
        async with server.database.reading(tenant) as scope:
            stirred = await _stirred(scope, streams, server.now())
        for one in stirred:
            server.hints.wake(agent_subject(tenant, one.agent_id))
        woken += len(stirred)
    return woken


async def _stirred(scope: Scope, streams: list[Open], now: int) -> list[Open]:
    """Those that have a command, are not the last of their agent any more, or whose key is not good."""
    present = await present_streams(scope, [one.agent_id for one in streams])
    keys = {key: await key_holds(scope, key, now) for key in {one.key_id for one in streams}}
    unsent = await with_unsent(scope, now)
    return [
        one
        for one in streams
        if one.agent_id in unsent
        or not keys[one.key_id]
        or present.get(one.agent_id) != (one.epoch, one.number)
    ]
