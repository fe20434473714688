"""Hints among several servers, by way of PostgreSQL's notifications.

One connection per server listens and notifies. When it is lost it is made again, and everybody who
waits is woken, because something may have been missed. What counts is in the database all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from reenact.server.hints import Hints
from reenact.server.storage.postgres import connect

__all__ = ["shared_hints"]

_LOG: Final = logging.getLogger("reenact.server")
_CHANNEL: Final = "reenact"
_NOTIFY: Final = f"SELECT pg_notify('{_CHANNEL}', subject) FROM unnest($1::text[]) AS subject"
_AGAIN: Final = 1.0
"""Seconds until a lost connection is tried again."""


@asynccontextmanager
async def shared_hints(address: str) -> AsyncIterator[Hints]:
    """Until the block ends."""
    hints = _SharedHints(address)
    task = asyncio.create_task(hints.run())
    try:
        await hints.listens.wait()
        yield hints
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _SharedHints(Hints):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.listens = asyncio.Event()
        """Set when others have been heard, or cannot be."""
        self._address = address
        self._told: set[str] = set()
        self._work = asyncio.Event()

    def give(self, subject: str) -> None:
        """Here at once, elsewhere soon. Only ids leave."""
        self.wake(subject)
        self._told.add(subject)
        self._work.set()

    async def run(self) -> None:
        while True:
            try:
                await self._talk()
            except Exception as error:  # noqa: BLE001 - polling is the net; told, and begun again
                _LOG.warning("hints from other servers are lost: %s", type(error).__name__)
            self.listens.set()
            await asyncio.sleep(_AGAIN)

    async def _talk(self) -> None:
        connection = await connect(self._address)
        try:
            connection.add_termination_listener(self._lost)
            await connection.add_listener(_CHANNEL, self._heard)
            self.listens.set()
            self.give_all()
            while not connection.is_closed():
                await self._work.wait()
                self._work.clear()
                subjects, self._told = sorted(self._told), set()
                await connection.execute(_NOTIFY, subjects)
        finally:
            await connection.close(timeout=1)

    def _heard(self, connection: Any, pid: int, channel: str, subject: str) -> None:
        if pid != connection.get_server_pid():
            self.wake(subject)

    def _lost(self, connection: Any) -> None:
        self._work.set()
