"""What every format is read into and written from: HTTP exchanges, and entries of cassettes.

A format is a file with two functions: ``read(content)`` gives a :class:`Found`, ``write(given)``
gives a :class:`Made`. Both say what was lost.
"""

from __future__ import annotations

import msgspec

from reenact.boundaries.coding import coding_of, look
from reenact.boundaries.wire import Head, Request
from reenact.errors import RecordingDamaged
from reenact.interop.losses import Losses
from reenact.rr import Entry

__all__ = [
    "SWITCHED",
    "Exchange",
    "Found",
    "Item",
    "Made",
    "damaged",
    "is_another",
    "other_shape",
    "settled",
]


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
    """What is in a file, in its order."""

    items: list[Item] = msgspec.field(default_factory=list)
    losses: Losses = msgspec.field(default_factory=Losses)


class Made(msgspec.Struct):
    """A file: ``calls`` of what was given are in it."""

    content: bytes
    calls: int
    losses: Losses = msgspec.field(default_factory=Losses)


def damaged(why: str, place: str, hint: str = "") -> RecordingDamaged:
    """The error for a file that cannot be read at ``place``. ``why`` holds nothing of the file."""
    return RecordingDamaged(f"{place}: {why}", place=place, hint=hint)


def other_shape(why: str, hint: str = "") -> RecordingDamaged:
    """The error for a document that is whole, and something else than a recording of this format."""
    return RecordingDamaged(f"the document: {why}", place="the document", hint=hint, shape=_ANOTHER)


def is_another(error: RecordingDamaged) -> bool:
    """Was it :func:`other_shape`?"""
    return error.fields.get("shape") == _ANOTHER


SWITCHED = 101
"""The status of an answer after which no HTTP is spoken any more: a websocket."""

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
    """Is ``body`` not encoded, though ``coding`` says so?"""
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
