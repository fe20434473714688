"""Connections, before there is a request on them and after there are too many.

A connection costs a file descriptor whether or not anybody asks for something. Who does not get as far
as the end of a request's head in time is cut off; and when there are nearly as many connections as the
process may have, each further one is answered that there is no room, so that files and the database
can still be opened.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["CROWDED", "connections", "most_connections"]

CROWDED: Final = "reenact.crowded"
"""In the scope of a request on a connection that is one too many."""
_KEPT: Final = 128
"""File descriptors that are not for connections: the database, blobs, exports."""
_HEAD: Final = 30.0


def most_connections() -> int:
    """How many this process may have, after it asked for as many as it can get. 0 is no limit."""
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return 0
    return max(hard - _KEPT, hard // 2)


def connections(most: int, head: float = _HEAD) -> type[H11Protocol]:
    """The protocol of connections of which there are at most ``most``; 0 is no limit. ``head`` is how
    many seconds the head of a request may take."""

    class Connection(H11Protocol):
        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if most and len(self.connections) > most:
                self.app = _crowded(self.app)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Is a head awaited? Between requests it is not until its first byte is here."""
            awaited = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
            if awaited and self._waiting is None:
                self._waiting = self.loop.call_later(head, self.transport.abort)
            elif not awaited and self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Connection


def _crowded(app: Any) -> Any:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, CROWDED: True}, receive, send)

    return refuse
