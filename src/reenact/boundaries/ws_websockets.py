"""The asyncio client of ``websockets``, from version 13.1.

The seam is the awaiting of ``connect(…)``, where all its uses meet: ``await``, ``async with`` and
the reconnecting ``async for``. The program gets a connection of the class it asked for that goes
nowhere: what it does goes through the session, and while recording on to the real connection, which
lives with its tasks in no session.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
)
from types import ModuleType
from typing import Any

from reenact.boundaries.websocket import Accepted, Link, Message, open_link_async
from reenact.boundaries.ws_state import (
    END,
    Nowhere,
    accepted,
    called,
    closed,
    disguise,
    joined,
    message_of,
    note_closed,
    note_ends,
    opening_of,
    payload,
    settle,
    unmoved,
)
from reenact.boundaries.ws_threads import seams_sync
from reenact.boundaries.ws_values import ClientErrors
from reenact.engine.current import current
from reenact.engine.desk import outside
from reenact.engine.patches import Patch
from reenact.engine.session import Session
from reenact.errors import PolicyRefused

__all__ = ["seams", "seams_sync"]

_ERRORS = ClientErrors()


def seams(library: ModuleType) -> list[Patch]:
    """The patches of ``websockets.asyncio.client``."""
    stand_in = _stand_in(library)
    keeps = hasattr(library.connect, "__await_impl__")  # up to version 16 it closes what it keeps

    def wrap(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def opened(session: Session, connect: Any) -> Any:
            connection = await _open(session, connect, original, stand_in)
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
    session: Session, connect: Any, original: Callable[[Any], Any], stand_in: _StandIn
) -> Any:
    connection = outside().run(_unconnected, connect)
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
    stand_in(connection, link, real[0] if real else None)
    return connection


def _unconnected(connect: Any) -> Any:
    """A connection as the program wants them, before anything is sent."""
    if hasattr(connect, "factory"):
        return connect.factory(connect.ws_uri)
    from websockets.uri import parse_uri

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


_StandIn = Callable[[Any, Link, Any], None]


def _stand_in(library: ModuleType) -> _StandIn:
    """Makes a connection speak through a link, and with the real one where there is one."""
    from websockets.exceptions import ConnectionClosed
    from websockets.protocol import State

    class Linked(library.ClientConnection):  # type: ignore[misc, name-defined]
        """Below a subclass of the program's own, whose methods stay in force."""

        _reenact_link: Link
        _reenact_real: Any
        _reenact_pings: int

        async def _told(self, call: Awaitable[Any]) -> Any:
            """What ``call`` gives. If it says that the connection is closed, it is from now on."""
            try:
                return await call
            except ConnectionClosed as error:
                note_closed(self, error.rcvd, error.sent, error.rcvd_then_sent)
                raise

        async def recv(self, *args: Any, **kwargs: Any) -> Any:
            async def live() -> Message:
                return Message.of(await self._reenact_real.recv(*args, **kwargs))

            message = await self._told(self._reenact_link.receive_async(live))
            return message.body

        async def recv_streaming(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            pieces: Any = None

            async def live() -> Message:
                nonlocal pieces
                if pieces is None:
                    pieces = self._reenact_real.recv_streaming(*args, **kwargs)
                piece = await anext(pieces, None)
                return END if piece is None else Message.of(piece)

            while (
                piece := await self._told(self._reenact_link.receive_async(live))
            ).kind != END.kind:
                yield piece.body

        async def send(self, message: Any, *args: Any, text: bool | None = None) -> None:
            one = message_of(message, text)
            what = message
            if one is None and _is_iterable(message):
                what = await _gathered(message)
                if not what:
                    return
                one = joined(what, text)
            if one is None:
                await super().send(message, *args)  # says what is wrong with it
                return
            options = {} if text is None else {"text": text}
            await self._told(
                self._reenact_link.send_async(
                    one, lambda: self._reenact_real.send(what, *args, **options)
                )
            )

        async def close(self, code: int = 1000, reason: str = "") -> None:
            if self.protocol.state is State.CLOSED:
                return

            async def live() -> Any:
                await self._reenact_real.close(code, reason)
                return closed(self._reenact_real)

            if not self._reenact_link.session.is_active and self._reenact_real is None:
                return  # a replay has ended, and there is nothing to close
            link = self._reenact_link
            try:
                note_ends(self, await link.ask_async("close", called(code, reason), live))
            except PolicyRefused:
                if self._reenact_real is not None:
                    self._reenact_real.transport.abort()
                raise

        async def wait_closed(self) -> None:
            if self.protocol.state is State.CLOSED:
                return

            async def live() -> Any:
                await self._reenact_real.wait_closed()
                return closed(self._reenact_real)

            note_ends(self, await self._reenact_link.ask_async("closed", {}, live))

        async def ping(self, data: Any = None) -> Awaitable[float]:
            pongs: list[Any] = []
            self._reenact_pings += 1
            number = self._reenact_pings

            async def live() -> None:
                pongs.append(await self._reenact_real.ping(data))

            async def pong() -> float:
                latency: float = await self._told(
                    self._reenact_link.ask_async("ponged", {"ping": number}, lambda: pongs[0])
                )
                self.latency = latency
                return latency

            await self._told(self._reenact_link.ask_async("ping", payload(data), live))
            waiting: asyncio.Task[float] = self.loop.create_task(pong())
            waiting.add_done_callback(_looked_at)
            return waiting

        async def pong(self, data: Any = b"") -> None:
            await self._told(
                self._reenact_link.ask_async(
                    "pong", payload(data), lambda: self._reenact_real.pong(data)
                )
            )

    disguise(Linked, library.ClientConnection)
    kinds: dict[type[Any], type[Any]] = {library.ClientConnection: Linked}

    def stand_in(connection: Any, link: Link, real: Any) -> None:
        kind = type(connection)
        if kind not in kinds:
            kinds[kind] = disguise(type("", (kind, Linked), {}), kind)
        connection.__class__ = kinds[kind]
        connection._reenact_link, connection._reenact_real, connection._reenact_pings = (
            link,
            real,
            0,
        )

    return stand_in


def _is_iterable(message: Any) -> bool:
    return isinstance(message, (Iterable, AsyncIterable)) and not isinstance(message, Mapping)


async def _gathered(message: Any) -> list[Any]:
    if isinstance(message, AsyncIterable):
        return [piece async for piece in message]
    return list(message)


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Nobody has to wait for a pong, so nobody complains that its failure was not looked at."""
    if not task.cancelled():
        task.exception()
