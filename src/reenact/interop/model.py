"""Exchanges and entries that every foreign format is read into and written from.

A format is a module with two functions: ``read(content)`` returns a :class:`Found` and
``write(given)`` returns a :class:`Made`. Both count the parts that could not be converted in a
:class:`Losses`. JSON documents are read within a size limit.

A recording stores JSON, forms and multipart bodies as values, because it compares bodies by value.
:func:`rebuilt` restores the bytes: where the digest of the sent bytes is known, it identifies the
client's way of writing the value.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from reenact.boundaries.http.bodies import content_headers
from reenact.boundaries.http.encoding import coding_of, encode, look
from reenact.boundaries.http.wire import Head, Request, raw_hash
from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.canonical import decode
from reenact.format.event import Data
from reenact.rr import Entry

__all__ = [
    "KINDS",
    "MOST",
    "SWITCHED",
    "Exchange",
    "Found",
    "Item",
    "Loss",
    "Losses",
    "Made",
    "check_size",
    "damaged",
    "is_another",
    "other_shape",
    "read_json",
    "rebuilt",
    "settled",
]

KINDS: dict[str, str] = {
    "body_hidden": "an encoded body that cannot be decoded: it was dropped because it could contain a secret",
    "body_missing": "a body that is missing in the file: an empty body is served",
    "body_rebuilt": "a body that is stored as a value was serialized again: its bytes can differ",
    "body_unread": "a request body of which only the digest is stored",
    "coding_dropped": "a body whose encoding does not match its headers: Content-Encoding was dropped",
    "content_length": "Content-Length did not match the body and was corrected",
    "cookies": "cookies outside the headers",
    "decoded": "a body was written decoded and without Content-Encoding, which the tool needs",
    "entry_fields": "unknown fields of an entry",
    "error": "a failed call: the format cannot represent it",
    "events": "an event that is not an HTTP call: the format cannot represent it",
    "headers": "headers: the format cannot represent them",
    "key_is_secret": "an entry whose key consists of a secret, so a replay could not find it",
    "kept_decoded": "a body that was stored decoded, because of a secret, was encoded again",
    "metadata": "metadata of the file",
    "no_response": "a request without a response, which cannot be replayed",
    "not_http": "a flow or a URL that is not an HTTP call",
    "not_text": "a body that is not UTF-8 text: the format holds text only",
    "order": "calls of several tasks or threads, which were merged into one order",
    "pieces": "the boundaries between the pieces of a streamed response",
    "status": "the status of a response: the format cannot represent it",
    "status_assumed": "the format has no response status: status 200 is served",
    "times": "time stamps and durations: the format cannot represent them",
    "timings": "the durations of the phases of a call",
    "trailers": "trailers of a response",
    "truncated_body": "a body that is incomplete in the file",
    "websocket": "messages of a websocket",
    "withheld": "a call that looked like a secret after redaction: its payload was not written",
}
"""Description of each kind of loss, for people."""


class Loss(msgspec.Struct, frozen=True):
    """One kind, and how often."""

    kind: str
    count: int

    @property
    def what(self) -> str:
        return KINDS[self.kind]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "count": self.count, "what": self.what}


class Losses:
    """Counts. Iterates over :class:`Loss`, by the name of the kind."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, kind: str, count: int = 1) -> None:
        """``count`` more of ``kind``, which is one of :data:`KINDS`."""
        assert kind in KINDS, kind
        self._counts[kind] += count

    def __iter__(self) -> Iterator[Loss]:
        return (Loss(kind, number) for kind, number in sorted(self._counts.items()) if number)

    def __bool__(self) -> bool:
        return any(self._counts.values())

    def to_json(self) -> list[dict[str, Any]]:
        """For ``--json``."""
        return [loss.to_json() for loss in self]


MOST = 1 << 30
"""Bytes of a file that is read."""

_DEEPEST = 100


def check_size(size: int) -> None:
    """Raise :class:`RecordingDamaged` for a file of more than :data:`MOST` bytes."""
    if size > MOST:
        raise damaged(f"it has more than {MOST >> 20} MiB", "the file", "split it, or record again")


def read_json(content: bytes) -> Any:
    """Return the value of a JSON document. Raises :class:`RecordingDamaged`."""
    try:
        return decode(content.removeprefix(b"\xef\xbb\xbf"), deepest=_DEEPEST)
    except ValueRefused as error:
        raise damaged(f"not JSON that can be read: {error.reason}", _shown(error.path)) from None


def _shown(path: str) -> str:
    """A path has names of the document in it, and those may be anything."""
    return "the document" if path == "$" else f"depth {path.count('.') + path.count('[')}"


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP call. ``ts`` is when its answer came, in milliseconds since the epoch."""

    request: Request
    head: Head
    body: bytes = b""
    ts: int | None = None
    duration: int = 0
    """Milliseconds that it took, where that is known."""
    redacted: bool = False
    """There were secrets in the answer, and now there are placeholders."""

    @property
    def text(self) -> bytes:
        """The body without its content codings, where they can be undone."""
        coding = coding_of(self.head.headers)
        seen = None if coding is None else look(self.body, coding)
        return seen.text if seen is not None and seen.end == "whole" else self.body


Item = Exchange | Entry


class Found(msgspec.Struct):
    """Content of a foreign file, in order."""

    items: list[Item] = msgspec.field(default_factory=list)
    losses: Losses = msgspec.field(default_factory=Losses)


class Made(msgspec.Struct):
    """A file: ``calls`` of what was given are in it."""

    content: bytes
    calls: int
    losses: Losses = msgspec.field(default_factory=Losses)


def damaged(why: str, place: str, hint: str = "") -> RecordingDamaged:
    """Return the error for a file that cannot be read at ``place``. ``why`` must not quote the file."""
    return RecordingDamaged(f"{place}: {why}", place=place, hint=hint)


def other_shape(why: str, hint: str = "") -> RecordingDamaged:
    """Return the error for a complete document that is not a recording of this format."""
    return RecordingDamaged(f"the document: {why}", place="the document", hint=hint, shape=_ANOTHER)


def is_another(error: RecordingDamaged) -> bool:
    """Return whether ``error`` was created by :func:`other_shape`."""
    return error.fields.get("shape") == _ANOTHER


SWITCHED = 101
"""Status of a response that switches from HTTP to another protocol, such as websockets."""

_ANOTHER = "another"
_NO_BODY = frozenset({204, 304})
_UNDONE = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
"""Content codings that clients undo."""


def settled(exchange: Exchange, losses: Losses, *, decoded: bool = False) -> Exchange:
    """``exchange`` so that a client can read it: the body is encoded as the headers say, and as
    long as they say. Other tools change bodies and leave the headers as they were.

    ``decoded``: the format keeps bodies decoded, so one that cannot be looked into is, too.
    """
    head, body = exchange.head, exchange.body
    coding = coding_of(head.headers)
    if body and coding is not None and _is_plain(body, coding, decoded=decoded):
        losses.note("coding_dropped")
        head = _without(head, "content-encoding")
    if exchange.request.method != "HEAD" and head.status not in _NO_BODY:
        head = _of_length(head, len(body), losses)
    return msgspec.structs.replace(exchange, head=head)


def _is_plain(body: bytes, coding: str, *, decoded: bool) -> bool:
    """Return whether ``body`` is not encoded although ``coding`` is declared."""
    names = {name.strip().lower() for name in coding.split(",")}
    seen = look(body, coding)
    if seen is None:
        return bool(names & _UNDONE)
    return decoded and seen.end == "hidden"


def _without(head: Head, name: str) -> Head:
    kept = tuple(pair for pair in head.headers if pair[0].lower() != name)
    return msgspec.structs.replace(head, headers=kept)


def _of_length(head: Head, length: int, losses: Losses) -> Head:
    said = head.header("content-length")
    if said is None or said.strip() == str(length):
        return head
    losses.note("content_length")
    headers = tuple(
        (key, str(length) if key.lower() == "content-length" else value)
        for key, value in head.headers
    )
    return msgspec.structs.replace(head, headers=headers)


def rebuilt(request: Request, compared: Data, digest: str, losses: Losses) -> Request:
    """Return ``request`` with the body that ``compared`` describes, and note differences from the
    original.

    ``digest`` is the digest of the sent body, or empty.
    """
    kind, value = compared.get("type"), compared.get("body")
    if kind is None:
        return request
    if kind == "unread":
        losses.note("body_unread")
        return request
    first: Request | None = None
    for body in _ways(str(kind), value, request):
        candidate = msgspec.structs.replace(request, body=_encoded(body, request))
        if digest and raw_hash(candidate) == digest:
            return candidate
        first = first or candidate
    if kind not in ("text", "bytes"):
        losses.note("body_rebuilt")
    return first or request


def _encoded(body: bytes, request: Request) -> bytes:
    coding = coding_of(request.headers)
    try:
        return encode(body, coding) if coding else body
    except (ImportError, KeyError):
        return body


def _ways(kind: str, value: Any, request: Request) -> Iterator[bytes]:
    """Every way in which clients write such a body, the usual one first."""
    if kind == "json":
        for ascii_only in (False, True):
            for separators in ((",", ":"), (", ", ": ")):
                text = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
                yield text.encode("utf-8", "surrogatepass")
    elif kind == "form":
        pairs = [(str(name), str(given)) for name, given in value]
        yield urlencode(pairs).encode()
        yield urlencode(pairs, quote_via=quote).encode()
    elif kind == "multipart":
        yield _multipart(value, content_headers(request.headers)[0])
    elif isinstance(value, bytes):
        yield value
    else:
        yield str(value).encode("utf-8", "surrogatepass")


def _multipart(parts: list[Data], said: str) -> bytes:
    limit = said.partition("boundary=")[2].partition(";")[0].strip().strip('"') or "boundary"
    lines: list[bytes] = []
    for part in parts:
        lines += [f"--{limit}".encode(), *_part_head(part), b"", _part_body(part)]
    return b"\r\n".join([*lines, f"--{limit}--".encode(), b""])


def _part_head(part: Data) -> list[bytes]:
    words = ["form-data"]
    words += [f'{name}="{part[name]}"' for name in ("name", "filename") if name in part]
    headers = [f"Content-Disposition: {'; '.join(words)}"]
    headers += [f"{name}: {value}" for name, value in part.get("headers", ())]
    return [line.encode() for line in headers]


def _part_body(part: Data) -> bytes:
    value = part.get("value", "")
    if isinstance(value, bytes):
        return value
    if part.get("type") in ("text", None):
        return str(value).encode()
    if part.get("type") == "form":
        return urlencode([(str(name), str(given)) for name, given in value]).encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
