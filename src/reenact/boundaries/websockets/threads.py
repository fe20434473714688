"""The client of ``websockets`` for threads, from version 13.1.

The seam is the method that connects, or in versions before 17.1 the function. The program gets a
connection of the class it asked for that goes nowhere and has no threads; the real one, while
recording, lives with its threads in no session.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec
from websockets.client import ClientProtocol
from websockets.sync.client import ClientConnection
from websockets.uri import parse_uri

from reenact.boundaries.websocket import Accepted, open_link
from reenact.boundaries.websockets.opening import (
    Kinds,
    Nowhere,
    accepted,
    opening_of,
    settle,
    unmoved,
)
from reenact.boundaries.websockets.thread_connection import LinkedConnection
from reenact.boundaries.websockets.values import ClientErrors
from reenact.engine.patches.patch import Patch
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = ["seams"]

_ERRORS = ClientErrors()
_PROTOCOL = ("origin", "subprotocols", "max_size", "logger")
_CONNECTION = ("ping_interval", "ping_timeout", "close_timeout", "max_queue")
"""Which arguments of a version before 17.1 are whose."""


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the program wants to connect to, and how."""

    uri: str
    headers: Any
    user_agent: str | None
    kind: Any
    """The class of the connection, or what makes one."""
    protocol: dict[str, Any]
    """Arguments of the library's protocol; those of the connection are in ``connection``."""
    connection: dict[str, Any]


def seams(library: ModuleType) -> list[Patch]:
    """The patches of ``websockets.sync.client``."""
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
    """A connection as the program wants them, before anything is sent."""
    kind = asked.kind
    is_own = isinstance(kind, type) and issubclass(kind, ClientConnection)
    make = kinds.of(kind) if is_own else LinkedConnection
    protocol = ClientProtocol(parse_uri(asked.uri), **asked.protocol)
    return make(None, protocol, **asked.connection)
