"""Storage of bodies, and the bodies that a replay serves.

Redaction cannot see a secret in an encoded body. So an encoded body is inspected in its decoded
form. A body that cannot be decoded completely counts as one secret: it is stored sealed, or not at
all.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

from reenact.boundaries.http.encoding import MOST, Headers, coding_of, encode, look
from reenact.engine.session.session import Session
from reenact.format.event import Data
from reenact.policy.redaction.placeholder import is_mark
from reenact.policy.redaction.redactor import Screen

__all__ = [
    "HIDDEN",
    "GrowingBody",
    "as_text",
    "hide",
    "kept_body",
    "served_body",
]

_DEFLATED = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_SLICE = 8_192
"""Bytes that are decoded at a time. Each can expand to a thousand bytes."""


def as_text(body: bytes) -> str | bytes:
    """Return ``body`` as text if it is valid UTF-8."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body


class GrowingBody:
    """Body of one response, which is written while it is received. ``coding`` is its content
    coding.

    An encoded body is written only as far as its decoded text can be written. It is written at its
    end if its coding cannot be decoded in pieces, or if its text is too long to be inspected.
    """

    def __init__(self, screen: Screen, coding: str | None) -> None:
        self._screen = screen
        self._read = _reader(coding)
        self._plain = coding is None
        self._held = bytearray()
        self._cuts: list[int] = []
        self._size = 0
        self._text_size = 0

    def add(self, piece: bytes) -> Data:
        """Add ``piece``.

        Return the part that can be written now as ``body``, and the ends of pieces in it as
        ``cuts``.
        """
        if self._size:
            self._cuts.append(self._size)
        self._size += len(piece)
        self._held += piece
        ready = self._ready(piece)
        if not ready:
            return {}
        part: Data = {"body": as_text(bytes(self._held[:ready]))}
        del self._held[:ready]
        written = self._size - len(self._held)
        cuts = [cut for cut in self._cuts if cut < written]
        if cuts:
            part["cuts"] = cuts
            del self._cuts[: len(cuts)]
        return part

    def _ready(self, piece: bytes) -> int:
        """Return how many of the held bytes can be written."""
        safe = 0
        for text in self._read(piece):
            if text is None:
                return 0
            self._text_size += len(text)
            safe = self._screen.add(text)
        if self._plain:
            return len(self._held) - (self._size - safe)
        return len(self._held) if safe == self._text_size else 0


_Read = Callable[[bytes], Iterator[bytes | None]]
"""Gives the text of a piece, bit by bit; None where it cannot."""


def _reader(coding: str | None) -> _Read:
    if coding is None:
        return lambda piece: iter((piece,))
    window = _DEFLATED.get(coding.strip().lower())
    return _Inflating(window) if window is not None else lambda _: iter((None,))


class _Inflating:
    def __init__(self, window: int) -> None:
        self._inflate = zlib.decompressobj(window)
        self._left = MOST
        self._failed = False

    def __call__(self, piece: bytes) -> Iterator[bytes | None]:
        for start in range(0, len(piece), _SLICE):
            yield self._text(piece[start : start + _SLICE])

    def _text(self, part: bytes) -> bytes | None:
        if self._failed:
            return None
        try:
            text = self._inflate.decompress(part)
        except zlib.error:  # no zlib header, or invalid data
            self._failed = True
            return None
        self._left -= len(text)
        # A further member can follow the end. It is not read here.
        self._failed = self._left < 0 or bool(self._inflate.unused_data)
        return None if self._failed else text


HIDDEN = "bodySecret"
"""A body under this name is redacted because of the name."""

_TOO_LONG = f"it cannot be decoded here, or has more than {MOST >> 20} MiB of text"
_BROKEN = "there is a secret in it, and the rest cannot be decoded"


def kept_body(session: Session, body: bytes, coding: str | None) -> Data:
    """Return the fields of a response that store ``body``, which is encoded with ``coding``.

    ``body`` is stored unchanged. If it contains a secret, its decoded text is stored, with the
    coding as ``decoded``. If it cannot be decoded completely, it is stored under ``bodySecret``
    with the reason as ``unread``.
    """
    if coding is None or session.keeps_secrets:
        return {"body": as_text(body)}
    seen = look(body, coding)
    if seen is not None and seen.end == "hidden":
        return _hidden(session, body, _TOO_LONG)
    if seen is None or not session.redacts(seen.text):
        return {"body": as_text(body)}
    if seen.end == "broken":
        return _hidden(session, body, _BROKEN)
    return {"body": as_text(seen.text), "decoded": coding}


def _hidden(session: Session, body: bytes, why: str) -> Data:
    session.warn_once(
        f"the encoded body of a response is stored as a secret, because {why}: a replay needs the key "
        "that it is sealed with (ask for the answer without a content coding, or record with the "
        "redaction profile none)"
    )
    return {HIDDEN: body, "unread": why}


def hide(session: Session, response: Data, why: str) -> Data:
    """Return ``response`` with its complete body as a secret."""
    session.warn_once(
        f"the body of a response is stored as a secret, because {why}: a replay needs the key that it "
        "is sealed with (or record with the redaction profile none)"
    )
    rest = {name: item for name, item in response.items() if name != "body"}
    return {**rest, HIDDEN: _bytes(response["body"]), "unread": why}


def served_body(response: Data, headers: Headers) -> bytes | None:
    """Return the body for a replay, or None if there was none.

    A redacted body is encoded according to ``headers``, so that a client can read it.
    """
    if HIDDEN not in response:
        body = response.get("body")
        decoded = response.get("decoded")
        return None if body is None else _encoded(_bytes(body), decoded)
    hidden = _bytes(response[HIDDEN])
    if not is_mark(hidden.decode("latin-1")):
        return hidden
    return _encoded(hidden, coding_of(headers))


def _encoded(body: bytes, coding: str | None) -> bytes:
    try:
        return encode(body, coding) if coding else body
    except (ImportError, KeyError):  # nothing here can do it, and so nothing undoes it
        return body


def _bytes(body: Any) -> bytes:
    return body.encode("utf-8") if isinstance(body, str) else body
