"""Limits on connections: their number, and the time until a request head is complete.

A connection costs a file descriptor even without requests, so a slow one is closed. Close to the
limit of the process, further connections get an error response, which leaves descriptors for files
and the database.
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
    """Return the maximum number of connections after raising the limit of the process; 0 means
    unlimited."""
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
    """Return a protocol class for at most ``most`` connections; 0 means unlimited.

    ``head`` is the time limit for a request head in seconds.
    """

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
