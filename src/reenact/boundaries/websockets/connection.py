"""Parts that both clients of ``websockets`` share: opening, messages, closing, and values as data.

The program gets a connection of the requested class that was never connected. It is open until a
call reports that it is closed, while recording and replaying.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from websockets import exceptions
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close
from websockets.http11 import Response
from websockets.protocol import State

from reenact.boundaries.http.bodies import Pairs
from reenact.boundaries.http.websocket import Accepted, Errors, Message, Opening
from reenact.engine.codecs import dump_exception, load_exception
from reenact.errors import UsageError
from reenact.format.event import Data

__all__ = [
    "END",
    "ClientErrors",
    "Kinds",
    "Nowhere",
    "accepted",
    "closed",
    "closing",
    "ends",
    "frames",
    "gathered",
    "message_of",
    "note_closed",
    "note_ends",
    "opening_of",
    "pairs",
    "payload",
    "response",
    "settle",
    "unmoved",
]

_REFUSALS: tuple[type[Any], ...] = tuple(
    getattr(exceptions, name)
    for name in ("InvalidStatus", "InvalidProxyStatus")  # the second was added with proxies
    if hasattr(exceptions, name)
)


def response(status: int, reason: str, headers: Any, body: Any) -> Response:
    """Return a response of the library."""
    known = Headers()
    for key, value in headers:
        known[str(key)] = str(value)
    content = body.encode() if isinstance(body, str) else body
    return Response(status, reason, known, content)


def pairs(headers: Any) -> Pairs:
    """Return the library's headers as pairs, in order."""
    return tuple((str(key), str(value)) for key, value in headers.raw_items())


def ends(rcvd: Any, sent: Any, rcvd_then_sent: bool | None) -> Data:
    """Return the recorded form of a closed connection: its close frames, and their order."""
    return {"rcvd": _end(rcvd), "sent": _end(sent), "rcvdThenSent": rcvd_then_sent}


def _end(frame: Any) -> Any:
    return None if frame is None else {"code": int(frame.code), "reason": frame.reason}


def frames(ends: Any) -> tuple[Any, Any, bool | None]:
    """Return the library's close frames from the result of :func:`ends`."""
    told = ends if isinstance(ends, dict) else {}
    rcvd, sent = _frame(told.get("rcvd")), _frame(told.get("sent"))
    both = rcvd is not None and sent is not None
    return rcvd, sent, bool(told.get("rcvdThenSent")) if both else None


def _frame(end: Any) -> Any:
    if not isinstance(end, dict):
        return None
    code = end.get("code")
    return Close(code if isinstance(code, int) else 1006, str(end.get("reason", "")))


class ClientErrors(Errors):
    """Adds the close frames of a closed connection, and the answer of a server that refused."""

    def dump(self, error: BaseException) -> Data:
        data = dump_exception(error)
        if isinstance(error, ConnectionClosed):
            data["closed"] = ends(error.rcvd, error.sent, error.rcvd_then_sent)
        elif isinstance(error, _REFUSALS):
            response = error.response
            data["answer"] = {
                "status": response.status_code,
                "reason": response.reason_phrase,
                "headers": [list(pair) for pair in pairs(response.headers)],
                "body": _text(response.body),
            }
            if isinstance(response.body, bytearray):  # as the newer versions of the library tell it
                data["answer"]["array"] = True
        return data

    def load(self, data: Any) -> BaseException:
        error = self._own(data)
        if error is None:
            return load_exception(data)
        if isinstance(data.get("cause"), dict):
            error.__cause__ = load_exception(data["cause"])
        return error

    def _own(self, data: Any) -> BaseException | None:
        if not isinstance(data, dict):
            return None
        name = str(data.get("class", "")).rpartition(".")[2]
        kind = getattr(exceptions, name, None)
        if not isinstance(kind, type):
            return None
        error: BaseException | None = None
        answer = data.get("answer")
        if "closed" in data and issubclass(kind, ConnectionClosed):
            error = kind(*frames(data["closed"]))
        elif isinstance(answer, dict) and issubclass(kind, _REFUSALS):
            error = kind(_answer(answer))
        return error


def _answer(answer: Data) -> Any:
    pairs = [pair for pair in answer.get("headers") or () if len(pair) == 2]
    status = answer.get("status")
    number = status if isinstance(status, int) else 0
    made = response(number, str(answer.get("reason", "")), pairs, answer.get("body"))
    if answer.get("array") is True and isinstance(made.body, bytes):
        made.body = bytearray(made.body)
    return made


def _text(body: Any) -> str | bytes | None:
    if body is None:
        return None
    try:
        return bytes(body).decode()
    except UnicodeDecodeError:
        return bytes(body)


_BYTES = (bytes, bytearray, memoryview)

END = Message(kind="end")
"""After the last fragment of a message."""

# Messages


def gathered(message: Any) -> Any:
    """Return ``message``, or the list of its fragments."""
    whole = isinstance(message, (str, *_BYTES, Mapping))
    return list(message) if not whole and isinstance(message, Iterable) else message


def message_of(whole: Any, text: bool | None) -> Message | None:
    """Return the message with all its fragments joined, or None if it cannot be sent."""
    body = _joined(whole) if isinstance(whole, list) else whole
    if isinstance(body, _BYTES):
        body = bytes(body)
    elif not isinstance(body, str):
        return None
    as_text = isinstance(body, str) if text is None else text
    return Message(kind="text" if as_text else "bytes", body=body)


def _joined(fragments: list[Any]) -> str | bytes:
    """Join the fragments. The library handles fragments that do not match the type of the first."""
    if isinstance(fragments[0], str):
        return "".join(one for one in fragments if isinstance(one, str))
    return b"".join(bytes(one) for one in fragments if isinstance(one, _BYTES))


def payload(data: Any) -> Data:
    """Return the data of a ping or a pong. The library chooses the data of a ping without any."""
    if data is None:
        return {}
    return {"body": data if isinstance(data, str) else bytes(data)}


# Closing


def closing(code: int, reason: str) -> Data:
    """Return the request of a close operation."""
    return {"code": int(code), "reason": reason} if reason else {"code": int(code)}


def closed(connection: Any) -> Data:
    """Return the close state of a real connection."""
    protocol = connection.protocol
    return ends(protocol.close_rcvd, protocol.close_sent, protocol.close_rcvd_then_sent)


def note_closed(connection: Any, rcvd: Any, sent: Any, rcvd_then_sent: bool | None) -> None:
    """Update ``connection`` after the program learned that it is closed."""
    protocol = connection.protocol
    protocol.close_rcvd, protocol.close_sent = rcvd, sent
    protocol.close_rcvd_then_sent = rcvd_then_sent
    protocol.state = State.CLOSED


def note_ends(connection: Any, ends: Any) -> None:
    """Update ``connection`` from its recorded close state."""
    note_closed(connection, *frames(ends))


_KEY = "bm8gb25lIHNlZXMgdGhpcw=="


def opening_of(
    protocol: Any, uri: str, headers: Any, user_agent: str | None
) -> tuple[Opening, Any]:
    """Return the handshake request of ``protocol``, and the library's own request.

    A real connection gets a new random key each time. This request has a fixed key and is never
    sent.
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
    """Return the handshake response of a real connection."""
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
    """Mark ``connection``, which has no real peer, as open after ``request`` and ``answer``."""
    protocol = connection.protocol
    connection.id = protocol.id = _uuid(answer.facts.get("id"))
    connection.request = request
    connection.response = response(answer.status, answer.reason, answer.headers, b"")
    protocol.subprotocol = answer.subprotocol
    protocol.state = State.OPEN


@contextmanager
def unmoved(connect: Any) -> Iterator[None]:
    """Restore the address after the block, because a redirect applies to one connection only."""
    known = getattr(connect, "__dict__", {})
    kept = ("uri", "ws_uri", "additional_headers")
    before = {name: value for name, value in known.items() if name in kept}
    try:
        yield
    finally:
        known.update(before)


class Kinds:
    """Cache of connection classes without a peer.

    ``linked`` replaces the library's ``original``. For the program's own subclass of ``original``,
    a class with both bases is created. Each has the name of the class that it replaces.
    """

    def __init__(self, original: type[Any], linked: type[Any]) -> None:
        self._linked = linked
        self._known = {original: _disguised(linked, original)}

    def of(self, kind: type[Any]) -> type[Any]:
        """Return the linked subclass of ``kind``, which is cached."""
        if kind not in self._known:
            self._known[kind] = _disguised(type("", (kind, self._linked), {}), kind)
        return self._known[kind]


def _disguised(kind: type[Any], original: type[Any]) -> type[Any]:
    kind.__module__, kind.__name__ = original.__module__, original.__name__
    kind.__qualname__ = original.__qualname__
    return kind


class Nowhere:
    """Replacement of a socket or a transport. It has the addresses, but cannot send."""

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
