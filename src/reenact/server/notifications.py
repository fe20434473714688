"""Notifications between parts of a server, and between servers through PostgreSQL.

A notification has no content: something may have changed. The state is in the database, and a
waiter polls it anyway. When the PostgreSQL connection is lost it is opened again and every waiter
is woken, because notifications may have been missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

from reenact.server.runtime import Server
from reenact.server.storage.engines import connect

__all__ = [
    "DRIVERS",
    "Notifications",
    "Subscription",
    "agent_subject",
    "batch_subject",
    "postgres_notifications",
    "replay_subject",
    "wait_for_notification",
]


class Subscription:
    """Hears of one subject."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """True when there was a hint since the last time, False when nothing came in time."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Notifications:
    """Subjects are texts, such as ``agent:<tenant>:<id>``. In one loop."""

    def __init__(self) -> None:
        self._subscriptions: defaultdict[str, set[Subscription]] = defaultdict(set)

    def publish(self, subject: str) -> None:
        """Notify the subscribers of all processes."""
        self.wake(subject)

    def wake(self, subject: str) -> None:
        """Notify the subscribers of this process."""
        for subscription in self._subscriptions.get(subject, ()):
            subscription.wake()

    def wake_all(self) -> None:
        """Notify all subscribers, because notifications may have been missed."""
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.wake()

    @contextmanager
    def subscribe(self, subject: str) -> Iterator[Subscription]:
        subscription = Subscription()
        self._subscriptions[subject].add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions[subject].discard(subscription)
            if not self._subscriptions[subject]:
                del self._subscriptions[subject]


_LOG: Final = logging.getLogger("reenact.server")
_CHANNEL: Final = "reenact"
_NOTIFY: Final = f"SELECT pg_notify('{_CHANNEL}', subject) FROM unnest($1::text[]) AS subject"
_AGAIN: Final = 1.0
"""Seconds until a lost connection is tried again."""


@asynccontextmanager
async def postgres_notifications(address: str) -> AsyncIterator[Notifications]:
    """Until the block ends."""
    notifications = _PostgresNotifications(address)
    task = asyncio.create_task(notifications.run())
    try:
        await notifications.connected.wait()
        yield notifications
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _PostgresNotifications(Notifications):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.connected = asyncio.Event()
        """Set when others have been heard, or cannot be."""
        self._address = address
        self._unsent: set[str] = set()
        self._work = asyncio.Event()

    def publish(self, subject: str) -> None:
        """Here at once, elsewhere soon. Only ids leave."""
        self.wake(subject)
        self._unsent.add(subject)
        self._work.set()

    async def run(self) -> None:
        while True:
            try:
                await self._talk()
            except Exception as error:  # noqa: BLE001 - logged, then retried; polling covers the gap
                _LOG.warning("hints from other servers are lost: %s", type(error).__name__)
            self.connected.set()
            await asyncio.sleep(_AGAIN)

    async def _talk(self) -> None:
        connection = await connect(self._address)
        try:
            connection.add_termination_listener(self._lost)
            await connection.add_listener(_CHANNEL, self._heard)
            self.connected.set()
            self.wake_all()
            while not connection.is_closed():
                await self._work.wait()
                self._work.clear()
                subjects, self._unsent = sorted(self._unsent), set()
                await connection.execute(_NOTIFY, subjects)
        finally:
            await connection.close(timeout=1)

    def _heard(self, connection: Any, pid: int, channel: str, subject: str) -> None:
        if pid != connection.get_server_pid():
            self.wake(subject)

    def _lost(self, connection: Any) -> None:
        self._work.set()


def agent_subject(tenant: str, agent_id: str) -> str:
    """There may be a command, or a newer stream, for this agent."""
    return f"agent:{tenant}:{agent_id}"


def replay_subject(tenant: str, replay_id: str) -> str:
    """This replay may be in another state."""
    return f"replay:{tenant}:{replay_id}"


DRIVERS: Final = "batches"
"""There may be a batch to drive on."""


def batch_subject(tenant: str, batch_id: str) -> str:
    """This batch may have got on."""
    return f"batch:{tenant}:{batch_id}"


async def wait_for_notification(server: Server, subscription: Subscription, seconds: float) -> bool:
    """Until there is a hint, the server begins to stop, or the time is over. Was there a hint?"""
    hint = asyncio.ensure_future(subscription.wait(seconds))
    stopping = asyncio.ensure_future(server.stopping.wait())
    try:
        await asyncio.wait({hint, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return hint.done() and hint.result()
    finally:
        for task in (hint, stopping):
            task.cancel()
        await asyncio.gather(hint, stopping, return_exceptions=True)
