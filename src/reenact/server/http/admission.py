"""Admission control: memory for request bodies, and concurrent work.

Memory for a large body is reserved before it is read. Without memory the client is asked to retry,
because its tenant has used its share (429) or because all memory is in use (503). Admitted requests
are processed a few at a time, in turn by tenant, so a busy tenant does not delay the others. All of
this runs in one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from reenact.server.problems import Problem

__all__ = ["Intake", "Readers", "Room", "Turns"]

_LEAST: Final = 64 << 10
"""Bytes that the smallest request counts for: it has a connection and a task, too."""
_SHARES: Final = 2
"""Number of shares of the memory; a tenant gets one of them."""
_AGAIN: Final = 1
"""Seconds until one may come again."""


class Room:
    """Bytes that may be held at a time, by all and by each tenant."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: dict[str, int] = {}

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return sum(self._held.values())

    @contextmanager
    def taken(self, tenant: str, size: int) -> Iterator[None]:
        """Room for ``size`` bytes until the block ends. Raises :class:`Problem`. One that is larger
        than a share gets in when its tenant holds nothing else."""
        size = max(size, _LEAST)
        mine = self._held.get(tenant, 0)
        if mine and mine + size > self._size // _SHARES:
            raise Problem(
                "rate_limited",
                "too much of this tenant is under way",
                hint="send less at a time, or later",
                retry_after=_AGAIN,
            )
        if self.held and self.held + size > self._size:
            raise Problem(
                "unavailable",
                "the server has as much to do as it can hold",
                hint="come again later",
                retry_after=_AGAIN,
            )
        self._held[tenant] = mine + size
        try:
            yield
        finally:
            self._held[tenant] -= size
            if not self._held[tenant]:
                del self._held[tenant]


class Turns:
    """Semaphore that serves waiting tenants in turn."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        await self._take(tenant)
        try:
            yield
        finally:
            self._give()

    async def _take(self, tenant: str) -> None:
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give()  # it was its turn, and it does not want it any more
            raise

    def _give(self) -> None:
        """To the next one that still waits. Its tenant goes to the end."""
        while self._waiting:
            tenant = next(iter(self._waiting))
            queue = self._waiting.pop(tenant)
            first = queue.popleft()
            if queue:
                self._waiting[tenant] = queue
            if not first.done():
                first.set_result(None)
                return
        self._free += 1


class Readers:
    """Budget of each tenant for reading recordings, to view or compare them: ``most`` at a time.

    Others of the tenant wait in order, up to ``waiting`` of them; a further one is refused. Tenants do
    not wait for each other.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self._most = most
        self._waiting = waiting
        self._reading: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """One of the tenant's recordings is read until the block ends. Raises :class:`Problem`."""
        await self._take(tenant)
        try:
            yield
        finally:
            self._give(tenant)

    async def _take(self, tenant: str) -> None:
        if self._reading.get(tenant, 0) < self._most:
            self._reading[tenant] = self._reading.get(tenant, 0) + 1
            return
        queue = self._queues.setdefault(tenant, deque())
        if len(queue) >= self._waiting:
            raise Problem(
                "rate_limited",
                "too many recordings of this tenant are being viewed or compared",
                hint="try again later",
                retry_after=_AGAIN,
            )
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give(tenant)  # the turn was given to a request that has ended
            elif mine in queue:
                queue.remove(mine)
            raise

    def _give(self, tenant: str) -> None:
        """Hand the turn to the next one that still waits."""
        queue = self._queues.get(tenant, deque())
        while queue:
            first = queue.popleft()
            if not first.done():
                first.set_result(None)
                return
        self._queues.pop(tenant, None)
        self._reading[tenant] -= 1
        if not self._reading[tenant]:
            del self._reading[tenant]


class Intake:
    """Limits of one process: memory for requests (``room``) and responses (``outgoing``), large requests
    that are handled at a time (``turns``), and recordings that are read (``readers``)."""

    def __init__(self, size: int, turns: int, reads: int = 2, waiting: int = 32) -> None:
        self.readers = Readers(reads, waiting)
        self.room = Room(size)
        self.outgoing = Room(size)
        self.turns = Turns(turns)
