"""The asyncio client of ``websockets``, version 13.1 and later.

The patched function is the awaiting of ``connect(…)``, which ``await``, ``async with`` and the
reconnecting ``async for`` all use. The program gets a connection of the requested class without a
socket. Its operations go through the session, and in a recording on to the real connection, whose
tasks are outside the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator
from types import ModuleType
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.uri import parse_uri

from reenact.boundaries.http.websocket import Accepted, Link, Message, open_link_async
from reenact.boundaries.websockets.connection import (
    END,
    ClientErrors,
    Kinds,
    Nowhere,
    accepted,
    closed,
    closing,
    gathered,
    message_of,
    note_closed,
    note_ends,
    opening_of,
    payload,
    settle,
    unmoved,
)
from reenact.engine.patches.patch import Patch
from reenact.engine.session.context import context_outside_sessions
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import PolicyRefused

__all__ = [
    "LinkedConnection",
    "patches",
]


class LinkedConnection(ClientConnection):
    """Connection that sends through a link, and through the real connection if there is one.

    It is never instantiated: a connection of the library becomes one by a change of its class.
    Methods of the program's own subclass take precedence.
    """

    _reenact_link: Link
    _reenact_real: Any
    """None in a replay."""
    _reenact_pings: int

    async def _reenact_told(self, call: Awaitable[Any]) -> Any:
        """Await ``call``. If it raises that the connection is closed, the state is updated."""
        try:
            return await call
        except ConnectionClosed as error:
            note_closed(self, error.rcvd, error.sent, error.rcvd_then_sent)
            raise

    # Messages

    async def recv(self, *args: Any, **kwargs: Any) -> Any:
        async def live() -> Message:
            return Message.of(await self._reenact_real.recv(*args, **kwargs))

        message = await self._reenact_told(self._reenact_link.receive_async(live))
        return message.body

    async def recv_streaming(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        pieces: Any = None

        async def live() -> Message:
            nonlocal pieces
            if pieces is None:
                pieces = self._reenact_real.recv_streaming(*args, **kwargs)
            piece = await anext(pieces, None)
            return END if piece is None else Message.of(piece)

        receive = self._reenact_link.receive_async
        while (piece := await self._reenact_told(receive(live))).kind != END.kind:
            yield piece.body

    async def send(self, message: Any, *args: Any, text: bool | None = None) -> None:
        whole = await _gathered(message)
        if whole == []:
            return
        one = message_of(whole, text)
        if one is None:
            await super().send(message, *args)  # raises the error for the invalid message
            return
        options = {} if text is None else {"text": text}

        def live() -> Any:
            return self._reenact_real.send(whole, *args, **options)

        await self._reenact_told(self._reenact_link.send_async(one, live))

    # The end

    async def close(self, code: int = 1000, reason: str = "") -> None:
        link, real = self._reenact_link, self._reenact_real
        if self.protocol.state is State.CLOSED:
            return
        if real is None and not link.session.is_active:
            return  # a replay has ended, and there is nothing to close

        async def live() -> Any:
            await real.close(code, reason)
            return closed(real)

        try:
            note_ends(self, await link.ask_async("close", closing(code, reason), live))
        except PolicyRefused:
            if real is not None:
                real.transport.abort()
            raise

    async def wait_closed(self) -> None:
        if self.protocol.state is State.CLOSED:
            return

        async def live() -> Any:
            await self._reenact_real.wait_closed()
            return closed(self._reenact_real)

        note_ends(self, await self._reenact_link.ask_async("closed", {}, live))

    # Pings

    async def ping(self, data: Any = None) -> Awaitable[float]:
        link = self._reenact_link
        self._reenact_pings += 1
        number = self._reenact_pings
        pongs: list[Any] = []

        async def live() -> None:
            pongs.append(await self._reenact_real.ping(data))

        async def pong() -> float:
            waiting = link.ask_async("ponged", {"ping": number}, lambda: pongs[0])
            self.latency = await self._reenact_told(waiting)
            return self.latency

        await self._reenact_told(link.ask_async("ping", payload(data), live))
        task = self.loop.create_task(pong())
        task.add_done_callback(_looked_at)
        return task

    async def pong(self, data: Any = b"") -> None:
        def live() -> Any:
            return self._reenact_real.pong(data)

        await self._reenact_told(self._reenact_link.ask_async("pong", payload(data), live))


async def _gathered(message: Any) -> Any:
    """Collect fragments, including asynchronous ones."""
    if isinstance(message, AsyncIterable):
        return [piece async for piece in message]
    return gathered(message)


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a pong task, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


_ERRORS = ClientErrors()


def patches(library: ModuleType) -> list[Patch]:
    """Return the patches of ``websockets.asyncio.client``."""
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
    """Return a connection with the program's options that is not connected."""
    if hasattr(connect, "factory"):
        return connect.factory(connect.ws_uri)
    return connect.protocol_factory(parse_uri(connect.uri))


def _handshake(connect: Any) -> tuple[Any, str | None]:
    if hasattr(connect, "handshake_args"):  # before version 15
        headers, user_agent = connect.handshake_args
        return headers, user_agent
    return connect.additional_headers, connect.user_agent_header


class _Awaiting:
    """Awaitable that runs the original ``await connect(…)``."""

    def __init__(self, connect: Any, original: Callable[[Any], Any]) -> None:
        self._connect = connect
        self._original = original

    def __await__(self) -> Generator[Any, Any, Any]:
        found: Generator[Any, Any, Any] = self._original(self._connect)
        return found
