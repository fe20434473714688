"""Parts shared by the HTTP adapters: bodies, responses, and failures."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from reenact.boundaries.http.encoding import coding_of, encode, look
from reenact.exchange.active_exchange import ExchangeEnd
from reenact.exchange.model import Body, ErrorFacts, Header, Payload
from reenact.exchange.payload import body_bytes, clipped_body, find_header, make_body

__all__ = [
    "BodyBuffer",
    "CapturedResponse",
    "SentRequest",
    "body_to_send",
    "failure_of",
    "headers_to_send",
    "outcome_of",
    "start_payload",
    "unread_reason",
]

_HOP = frozenset({"content-length", "transfer-encoding", "connection", "keep-alive", "expect"})
"""Headers of the transfer, which a replay creates again."""


class BodyBuffer:
    """Copy of a body that passes. A body larger than ``limit`` is counted, and not stored."""

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._limit = limit
        self._parts: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Add a piece."""
        self.size += len(data)
        if self.size > self._limit:
            self._parts.clear()
        elif data:
            self._parts.append(bytes(data))

    def put_into(self, payload: Payload) -> tuple[Payload, str]:
        """Return ``payload`` with this body, and the reason if the body is incomplete."""
        kind = find_header(payload.headers, "content-type")
        if self.size > self._limit:
            reason = f"its body has {self.size:,} bytes, and no more than {self._limit:,} are kept"
            return msgspec.structs.replace(payload, body=clipped_body(self.size, kind)), reason
        data = b"".join(self._parts)
        coding = coding_of(payload.headers) if data else ""
        seen = look(data, coding, most=self._limit * 16) if coding else None
        if seen is None:
            return msgspec.structs.replace(payload, body=make_body(data, kind)), ""
        if seen.end != "whole" or len(seen.text) > self._limit * 4:
            reason = "its body is compressed, and cannot be read to its end"
            return msgspec.structs.replace(payload, body=clipped_body(self.size, kind)), reason
        properties = {**payload.properties, "http.coding": coding}
        return msgspec.structs.replace(
            payload, body=make_body(seen.text, kind), properties=properties
        ), ""


class CapturedResponse:
    """Copy of a response that passes."""

    def __init__(self, limit: int, method: str = "GET") -> None:
        self.status = 0
        self._has_body = method != "HEAD"  # some send one, and servers keep it back
        self.is_whole = False
        self._headers: list[Header] = []
        self._body = BodyBuffer(limit)

    def begin(self, status: int, headers: list[Header]) -> None:
        self.status = status
        self._headers = headers

    def add(self, data: bytes, *, last: bool = False) -> None:
        if self._has_body:
            self._body.add(data)
        self.is_whole = self.is_whole or last

    def payload(self) -> Payload | None:
        """Return the response that the client received, or None."""
        if not self.status:
            return None
        properties = {"http.status": self.status}
        start = Payload(headers=tuple(self._headers), properties=properties)
        return self._body.put_into(start)[0]


def failure_of(response: CapturedResponse) -> ErrorFacts | None:
    """Return the failure of a response: a status of 500 or more, a truncated response, or none."""
    if not response.status:
        return ErrorFacts(type="http", message="no response")
    if response.status >= 500:
        return ErrorFacts(type="http", message=f"{response.status} {_phrase(response.status)}")
    if not response.is_whole:
        return ErrorFacts(type="http", message="the answer breaks off")
    return None


def outcome_of(
    start: Payload,
    request: BodyBuffer,
    response: CapturedResponse,
    error: BaseException | None,
    *,
    has_more: bool = True,
    again: bool = False,
) -> ExchangeEnd:
    """Return the result of an exchange. ``has_more`` means that the app has perhaps not read the
    whole request, ``again`` that ``start`` is complete because it was replayed."""
    whole, unfit = (start, "") if again else request.put_into(start)
    if not again and has_more and not unfit:
        unfit = unread_reason(start, request.size)
    return ExchangeEnd(
        start=whole,
        result=response.payload(),
        error=error,
        failed=failure_of(response),
        unfit=unfit,
    )


def start_payload(headers: Sequence[Header], **known: str) -> Payload:
    """Return the headers and properties of a request. The body is added later."""
    known["host"] = find_header(headers, "host")
    properties = {f"http.{name}": value for name, value in sorted(known.items()) if value}
    return Payload(headers=tuple(headers), properties=properties)


class SentRequest:
    """Request of a replay. The properties of ``payload`` are text, or have a default value."""

    def __init__(self, payload: Payload) -> None:
        self._properties = payload.properties
        self.method = self._text("method", "GET")
        self.path = self._text("path", "/")
        self.query = self._text("query")
        self.root = self._text("root")
        self.scheme = self._text("scheme", "http")
        self.client = self._text("client", "127.0.0.1")
        host = self._text("host", "localhost")
        name, _, port = host.rpartition(":") if ":" in host else (host, "", "")
        self.server = name
        self.port = port or ("443" if self.scheme == "https" else "80")
        self.body = body_to_send(payload)
        self.headers = headers_to_send(payload, self.body)

    def _text(self, name: str, default: str = "") -> str:
        return str(self._properties.get(f"http.{name}") or default)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def unread_reason(start: Payload, size: int) -> str:
    """Return why a body that the app has not read completely cannot be replayed, or an empty
    string."""
    length = find_header(start.headers, "content-length")
    if not find_header(start.headers, "transfer-encoding") and (not length or length == str(size)):
        return ""
    return f"the app read {size:,} bytes of its body, and not the rest"


def body_to_send(payload: Payload) -> bytes:
    """Return the bytes of the body, compressed again if they were."""
    body: Body = payload.body
    data = body_bytes(body)
    coding = payload.properties.get("http.coding")
    return encode(data, coding) if data and isinstance(coding, str) else data


def headers_to_send(payload: Payload, body: bytes) -> list[Header]:
    """Return the headers, with the current length of the body."""
    kept = [(name, value) for name, value in payload.headers if name.lower() not in _HOP]
    had = find_header(payload.headers, "content-length") or find_header(
        payload.headers, "transfer-encoding"
    )
    return [*kept, ("content-length", str(len(body)))] if body or had else kept
