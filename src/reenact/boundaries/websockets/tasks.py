"""The asyncio client of ``websockets``, from version 13.1.

The seam is the awaiting of ``connect(…)``, where all its uses meet: ``await``, ``async with`` and
the reconnecting ``async for``. The program gets a connection of the class it asked for that goes
nowhere: what it does goes through the session, and while recording on to the real connection, which
lives with its tasks in no session.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.uri import parse_uri

from reenact.boundaries.websocket import Accepted, open_link_async
from reenact.boundaries.websockets.opening import (
    Kinds,
    Nowhere,
    accepted,
    opening_of,
    settle,
    unmoved,
)
from reenact.boundaries.websockets.task_connection import LinkedConnection
from reenact.boundaries.websockets.values import ClientErrors
from reenact.engine.patches.patch import Patch
from reenact.engine.session.context import context_outside_sessions
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = ["seams"]

_ERRORS = ClientErrors()


def seams(library: ModuleType) -> list[Patch]:
    """The patches of ``websockets.asyncio.client``."""
    kinds = Kinds(ClientConnection, LinkedConnection)
    keeps = hasattr(library.connect, "__await_impl__")  # up to version 16 it closes what it keeps

    def wrap(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def opened(session: Session, connect: Any) -> Any:
            connection = await _open(session, connect, original, kinds)
            if keeps:
                connect.connection = connection
            return connection

        def __await__(connect: Any) -> Generator[Any, Any, Any]:
            session = current()
            if session is None or session.mode == "off":
                found: Generator[Any, Any, Any] = original(connect)
                return found
            return opened(session, connect).__await__()

        return __await__

    return [Patch(library.connect, "__await__", wrap)]


async def _open(
    session: Session, connect: Any, original: Callable[[Any], Any], kinds: Kinds
) -> Any:
    connection = context_outside_sessions().run(_unconnected, connect)
    opening, request = opening_of(connection.protocol, connect.uri, *_handshake(connect))
    real: list[Any] = []

    async def live() -> Accepted:
        with unmoved(connect):
            real.append(await _Awaiting(connect, original))
        return accepted(real[0])

    try:
        answer, link = await open_link_async(session, opening, live, _ERRORS)
    except BaseException:
        for one in real:
            one.transport.abort()
        raise
    if link is None:
        return real[0]
    settle(connection, request, answer)
    connection.transport = Nowhere(answer.facts)
    connection.__class__ = kinds.of(type(connection))
    connection._reenact_link, connection._reenact_real = link, real[0] if real else None
    connection._reenact_pings = 0
    return connection


def _unconnected(connect: Any) -> Any:
    """A connection as the program wants them, before anything is sent."""
    if hasattr(connect, "factory"):
        return connect.factory(connect.ws_uri)
    return connect.protocol_factory(parse_uri(connect.uri))


def _handshake(connect: Any) -> tuple[Any, str | None]:
    if hasattr(connect, "handshake_args"):  # before version 15
        headers, user_agent = connect.handshake_args
        return headers, user_agent
    return connect.additional_headers, connect.user_agent_header


class _Awaiting:
    """What ``await connect(…)`` does without us."""

    def __init__(self, connect: Any, original: Callable[[Any], Any]) -> None:
        self._connect = connect
        self._original = original

    def __await__(self) -> Generator[Any, Any, Any]:
        found: Generator[Any, Any, Any] = self._original(self._connect)
        return found
