"""Minimum transfer rates of request and response bodies.

A large response is sent in pieces. Its size counts against a limit until the client has read it; above
that limit further large responses are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import Message, Send

from reenact.server.runtime import Server

__all__ = [
    "Outgoing",
    "Pace",
    "ReaderTooSlow",
]


class Pace:
    """Minimum transfer rate, measured from now.

    In each period of ``Timings.slow`` seconds at least ``Limits.rate`` bytes per second must be
    transferred, or all remaining bytes.
    """

    def __init__(self, server: Server) -> None:
        self._span = server.timings.slow
        self._enough = server.limits.rate * server.timings.slow
        self._moved = 0
        self._since = asyncio.get_running_loop().time()

    def limit(self) -> asyncio.Timeout:
        """Raises :class:`TimeoutError` when nothing moves; to be rescheduled with :meth:`moved`."""
        return asyncio.timeout_at(self.moved(0))

    def moved(self, number: int) -> float:
        """Count ``number`` bytes, and return the new deadline in loop time."""
        self._moved += number
        if self._moved >= self._enough:
            self._moved, self._since = 0, asyncio.get_running_loop().time()
        return self._since + self._span


_PIECE: Final = 1 << 16


class ReaderTooSlow(OSError):
    """The client does not read the response, or reads it too slowly."""


class Outgoing:
    """One answer. Streams of events are left alone: they look after their readers themselves."""

    def __init__(self, server: Server, send: Send, held: ExitStack) -> None:
        self._server = server
        self._send = send
        self._held = held
        self._pace: Pace | None = None

    async def send(self, message: Message, tenant: str) -> None:
        """Send a message.

        Raises :class:`ReaderTooSlow`, and ``Problem`` before the first byte of a large response if
        no memory is available.
        """
        if message["type"] == "http.response.start":
            self._begin(Headers(raw=message["headers"]), tenant)
            await self._send(message)
        elif self._pace is None:
            await self._send(message)
        else:
            for piece in _pieces(message):
                await self._push(self._pace, piece)

    def _begin(self, headers: Headers, tenant: str) -> None:
        if headers.get("content-type", "").startswith("text/event-stream"):
            return
        size = int(headers.get("content-length", 0))
        if size > _PIECE:
            self._held.enter_context(self._server.intake.outgoing.taken(tenant, size))
        self._pace = Pace(self._server)

    async def _push(self, pace: Pace, piece: Message) -> None:
        try:
            async with pace.limit():
                await self._send(piece)
        except TimeoutError:
            raise ReaderTooSlow from None
        pace.moved(len(piece.get("body", b"")))


def _pieces(message: Message) -> Iterator[dict[str, Any]]:
    body = message.get("body", b"")
    last = max(len(body) - 1, 0) // _PIECE * _PIECE
    for at in range(0, last, _PIECE):
        yield {"type": message["type"], "body": body[at : at + _PIECE], "more_body": True}
    yield {**message, "body": body[last:]}
