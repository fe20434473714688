"""An HTTP request and its answer as data, and back."""

from __future__ import annotations

from typing import Any

import msgspec

from reenact.boundaries.bodies import Pairs, describe
from reenact.boundaries.coding import decode, encode
from reenact.boundaries.urls import normal_url
from reenact.engine.call import Call
from reenact.engine.failures import failure_data, rebuild
from reenact.engine.session import Session
from reenact.format.event import Data

__all__ = ["Errors", "Head", "Request", "Wire", "call_of"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What goes out: ``url`` is absolute, ``headers`` are as they are sent, in order."""

    method: str
    url: str
    headers: Pairs = ()
    body: bytes = b""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What comes back before the body. Headers are in order, with their case, repeated or not."""

    status: int
    reason: str = ""
    version: str = "HTTP/1.1"
    headers: Pairs = ()

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def length(self) -> int | None:
        """How long the body will be, where the head says so."""
        said = self.header("content-length")
        return int(said) if said is not None and said.isdecimal() else None


class Errors:
    """How a library's exceptions are kept. The default rebuilds any exception with its class, text,
    arguments, plain attributes and causes; a boundary adds what its own lack."""

    def dump(self, error: BaseException) -> Data:
        """What is recorded of ``error``."""
        return failure_data(error)

    def load(self, data: Any) -> BaseException:
        """The exception that ``data`` was recorded of."""
        return rebuild(data)


def call_of(session: Session, request: Request) -> Call:
    """The call that ``request`` is: compared by method, URL, body, and the headers that the policy
    names; everything that was sent is recorded beside."""
    url = normal_url(request.url)
    compared: Data = {"method": request.method, "url": url}
    named = session.settings.policy.key_headers
    if named:
        wanted = {name.lower() for name in named}
        found = [[key.lower(), value] for key, value in request.headers if key.lower() in wanted]
        compared["headers"] = sorted(found)
    compared |= describe(request.headers, request.body)
    sent: Data = {"headers": [list(pair) for pair in request.headers]}
    if request.url != url:
        sent["url"] = request.url
    return Call(
        type="nondeterministic",
        capability="net.fetch",
        source="network",
        operation=request.method,
        request=compared,
        extra={"sent": sent},
        method=request.method,
        url=request.url,
    )


class Wire:
    """Keeps answers: ``status``, ``reason``, ``version``, ``headers``, ``body`` as text where it is
    text, and under ``cuts`` after how many bytes each piece but the last ended."""

    timed = True

    def __init__(self, session: Session, errors: Errors) -> None:
        self._session = session
        self._errors = errors

    def admit(self, piece: Any) -> Any:
        return piece if isinstance(piece, Head) else bytes(piece)

    def size(self, piece: Any) -> int:
        return 0 if isinstance(piece, Head) else len(piece)

    def dump(self, pieces: list[Any], returned: Any) -> Any:
        if not pieces:
            return None
        head: Head = pieces[0]
        response: Data = {
            "status": head.status,
            "reason": head.reason,
            "version": head.version,
            "headers": [list(pair) for pair in head.headers],
        }
        body = b"".join(pieces[1:])
        if not pieces[1:]:
            return response
        coding = head.header("content-encoding")
        plain = None if coding is None else decode(body, coding)
        if plain is not None and self._session.suspects(plain):
            # Encoded, a secret would be out of sight of the redaction.
            return {**response, "body": _text(plain), "decoded": coding}
        response["body"] = _text(body)
        if len(pieces) > 2:
            response["cuts"] = _cuts(pieces[1:])
        return response

    def load(self, response: Any) -> list[Any]:
        if not isinstance(response, dict):
            return []
        headers = tuple((str(key), str(value)) for key, value in response.get("headers", ()))
        head = Head(
            status=response.get("status", 0),
            reason=response.get("reason", ""),
            version=response.get("version", "HTTP/1.1"),
            headers=headers,
        )
        if "body" not in response:
            return [head]
        body = _bytes(response["body"])
        if "decoded" in response:
            body = encode(body, response["decoded"])
            head = msgspec.structs.replace(head, headers=_of_length(headers, len(body)))
            return [head, body]
        return [head, *_pieces(body, response.get("cuts", ()))]

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return self._errors.dump(error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return self._errors.load(data)


def _text(body: bytes) -> str | bytes:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body


def _bytes(body: str | bytes) -> bytes:
    return body.encode("utf-8") if isinstance(body, str) else body


def _cuts(pieces: list[bytes]) -> list[int]:
    cuts, at = [], 0
    for piece in pieces[:-1]:
        at += len(piece)
        cuts.append(at)
    return cuts


def _pieces(body: bytes, cuts: Any) -> list[bytes]:
    """A body that was redacted is shorter or longer than it was; then the last cuts fall away."""
    ends = [cut for cut in cuts if cut <= len(body)]
    return [body[start:end] for start, end in zip([0, *ends], [*ends, len(body)], strict=True)]


def _of_length(headers: Pairs, length: int) -> Pairs:
    return tuple(
        (key, str(length) if key.lower() == "content-length" else value) for key, value in headers
    )
