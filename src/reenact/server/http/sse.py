"""Server-sent events with one reader and no queue; a slow reader is disconnected.

Unread events are in the buffer of the connection, which is bounded. A writer waits at most
``patience`` seconds for space.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from reenact._net.sse import encode_comment, encode_event, encode_retry
from reenact._system import monotonic
from reenact.server.context import RequestContext
from reenact.server.notifications import wait_for_notification

__all__ = ["Channel", "EventStream", "ReaderGone", "follow"]

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # or nginx would hold events back
}


class ReaderGone(Exception):
    """The reader has disconnected, or reads too slowly."""


class Channel:
    """The way to one reader."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send = send
        self._patience = patience

    async def event(self, name: str, data: bytes, id: int | None = None) -> None:
        """One event. ``data`` is JSON in one line. Raises :class:`ReaderGone`."""
        await self._write(encode_event(name, data, id))

    async def retry(self, seconds: float) -> None:
        """Send the reconnection delay."""
        await self._write(encode_retry(seconds))

    async def ping(self) -> None:
        await self._write(encode_comment("ping"))

    async def _write(self, data: bytes) -> None:
        message = {"type": "http.response.body", "body": data, "more_body": True}
        try:
            # Not wait_for: before Python 3.12 that loses a cancellation which comes as the send ends,
            # and a connection that is lost does both at once.
            async with asyncio.timeout(self._patience):
                await self._send(message)
        except (TimeoutError, OSError):
            raise ReaderGone from None


class EventStream(Response):
    """Response that ends when ``write`` returns or the reader disconnects."""

    media_type = "text/event-stream"

    def __init__(self, write: Callable[[Channel], Awaitable[None]], patience: float = 30.0) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._write = write
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        writing = asyncio.ensure_future(self._all(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, leaving):
                task.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)
        if not writing.cancelled() and (error := writing.exception()) is not None:
            raise error

    async def _all(self, send: Send) -> None:
        try:
            await self._write(Channel(send, self._patience))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except ReaderGone:
            return


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


View = TypeVar("View")


def follow(
    context: RequestContext,
    subject: str,
    event: str,
    read: Callable[[], Awaitable[View]],
    *,
    key: Callable[[View], object],
    is_over: Callable[[View], bool],
) -> EventStream:
    """Return a stream of the view that ``read`` returns: now, and whenever its ``key`` changes, until
    it is over. ``subject`` is what notifications of changes are published on."""
    server = context.server

    async def write(channel: Channel) -> None:
        await channel.retry(server.timings.retry)
        last, quiet_since = None, monotonic()
        with server.notifications.subscribe(subject) as subscription:
            while not server.stopping.is_set():
                view = await read()
                if (now := key(view)) != last:
                    last, quiet_since = now, monotonic()
                    await channel.event(event, msgspec.json.encode(view))
                if is_over(view):
                    return
                if monotonic() - quiet_since >= server.timings.ping:
                    quiet_since = monotonic()
                    await channel.ping()
                await wait_for_notification(server, subscription, server.timings.poll)

    return EventStream(write, server.timings.slow)
