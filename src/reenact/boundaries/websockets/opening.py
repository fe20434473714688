"""What both clients of ``websockets`` do when a connection is opened.

The program gets a connection that has never been connected, of the class that it wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from websockets.protocol import State

from reenact.boundaries.websocket import Accepted, Opening
from reenact.boundaries.websockets.values import pairs, response
from reenact.errors import UsageError
from reenact.format.event import Data

__all__ = ["Kinds", "Nowhere", "accepted", "opening_of", "settle", "unmoved"]

_KEY = "bm8gb25lIHNlZXMgdGhpcw=="


def opening_of(
    protocol: Any, uri: str, headers: Any, user_agent: str | None
) -> tuple[Opening, Any]:
    """What ``protocol`` asks for, and the same as the library's own request.

    The key of a real connection is drawn anew each time. This one nobody sends.
    """
    protocol.key = _KEY
    request = protocol.connect()
    if headers is not None:
        request.headers.update(headers)
    if user_agent is not None:
        request.headers.setdefault("User-Agent", user_agent)
    opening = Opening(
        url=uri,
        headers=pairs(request.headers),
        protocols=tuple(protocol.available_subprotocols or ()),
    )
    return opening, request


def accepted(connection: Any) -> Accepted:
    """What the server has told ``connection``, which is real."""
    response = connection.response
    return Accepted(
        status=response.status_code,
        reason=response.reason_phrase,
        headers=pairs(response.headers),
        subprotocol=connection.subprotocol,
        facts={
            "id": str(connection.id),
            "local": _address(connection, "local_address"),
            "remote": _address(connection, "remote_address"),
        },
    )


def settle(connection: Any, request: Any, answer: Accepted) -> None:
    """``connection``, which goes nowhere, is open: to ``request`` came ``answer``."""
    protocol = connection.protocol
    connection.id = protocol.id = _uuid(answer.facts.get("id"))
    connection.request = request
    connection.response = response(answer.status, answer.reason, answer.headers, b"")
    protocol.subprotocol = answer.subprotocol
    protocol.state = State.OPEN


@contextmanager
def unmoved(connect: Any) -> Iterator[None]:
    """A redirect is for one connection: who connects again starts where it started before."""
    known = getattr(connect, "__dict__", {})
    kept = ("uri", "ws_uri", "additional_headers")
    before = {name: value for name, value in known.items() if name in kept}
    try:
        yield
    finally:
        known.update(before)


class Kinds:
    """The classes of connections that go nowhere: ``linked`` for the library's ``original``, and for
    a class that the program made of that, one of both. Each goes by the name of the other."""

    def __init__(self, original: type[Any], linked: type[Any]) -> None:
        self._linked = linked
        self._known = {original: _disguised(linked, original)}

    def of(self, kind: type[Any]) -> type[Any]:
        """The same one every time."""
        if kind not in self._known:
            self._known[kind] = _disguised(type("", (kind, self._linked), {}), kind)
        return self._known[kind]


def _disguised(kind: type[Any], original: type[Any]) -> type[Any]:
    kind.__module__, kind.__name__ = original.__module__, original.__name__
    kind.__qualname__ = original.__qualname__
    return kind


class Nowhere:
    """In place of a socket or a transport: it knows the addresses, and nothing can be sent."""

    def __init__(self, facts: Data) -> None:
        self._addresses = {
            "sockname": _tupled(facts.get("local")),
            "peername": _tupled(facts.get("remote")),
        }

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._addresses.get(name, default)

    def getsockname(self) -> Any:
        return self._addresses["sockname"]

    def getpeername(self) -> Any:
        return self._addresses["peername"]

    def write(self, data: bytes) -> None:
        raise UsageError(
            "a frame was written past send(), as broadcast() does it: it would not be recorded",
            hint="await websocket.send(message) for every connection",
        )


def _address(connection: Any, name: str) -> Any:
    try:
        address = getattr(connection, name)
    except OSError:  # closed already
        return None
    return list(address) if isinstance(address, tuple) else address


def _tupled(address: Any) -> Any:
    return tuple(address) if isinstance(address, list) else address


def _uuid(text: Any) -> UUID:
    try:
        return UUID(text)
    except (ValueError, TypeError, AttributeError):
        return UUID(int=0)
