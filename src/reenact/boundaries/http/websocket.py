"""Websockets as a boundary uses them: an opening, then one call per message in either direction.

This module is for websockets what :mod:`reenact.boundaries.http.api` is for requests. A boundary
creates an :class:`Opening` with a function for the live handshake. It gets the response of the
server and a :class:`Link`, which all messages pass. The boundary owns the real connection, if there
is one. Each call gets a function that uses that connection; a replay never calls it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, Self
from weakref import WeakKeyDictionary

import msgspec

from reenact.boundaries.http.bodies import Pairs, describe
from reenact.boundaries.http.urls import normal_url
from reenact.boundaries.http.wire import Errors
from reenact.engine.call import Call, Decision, GoLive, Pass, Refuse
from reenact.engine.codecs import ResultCodec, copy_value
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.session import Session
from reenact.errors import PolicyRefused
from reenact.format.event import Data

__all__ = [
    "Accepted",
    "Errors",
    "Link",
    "Message",
    "MessageCodec",
    "Opening",
    "OpeningCodec",
    "PlainCodec",
    "link_call",
    "open_link",
    "open_link_async",
    "opening_call",
    "request_of",
]

_SCHEMES = {"http": "ws", "https": "wss"}

# Types


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Handshake request of the client.

    ``url`` is absolute, and ``headers`` are in the order of sending.
    """

    url: str
    headers: Pairs = ()
    protocols: tuple[str, ...] = ()
    sent: Data = {}
    """Additional recorded data that is not compared."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """Handshake response of the server.

    ``facts`` are other properties of the library's connection, such as addresses and an id.
    """

    status: int = 101
    reason: str = ""
    headers: Pairs = ()
    subprotocol: str | None = None
    facts: Data = {}


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. ``kind`` is ``text`` or ``bytes``, like ``body``; or a name of the library's own
    for what else it gives to who receives, such as ``close`` with its ``code``."""

    kind: str
    body: str | bytes = ""
    code: int | None = None

    @classmethod
    def of(cls, body: str | bytes) -> Self:
        """Return ``body`` as a message of its kind."""
        return cls(kind="text" if isinstance(body, str) else "bytes", body=body)


# To data and back


def opening_call(session: Session, opening: Opening) -> Call:
    """Return the call of a handshake.

    It is compared by URL, protocols, and the headers that the policy names.
    """
    url = _websocket_url(normal_url(opening.url))
    request: Data = {"url": url}
    if opening.protocols:
        request["protocols"] = list(opening.protocols)
    wanted = {name.lower() for name in session.settings.policy.key_headers or ()}
    if wanted:
        found = [[key.lower(), value] for key, value in opening.headers if key.lower() in wanted]
        request["headers"] = sorted(found)
    sent: Data = {"headers": [list(pair) for pair in opening.headers], **opening.sent}
    if opening.url != url:
        sent["url"] = opening.url
    call = _call("websocket", request)
    return msgspec.structs.replace(call, extra={"sent": sent}, method="GET", url=opening.url)


def _websocket_url(url: str) -> str:
    """Return the URL with a websocket scheme, because some clients accept HTTP URLs."""
    scheme, colon, rest = url.partition(":")
    return f"{_SCHEMES.get(scheme, scheme)}{colon}{rest}"


def link_call(connection: str, operation: str, request: Data) -> Call:
    """Return the call for an operation on ``connection``, the name of its link."""
    return _call(f"websocket.{operation}", {"connection": connection, **request})


def _call(operation: str, request: Data) -> Call:
    return Call(
        type="nondeterministic",
        capability="net.stream",
        source="network",
        operation=operation,
        request=request,
    )


def request_of(message: Message) -> Data:
    """Return the compared parts of ``message``: ``type`` and ``body``.

    JSON is compared by value, so that rules can name its fields.
    """
    body = message.body.encode() if isinstance(message.body, str) else message.body
    request: Data = {"type": message.kind, "body": describe((), body).get("body", "")}
    if message.code is not None:
        request["code"] = message.code
    return request


class PlainCodec:
    """Answers that are JSON values; most calls have none."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors

    def dump(self, call: Call, result: Any) -> Data:
        return {} if result is None else {"response": copy_value(result)}

    def load(self, call: Call, data: Data) -> Any:
        return data.get("response")

    def returned(self, call: Call, result: Any, data: Data) -> Any:
        return self.load(call, data)

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return self._errors.dump(error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return self._errors.load(data)


class OpeningCodec(PlainCodec):
    """``status``, ``reason``, ``headers``, ``subprotocol`` and the facts."""

    def dump(self, call: Call, result: Accepted) -> Data:
        response = {
            "status": result.status,
            "reason": result.reason,
            "headers": [list(pair) for pair in result.headers],
            "subprotocol": result.subprotocol,
            "facts": copy_value(result.facts),
        }
        return {"response": response}

    def load(self, call: Call, data: Data) -> Accepted:
        response = _response(data)
        return Accepted(
            status=response.get("status", 101),
            reason=response.get("reason", ""),
            headers=tuple((str(key), str(value)) for key, value in response.get("headers", ())),
            subprotocol=response.get("subprotocol"),
            facts=response.get("facts") or {},
        )


class MessageCodec(PlainCodec):
    """Codec of messages: ``type``, the unchanged ``body``, and ``code`` if there is one."""

    def dump(self, call: Call, result: Message) -> Data:
        response: Data = {"type": result.kind, "body": result.body}
        if result.code is not None:
            response["code"] = result.code
        return {"response": response}

    def load(self, call: Call, data: Data) -> Message:
        response = _response(data)
        kind, body = str(response.get("type", "text")), response.get("body", "")
        if kind == "bytes" and isinstance(body, str):  # a redacted one is text
            body = body.encode()
        return Message(kind=kind, body=body, code=response.get("code"))


def _response(data: Data) -> Data:
    """Return the response, which is not a dict only in an edited recording."""
    said = data.get("response")
    return said if isinstance(said, dict) else {}


_ERRORS = Errors()

# Opening


def open_link(
    session: Session, opening: Opening, live: Callable[[], Accepted], errors: Errors = _ERRORS
) -> tuple[Accepted, Link | None]:
    """Return the server's handshake response, and the link. Raises the errors of the library.

    ``live()`` connects. The link is None if the policy lets the connection pass through, and the
    program then gets the real connection.
    """
    call = opening_call(session, opening)
    if session.is_late():
        return live(), None
    decision, opened = session.decisions.decide(call, blocks=True)
    accepted = session.gateway.run(
        session.gateway.steps(decision, opened, live, OpeningCodec(errors))
    )
    return accepted, _linked(session, decision, opened, errors)


async def open_link_async(
    session: Session,
    opening: Opening,
    live: Callable[[], Awaitable[Accepted]],
    errors: Errors = _ERRORS,
) -> tuple[Accepted, Link | None]:
    """Async variant of :func:`open_link`."""
    call = opening_call(session, opening)
    if session.is_late():
        return await live(), None
    decision, opened = session.decisions.decide(call, blocks=False)
    accepted = await session.gateway.run_async(
        session.gateway.steps(decision, opened, live, OpeningCodec(errors))
    )
    return accepted, _linked(session, decision, opened, errors)


def _linked(
    session: Session, decision: Decision, opened: InFlightCall, errors: Errors
) -> Link | None:
    if isinstance(decision, Pass):
        return None
    name = _name(session, opened.lane.name)
    return Link(session, name, errors, is_live=isinstance(decision, GoLive))


_counts: WeakKeyDictionary[Session, Counter[str]] = WeakKeyDictionary()


def _name(session: Session, lane: str) -> str:
    """Return the name ``lane/n`` of the n-th connection of a lane.

    It does not depend on calls of other kinds.
    """
    with session.lock:
        counts = _counts.setdefault(session, Counter())
        counts[lane] += 1
        return f"{lane}/{counts[lane]}"


# Messages


class Link:
    """An open connection: what is done with it, as calls of its session.

    Every method takes ``live``, which does it for real. It runs in no session, and it is not called
    in a replay.
    """

    def __init__(self, session: Session, name: str, errors: Errors, *, is_live: bool) -> None:
        self.session = session
        self.name = name
        """Name of the link, which is the same in every run."""
        self.is_live = is_live
        """Is there a real connection?"""
        self._plain = PlainCodec(errors)
        self._receives = MessageCodec(errors)
        self._ahead: deque[Message] = deque()

    # Threads

    def receive(self, live: Callable[[], Message]) -> Message:
        """Return the next message."""
        message: Message = self._carry_out("recv", {}, live, self._receives)
        return message

    def send(self, message: Message, live: Callable[[], Any]) -> None:
        """Send ``message``."""
        self._carry_out("send", request_of(message), live, self._plain)

    def ask(self, operation: str, request: Data, live: Callable[[], Any]) -> Any:
        """Perform another operation, such as ``close`` or ``ping``.

        ``live`` returns a JSON value or None.
        """
        return self._carry_out(operation, request, live, self._plain)

    def _carry_out(
        self, operation: str, request: Data, live: Callable[[], Any], codec: ResultCodec
    ) -> Any:
        session, call = self.session, link_call(self.name, operation, request)
        if session.is_late():
            return session.gateway.call(call, live, codec)
        decision, opened = self._decide(call, blocks=True)
        return session.gateway.run(session.gateway.steps(decision, opened, live, codec))

    # Tasks

    async def receive_async(self, live: Callable[[], Awaitable[Message]]) -> Message:
        """Return the next message.

        A message that arrives after the program stopped waiting is kept for the next call.
        """

        async def next_message() -> Message:
            if not self._ahead:
                self._ahead.append(await live())
            return self._ahead[0]

        message: Message = await self._carry_out_async("recv", {}, next_message, self._receives)
        if self._ahead:
            self._ahead.popleft()
        return message

    async def send_async(self, message: Message, live: Callable[[], Awaitable[Any]]) -> None:
        """Send ``message``."""
        await self._carry_out_async("send", request_of(message), live, self._plain)

    async def ask_async(
        self, operation: str, request: Data, live: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Perform another operation, such as ``close`` or ``ping``.

        ``live`` returns a JSON value or None.
        """
        return await self._carry_out_async(operation, request, live, self._plain)

    async def _carry_out_async(
        self, operation: str, request: Data, live: Callable[[], Awaitable[Any]], codec: ResultCodec
    ) -> Any:
        session, call = self.session, link_call(self.name, operation, request)
        if session.is_late():
            return await session.gateway.acall(call, live, codec)
        decision, opened = self._decide(call, blocks=False)
        return await session.gateway.run_async(session.gateway.steps(decision, opened, live, codec))

    # Both

    def _decide(self, call: Call, *, blocks: bool) -> tuple[Decision, InFlightCall]:
        decision, opened = self.session.decisions.decide(call, blocks=blocks)
        if isinstance(decision, (GoLive, Pass)) and not self.is_live:
            if self.session.mode == "update":
                self.session.given_up = f"a websocket cannot be updated in part ({call.operation})"
            decision = Refuse(error=_nobody_is_connected(call.operation))
        return decision, opened


def _nobody_is_connected(operation: str) -> PolicyRefused:
    return PolicyRefused(
        f"a websocket that was opened from the recording cannot continue live: {operation} is not "
        "recorded",
        hint="record the whole conversation again (mode rewrite)",
        operation=operation,
    )
