"""What is said over a websocket, as data and back."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from reenact.boundaries.bodies import Pairs, describe
from reenact.boundaries.urls import normal_url
from reenact.boundaries.wire import Errors
from reenact.engine.call import Call
from reenact.engine.codecs import copy_value
from reenact.engine.session.session import Session
from reenact.format.event import Data

__all__ = [
    "Accepted",
    "Message",
    "MessageCodec",
    "Opening",
    "OpeningCodec",
    "PlainCodec",
    "link_call",
    "opening_call",
    "request_of",
]

_SCHEMES = {"http": "ws", "https": "wss"}

# Types


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What the client asks for: ``url`` is absolute, ``headers`` are as they are sent, in order."""

    url: str
    headers: Pairs = ()
    protocols: tuple[str, ...] = ()
    sent: Data = {}
    """What else is worth knowing about it, and not compared."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answered. ``facts`` is what else the library's connection tells the program:
    addresses, an id."""

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
        """``body`` as a message of its kind."""
        return cls(kind="text" if isinstance(body, str) else "bytes", body=body)


# To data and back


def opening_call(session: Session, opening: Opening) -> Call:
    """Compared by URL, protocols, and the headers that the policy names."""
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
    """Some clients take the URL of a page."""
    scheme, colon, rest = url.partition(":")
    return f"{_SCHEMES.get(scheme, scheme)}{colon}{rest}"


def link_call(connection: str, operation: str, request: Data) -> Call:
    """What is done with ``connection``, which is the name of its link."""
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
    """What is compared of ``message``: ``type`` and ``body``: JSON by value, so that rules can name what is in it."""
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
    """``type``, ``body`` as it came, and ``code`` where there is one."""

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
    """Somebody may have edited the recording."""
    said = data.get("response")
    return said if isinstance(said, dict) else {}
