"""What the connections of both clients of ``websockets`` have in common.

The program gets a connection that has never been connected. Its state is what the program has been
told: it is open until a call says that it is closed, recording and replaying.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from reenact.boundaries.websocket import Accepted, Message, Opening
from reenact.boundaries.ws_values import ends, frames, library, pairs, response
from reenact.errors import UsageError
from reenact.format.event import Data

__all__ = [
    "END",
    "Nowhere",
    "accepted",
    "called",
    "closed",
    "disguise",
    "joined",
    "message_of",
    "note_closed",
    "note_ends",
    "opening_of",
    "payload",
    "settle",
    "unmoved",
]

_KEY = "bm8gb25lIHNlZXMgdGhpcw=="
_BYTES = (bytes, bytearray, memoryview)

END = Message(kind="end")
"""After the last fragment of a message."""

# Opening


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
    protocol.state = library("protocol").State.OPEN


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


def disguise(kind: type[Any], original: type[Any]) -> type[Any]:
    """``kind`` goes by the name of ``original``."""
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


# Messages


def message_of(body: Any, text: bool | None) -> Message | None:
    """``body`` as the frame that it is sent in; None when it is not one message."""
    if not isinstance(body, (str, *_BYTES)):
        return None
    return _frame(body if isinstance(body, str) else bytes(body), text)


def _frame(body: str | bytes, text: bool | None) -> Message:
    as_text = isinstance(body, str) if text is None else text
    return Message(kind="text" if as_text else "bytes", body=body)


def joined(pieces: list[Any], text: bool | None) -> Message:
    """All fragments as one message. Those that do not fit the first are the library's business."""
    if isinstance(pieces[0], str):
        whole: str | bytes = "".join(one for one in pieces if isinstance(one, str))
    else:
        whole = b"".join(bytes(one) for one in pieces if isinstance(one, _BYTES))
    return _frame(whole, text)


def payload(data: Any) -> Data:
    """What a ping or a pong carries; a ping without data has some of the library's choice."""
    if data is None:
        return {}
    return {"body": data if isinstance(data, str) else bytes(data)}


# Closing


def called(code: int, reason: str) -> Data:
    """What a program says when it closes."""
    return {"code": int(code), "reason": reason} if reason else {"code": int(code)}


def closed(connection: Any) -> Data:
    """How ``connection``, which is real, was closed."""
    protocol = connection.protocol
    return ends(protocol.close_rcvd, protocol.close_sent, protocol.close_rcvd_then_sent)


def note_closed(connection: Any, rcvd: Any, sent: Any, rcvd_then_sent: bool | None) -> None:
    """The program has been told that ``connection`` is closed, and how."""
    protocol = connection.protocol
    protocol.close_rcvd, protocol.close_sent = rcvd, sent
    protocol.close_rcvd_then_sent = rcvd_then_sent
    protocol.state = library("protocol").State.CLOSED


def note_ends(connection: Any, ends: Any) -> None:
    """The same, from what was recorded."""
    note_closed(connection, *frames(ends))
