"""An HTTP request and its answer as data, and back."""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b
from typing import Any

import msgspec

from reenact.boundaries.http.bodies import content_headers, describe
from reenact.boundaries.http.encoding import Headers, Pairs, coding_of
from reenact.boundaries.http.model_calls import with_meaning
from reenact.boundaries.http.stored_body import GrowingBody, kept_body, served_body
from reenact.boundaries.http.urls import normal_url
from reenact.engine.call import Call
from reenact.engine.codecs import dump_exception, load_exception
from reenact.engine.session.session import Session
from reenact.format.event import Data
from reenact.policy.redaction.placeholder import PLACEHOLDER
from reenact.policy.redaction.redactor import Screen

__all__ = [
    "Errors",
    "Head",
    "Pairs",
    "Partial",
    "Request",
    "Wire",
    "call_of",
    "load_pieces",
    "raw_hash",
    "sketch_of",
]


_REDACTED = PLACEHOLDER.rstrip("*").encode()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Outgoing request. ``url`` is absolute, and ``headers`` are in the order of sending.

    ``content`` is the ``Content-Type`` and ``Content-Encoding``, if the boundary has already read
    them. It avoids a search in the headers.
    """

    method: str
    url: str
    headers: Headers = ()
    body: bytes = b""
    content: tuple[str, str] | None = None


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Status line and headers of a response. Headers keep their order, case and repetitions."""

    status: int
    reason: str = ""
    version: str = "HTTP/1.1"
    headers: Pairs = ()

    def header(self, name: str) -> str | None:
        """Return the first header with this name."""
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return None

    @property
    def length(self) -> int | None:
        """Length of the body according to the head, or None."""
        said = self.header("content-length")
        return int(said) if said is not None and said.isdecimal() else None


class Partial(bytes):
    """Empty piece which marks that the next piece does not end a chunk of the transfer coding.

    ``left`` bytes of the chunk are expected after that piece.
    """

    left: int

    def __new__(cls, left: int) -> Partial:
        marker = super().__new__(cls)
        marker.left = left
        return marker


class Errors:
    """Serializer of a library's exceptions.

    The default rebuilds any exception with its class, text, arguments, plain attributes and causes.
    A boundary adds support for exceptions that need more.
    """

    def dump(self, error: BaseException) -> Data:
        """Return the recorded form of ``error``."""
        return dump_exception(error)

    def load(self, data: Any) -> BaseException:
        """Rebuild the exception from its recorded form."""
        return load_exception(data)


def sketch_of(session: Session, request: Request) -> Call:
    """Return the call of ``request`` without its body."""
    return Call(
        type="nondeterministic",
        capability="net.fetch",
        source="network",
        operation=request.method,
        request={},
        method=request.method,
        url=request.url,
        raw_hash=_raw_hash(session, request),
    )


def call_of(session: Session, request: Request, sketch: Call | None = None) -> Call:
    """Return the call of ``request``.

    It is compared by method, URL, body, and the headers that the policy names. The complete request
    is recorded in addition. A request to a model becomes a model call. ``sketch`` is the result of
    :func:`sketch_of`, if the caller has it.
    """
    sketch = sketch or sketch_of(session, request)
    url = normal_url(request.url)
    compared: Data = {"method": request.method, "url": url}
    named = session.settings.policy.key_headers
    if named:
        wanted = {name.lower() for name in named}
        found = [[key.lower(), value] for key, value in request.headers if key.lower() in wanted]
        compared["headers"] = sorted(found)
    compared |= describe(request.headers, request.body, request.content)
    extra: Data = {}
    if session.writes or session.fork is not None:
        extra["sent"] = _sent(request, url)
        if sketch.raw_hash:
            extra["rawHash"] = sketch.raw_hash
    call = msgspec.structs.replace(sketch, request=compared, extra=extra)
    return with_meaning(session, call, request.headers)


def _raw_hash(session: Session, request: Request) -> str:
    """Return the hash of the raw request, or an empty string if it cannot be used.

    It is not used for requests without a body, because comparing them is as fast, or if the policy
    compares headers.
    """
    if not request.body or session.settings.policy.key_headers:
        return ""
    return raw_hash(request)


def raw_hash(request: Request) -> str:
    """Return a hash of the raw request.

    Requests with equal hashes are identical, except for headers that do not describe the body.
    """
    said, coding = request.content or content_headers(request.headers)
    head = f"{request.method} {normal_url(request.url)}\n{said}\n{coding}\n"
    whole = blake2b(head.encode("utf-8", "surrogatepass"), digest_size=9)
    whole.update(request.body)
    return b64encode(whole.digest()).decode("ascii")


def _sent(request: Request, url: str) -> Data:
    sent: Data = {"headers": [list(pair) for pair in request.headers]}
    if request.url != url:
        sent["url"] = request.url
    return sent


class Wire:
    """Codec of responses.

    It stores ``status``, ``reason``, ``version``, ``headers``, and ``body`` as text if possible.
    ``cuts`` are the offsets at which the pieces end, except the last. ``left`` is the missing
    number of bytes of a truncated chunk.
    """

    timed = True

    def __init__(self, session: Session, errors: Errors) -> None:
        self._session = session
        self._errors = errors

    def admit(self, piece: Any) -> Any:
        return piece if isinstance(piece, (Head, Partial)) else bytes(piece)

    def size(self, piece: Any) -> int:
        return 0 if isinstance(piece, Head) else len(piece)

    def dump(self, pieces: list[Any], returned: Any) -> Any:
        if not pieces:
            return None
        head: Head = pieces[0]
        response = _described(head)
        body = b"".join(pieces[1:])
        if not pieces[1:]:
            return response
        response |= kept_body(self._session, body, coding_of(head.headers))
        if len(pieces) > 2:
            response["cuts"] = _cuts(pieces[1:])
            if isinstance(pieces[-2], Partial):
                response["left"] = pieces[-2].left
        return response

    def load(self, response: Any) -> list[Any]:
        return load_pieces(response)

    def growth(self, screen: Screen) -> _Growing:
        return _Growing(screen)

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return self._errors.dump(error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return self._errors.load(data)


def load_pieces(response: Any) -> list[Any]:
    """Return the recorded head and pieces of the body."""
    if not isinstance(response, dict):
        return []
    pairs = response.get("headers", ())
    headers = tuple([(str(key), str(value)) for key, value in pairs])
    head = Head(
        status=response.get("status", 0),
        reason=response.get("reason", ""),
        version=response.get("version", "HTTP/1.1"),
        headers=headers,
    )
    body = served_body(response, headers)
    if body is None:
        return [head]
    if _is_changed(response, body) and head.length not in (None, len(body)):
        # Clients check the length, and a placeholder can differ in length from the secret.
        head = msgspec.structs.replace(head, headers=_of_length(headers, len(body)))
    cuts = response.get("cuts")
    if body and not cuts:
        return [head, body]
    return [head, *_marked(_pieces(body, cuts), response.get("left"))]


class _Growing:
    """An answer while it is coming."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._body = GrowingBody(screen, None)

    def add(self, piece: Any) -> Any:
        if not isinstance(piece, Head):
            return self._body.add(piece)
        self._body = GrowingBody(self._screen, coding_of(piece.headers))
        return _described(piece)


def _described(head: Head) -> Data:
    return {
        "status": head.status,
        "reason": head.reason,
        "version": head.version,
        "headers": [list(pair) for pair in head.headers],
    }


def _is_changed(response: Data, body: bytes) -> bool:
    """Return whether the body can differ from the received one."""
    return "decoded" in response or "unread" in response or _REDACTED in body


def _cuts(pieces: list[bytes]) -> list[int]:
    cuts, at = [], 0
    for piece in pieces[:-1]:
        at += len(piece)
        cuts.append(at)
    return cuts


def _pieces(body: bytes, cuts: Any) -> list[bytes]:
    """Split the body into the recorded number of pieces, because each was a separate delivery.

    A redacted body can be shorter, and then the last pieces are empty.
    """
    if not cuts:
        return [body]
    ends = [min(cut, len(body)) for cut in cuts]
    return [body[start:end] for start, end in zip([0, *ends], [*ends, len(body)], strict=True)]


def _marked(pieces: list[bytes], left: Any) -> list[bytes]:
    """Replace empty pieces by markers with the rest of their chunk.

    The length of a chunk follows from its pieces, except that ``left`` bytes of the last chunk were
    not received.
    """
    if all(pieces):
        return pieces
    after = rest = left if isinstance(left, int) and left > 0 else 0
    marked: list[bytes] = []
    for at in reversed(range(len(pieces))):
        piece = pieces[at]
        if piece:
            rest = after if at and not pieces[at - 1] else 0
            after = rest + len(piece)
        marked.append(piece or Partial(rest))
    return marked[::-1]


def _of_length(headers: Pairs, length: int) -> Pairs:
    return tuple(
        (key, str(length) if key.lower() == "content-length" else value) for key, value in headers
    )
