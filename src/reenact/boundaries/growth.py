"""An HTTP answer while it is coming: what each piece of it adds to what is recorded."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from reenact.boundaries.coding import MOST
from reenact.format.event import Data
from reenact.policy.redaction.redactor import Screen

__all__ = ["GrowingBody", "as_text"]

_DEFLATED = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_SLICE = 8_192
"""Bytes that are decoded at a time: each may be the code of a thousand."""


def as_text(body: bytes) -> str | bytes:
    """``body`` as text where it is text."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body


class GrowingBody:
    """The body of one answer. ``coding`` is its content coding.

    An encoded body is written only as far as its text, decoded, may be; one whose coding cannot
    be undone piece by piece, or whose text is too long to be looked at, is not written before it is
    whole.
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
        """What may be written by now, under ``body``; under ``cuts`` where pieces end in it."""
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
        """How much of what is held may be written."""
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
        except zlib.error:  # no zlib header, or bytes from outside that are none of this
            self._failed = True
            return None
        self._left -= len(text)
        # After the end there may be another member, which is not read here.
        self._failed = self._left < 0 or bool(self._inflate.unused_data)
        return None if self._failed else text
