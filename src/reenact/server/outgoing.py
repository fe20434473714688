"""Answers on their way out: a large one in pieces, as fast as it is read, and no slower than is decent.

What was written and not read yet is in the buffer of the connection, and that is bounded. What is held
until it was read counts, and when too much does, further large answers are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import Message, Send

from reenact.server.pace import Pace
from reenact.server.ports import Server

__all__ = ["Outgoing", "ReaderTooSlow"]

_PIECE: Final = 1 << 16


class ReaderTooSlow(OSError):
    """Nobody reads the answer, or so slowly that it comes to the same."""


class Outgoing:
    """One answer. Streams of events are left alone: they look after their readers themselves."""

    def __init__(self, server: Server, send: Send, held: ExitStack) -> None:
        self._server = server
        self._send = send
        self._held = held
        self._pace: Pace | None = None

    async def send(self, message: Message, tenant: str) -> None:
        """Raises :class:`ReaderTooSlow`; for a large answer for which there is no room, ``Problem``,
        before anything of it was sent."""
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
