"""The threading client of ``websockets``, version 13.1 and later.

The patched function is the method that connects, or a module function before version 17.1. The
program gets a connection of the requested class without a socket and without threads. In a
recording, the real connection runs its threads outside the session.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import msgspec
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.sync.client import ClientConnection
from websockets.uri import parse_uri

from reenact.boundaries.http.websocket import Accepted, Link, Message, open_link
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
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import PolicyRefused

__all__ = [
    "LinkedConnection",
    "patches",
]


def _nothing(connection: Any) -> None:
    pass


class LinkedConnection(ClientConnection):
    """Connection that sends through a link, and through the real connection if there is one.

    Methods of the program's own subclass take precedence.
    """

    _reenact_link: Link
    _reenact_real: Any
    """None in a replay."""

    # Version 17.1 warns about connections that are not used as context managers.
    maybe_raise_legacy_warning: Any = getattr(
        ClientConnection, "maybe_raise_legacy_warning", _nothing
    )

    def __init__(self, sock: Any, protocol: Any, **kwargs: Any) -> None:
        # Not the library's: that starts a thread.
        self.protocol = protocol
        self.id, self.logger, self.debug = protocol.id, protocol.logger, protocol.debug
        self.request = self.response = None
        self.latency = 0.0
        self.pending_legacy_warning = True
        self._reenact_pings = 0
        for name in ("ping_interval", "ping_timeout", "close_timeout"):
            setattr(self, name, kwargs.get(name))

    def _reenact_told(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call ``call``. If it raises that the connection is closed, the state is updated."""
        try:
            return call(*args)
        except ConnectionClosed as error:
            note_closed(self, error.rcvd, error.sent, error.rcvd_then_sent)
            raise

    # Messages

    def recv(self, *args: Any, **kwargs: Any) -> Any:
        self.maybe_raise_legacy_warning()

        def live() -> Message:
            return Message.of(self._reenact_real.recv(*args, **kwargs))

        return self._reenact_told(self._reenact_link.receive, live).body

    def recv_streaming(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self.maybe_raise_legacy_warning()
        pieces: Any = None

        def live() -> Message:
            nonlocal pieces
            if pieces is None:
                pieces = self._reenact_real.recv_streaming(*args, **kwargs)
            piece = next(pieces, None)
            return END if piece is None else Message.of(piece)

        receive = self._reenact_link.receive
        while (piece := self._reenact_told(receive, live)).kind != END.kind:
            yield piece.body

    def send(self, message: Any, *args: Any, text: bool | None = None) -> None:
        self.maybe_raise_legacy_warning()
        whole = gathered(message)
        if whole == []:
            return
        one = message_of(whole, text)
        if one is None:
            super().send(message, *args)  # raises the error for the invalid message
            return
        options = {} if text is None else {"text": text}

        def live() -> Any:
            return self._reenact_real.send(whole, *args, **options)

        self._reenact_told(self._reenact_link.send, one, live)

    # The end

    def close(self, code: int = 1000, reason: str = "") -> None:
        self.maybe_raise_legacy_warning()
        link, real = self._reenact_link, self._reenact_real
        if self.protocol.state is State.CLOSED:
            return
        if real is None and not link.session.is_active:
            return  # a replay has ended, and there is nothing to close

        def live() -> Any:
            real.close(code, reason)
            return closed(real)

        try:
            note_ends(self, link.ask("close", closing(code, reason), live))
        except PolicyRefused:
            if real is not None:
                real.close_socket()
            raise

    def wait_closed(self, timeout: float | None = None) -> bool:
        if self.protocol.state is State.CLOSED:
            return True

        def live() -> Any:
            real = self._reenact_real
            return closed(real) if real.wait_closed(timeout) else None

        ends = self._reenact_link.ask("closed", {}, live)
        if ends is not None:
            note_ends(self, ends)
        return ends is not None

    # Pings

    def ping(self, data: Any = None, *args: Any, **kwargs: Any) -> threading.Event:
        self.maybe_raise_legacy_warning()
        self._reenact_pings += 1
        pong = _Pong(self, self._reenact_pings)

        def live() -> None:
            pong.real = self._reenact_real.ping(data, *args, **kwargs)

        self._reenact_told(self._reenact_link.ask, "ping", payload(data), live)
        return pong

    def pong(self, data: Any = b"") -> None:
        self.maybe_raise_legacy_warning()

        def live() -> Any:
            return self._reenact_real.pong(data)

        self._reenact_told(self._reenact_link.ask, "pong", payload(data), live)


class _Pong(threading.Event):
    """Event for the pong of the ping ``number``. Its state is read from the session."""

    def __init__(self, connection: LinkedConnection, number: int) -> None:
        super().__init__()
        self._connection = connection
        self._number = number
        self.real: threading.Event | None = None
        """The one of the real connection; None in a replay."""

    def is_set(self) -> bool:
        return super().is_set() or self.wait(0)

    def wait(self, timeout: float | None = None) -> bool:
        if not super().is_set() and self._came(timeout):
            self.set()
        return super().is_set()

    def _came(self, timeout: float | None) -> bool:
        connection = self._connection

        def live() -> Any:
            assert self.real is not None
            if not self.real.wait(timeout):
                return None
            return {"latency": getattr(connection._reenact_real, "latency", 0.0)}  # since 15

        answer = connection._reenact_link.ask("ponged", {"ping": self._number}, live)
        if answer is not None:
            connection.latency = answer["latency"]
        return answer is not None


_ERRORS = ClientErrors()
_PROTOCOL = ("origin", "subprotocols", "max_size", "logger")
_CONNECTION = ("ping_interval", "ping_timeout", "close_timeout", "max_queue")
"""Names of the arguments for the protocol and for the connection, in versions before 17.1."""


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Target and options of a connection."""

    uri: str
    headers: Any
    user_agent: str | None
    kind: Any
    """The class of the connection, or what makes one."""
    protocol: dict[str, Any]
    """Class of the connection, or its factory."""
    connection: dict[str, Any]


def patches(library: ModuleType) -> list[Patch]:
    """Return the patches of ``websockets.sync.client``."""
    kinds = Kinds(ClientConnection, LinkedConnection)
    by_class = hasattr(library, "reconnect")
    asked_by = _asked_by_object if by_class else _asked_by_arguments(library)

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def connect(*args: Any, **kwargs: Any) -> Any:
            session = current()
            if session is None or session.mode == "off":
                return original(*args, **kwargs)

            def connects() -> Any:
                with unmoved(args[0] if by_class else None):
                    return original(*args, **kwargs)

            return _open(session, asked_by(*args, **kwargs), connects, kinds)

        return connect

    return [Patch(library.reconnect if by_class else library, "connect", wrap)]


def _asked_by_object(connect: Any) -> _Asked:
    return _Asked(
        uri=connect.uri,
        headers=connect.additional_headers,
        user_agent=connect.user_agent_header,
        kind=connect.create_connection,
        protocol=connect.protocol_kwargs,
        connection=connect.connection_kwargs,
    )


def _asked_by_arguments(library: ModuleType) -> Callable[..., _Asked]:
    """Return a reader of the arguments of ``connect``, for versions without a connection object."""
    signature = inspect.signature(library.connect)

    def asked(*args: Any, **kwargs: Any) -> _Asked:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        return _Asked(
            uri=given["uri"],
            headers=given["additional_headers"],
            user_agent=given["user_agent_header"],
            kind=given["create_connection"] or library.ClientConnection,
            protocol={name: given[name] for name in _PROTOCOL},
            connection={name: given[name] for name in _CONNECTION if name in given},
        )

    return asked


def _open(session: Session, asked: _Asked, connect: Callable[[], Any], kinds: Kinds) -> Any:
    connection = _unconnected(asked, kinds)
    opening, request = opening_of(connection.protocol, asked.uri, asked.headers, asked.user_agent)
    real: list[Any] = []

    def live() -> Accepted:
        real.append(connect())
        real[0].pending_legacy_warning = False  # ours warns
        return accepted(real[0])

    try:
        answer, link = open_link(session, opening, live, _ERRORS)
    except BaseException:
        for one in real:
            one.close_socket()
        raise
    if link is None:
        return real[0]
    settle(connection, request, answer)
    connection.socket = Nowhere(answer.facts)
    connection._reenact_link, connection._reenact_real = link, real[0] if real else None
    return connection


def _unconnected(asked: _Asked, kinds: Kinds) -> Any:
    """Return a connection with the program's options that is not connected."""
    kind = asked.kind
    is_own = isinstance(kind, type) and issubclass(kind, ClientConnection)
    make = kinds.of(kind) if is_own else LinkedConnection
    protocol = ClientProtocol(parse_uri(asked.uri), **asked.protocol)
    return make(None, protocol, **asked.connection)
