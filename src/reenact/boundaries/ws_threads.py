"""The client of ``websockets`` for threads, from version 13.1.

The seam is the method that connects, or in versions before 17 the function. The program gets a
connection of the class it asked for that goes nowhere and has no threads; the real one, while
recording, lives with its threads in no session.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import msgspec

from reenact.boundaries.websocket import Accepted, Link, Message, open_link
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
from reenact.boundaries.ws_values import ClientErrors
from reenact.engine.current import current
from reenact.engine.patches import Patch
from reenact.engine.session import Session
from reenact.errors import PolicyRefused

__all__ = ["seams_sync"]

_ERRORS = ClientErrors()


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the program wants to connect to, and how."""

    uri: str
    headers: Any
    user_agent: str | None
    kind: Any
    """The class of the connection."""
    protocol: dict[str, Any]
    connection: dict[str, Any]


def seams_sync(library: ModuleType) -> list[Patch]:
    """The patches of ``websockets.sync.client``."""
    stand_in = _stand_in(library)
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

            return _open(session, asked_by(*args, **kwargs), connects, stand_in)

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


_PROTOCOL = ("origin", "subprotocols", "max_size", "logger")
_CONNECTION = ("ping_interval", "ping_timeout", "close_timeout", "max_queue")


def _asked_by_arguments(library: ModuleType) -> Callable[..., _Asked]:
    """For versions that have no object: it is in the arguments."""
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


def _open(
    session: Session,
    asked: _Asked,
    connect: Callable[[], Any],
    stand_in: Callable[[_Asked], Any],
) -> Any:
    connection = stand_in(asked)
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


def _stand_in(library: ModuleType) -> Callable[[_Asked], Any]:
    """Makes connections that speak through a link, and with the real one where there is one."""
    from websockets.client import ClientProtocol
    from websockets.exceptions import ConnectionClosed
    from websockets.protocol import State
    from websockets.uri import parse_uri

    class Linked(library.ClientConnection):  # type: ignore[misc, name-defined]
        """Below a subclass of the program's own, whose methods stay in force."""

        _reenact_link: Link
        _reenact_real: Any
        # Version 17.1 complains about connections that are not used as context managers.
        maybe_raise_legacy_warning = getattr(
            library.ClientConnection, "maybe_raise_legacy_warning", _nothing
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

        def _told(self, call: Callable[..., Any], *args: Any) -> Any:
            """What ``call`` gives. If it says that the connection is closed, it is from now on."""
            try:
                return call(*args)
            except ConnectionClosed as error:
                note_closed(self, error.rcvd, error.sent, error.rcvd_then_sent)
                raise

        def recv(self, *args: Any, **kwargs: Any) -> Any:
            self.maybe_raise_legacy_warning()
            receive = self._reenact_link.receive
            return self._told(
                receive, lambda: Message.of(self._reenact_real.recv(*args, **kwargs))
            ).body

        def recv_streaming(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            self.maybe_raise_legacy_warning()
            pieces: Any = None

            def live() -> Message:
                nonlocal pieces
                if pieces is None:
                    pieces = self._reenact_real.recv_streaming(*args, **kwargs)
                piece = next(pieces, None)
                return END if piece is None else Message.of(piece)

            while (piece := self._told(self._reenact_link.receive, live)).kind != END.kind:
                yield piece.body

        def send(self, message: Any, *args: Any, text: bool | None = None) -> None:
            self.maybe_raise_legacy_warning()
            one, what = message_of(message, text), message
            if one is None and isinstance(message, Iterable) and not isinstance(message, Mapping):
                what = list(message)
                if not what:
                    return
                one = joined(what, text)
            if one is None:
                super().send(message, *args)  # says what is wrong with it
                return
            options = {} if text is None else {"text": text}
            send = self._reenact_link.send
            self._told(send, one, lambda: self._reenact_real.send(what, *args, **options))

        def close(self, code: int = 1000, reason: str = "") -> None:
            self.maybe_raise_legacy_warning()
            link, real = self._reenact_link, self._reenact_real
            if self.protocol.state is State.CLOSED or (not link.session.is_active and real is None):
                return

            def live() -> Any:
                real.close(code, reason)
                return closed(real)

            try:
                note_ends(self, link.ask("close", called(code, reason), live))
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

        def ping(self, data: Any = None, **kwargs: Any) -> threading.Event:
            self.maybe_raise_legacy_warning()
            pongs: list[Any] = []
            self._reenact_pings += 1
            number = self._reenact_pings
            link = self._reenact_link
            self._told(
                link.ask,
                "ping",
                payload(data),
                lambda: pongs.append(self._reenact_real.ping(data, **kwargs)),
            )

            def wait(timeout: float | None) -> bool:
                def live() -> Any:
                    if not pongs[0].wait(timeout):
                        return None
                    return {"latency": getattr(self._reenact_real, "latency", 0.0)}  # since 15

                answer = link.ask("ponged", {"ping": number}, live)
                if answer is not None:
                    self.latency = answer["latency"]
                return answer is not None

            return _Pong(wait)

        def pong(self, data: Any = b"") -> None:
            self.maybe_raise_legacy_warning()
            self._told(
                self._reenact_link.ask,
                "pong",
                payload(data),
                lambda: self._reenact_real.pong(data),
            )

    disguise(Linked, library.ClientConnection)
    kinds: dict[Any, type[Any]] = {library.ClientConnection: Linked}

    def stand_in(asked: _Asked) -> Any:
        kind = asked.kind
        if kind not in kinds:
            own = isinstance(kind, type) and issubclass(kind, library.ClientConnection)
            kinds[kind] = disguise(type("", (kind, Linked), {}), kind) if own else Linked
        protocol = ClientProtocol(parse_uri(asked.uri), **asked.protocol)
        return kinds[kind](None, protocol, **asked.connection)

    return stand_in


def _nothing(connection: Any) -> None:
    pass


class _Pong(threading.Event):
    """Set when a pong comes: who looks asks the session."""

    def __init__(self, wait: Callable[[float | None], bool]) -> None:
        super().__init__()
        self._wait_for_it = wait

    def is_set(self) -> bool:
        return super().is_set() or self.wait(0)

    def wait(self, timeout: float | None = None) -> bool:
        if not super().is_set() and self._wait_for_it(timeout):
            self.set()
        return super().is_set()
