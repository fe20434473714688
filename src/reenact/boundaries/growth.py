"""An HTTP answer while it is coming: what each piece of it adds to what is recorded."""

from __future__ import annotations

import zlib
from typing import Any

from reenact.format.event import Data
from reenact.policy.screen import Screen

__all__ = ["GrowingBody", "as_text"]

_DEFLATED = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


def as_text(body: bytes) -> str | bytes:
    """``body`` as text where it is text."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body


class GrowingBody:
    """The body of one answer. ``coding`` is its content coding.

    An encoded body is written only as far as its text, decoded, may be; one whose coding cannot
    be undone piece by piece is not written before it is whole.
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
        text = self._read(piece)
        if text is None:
            return 0
        self._text_size += len(text)
        safe = self._screen.add(text)
        if self._plain:
            return len(self._held) - (self._size - safe)
        return len(self._held) if safe == self._text_size else 0


def _reader(coding: str | None) -> Any:
    """Gives the text of each piece; None where it cannot."""
    if coding is None:
        return bytes
    window = _DEFLATED.get(coding.strip().lower())
    return _Inflating(window) if window is not None else lambda _: None


class _Inflating:
    def __init__(self, window: int) -> None:
        self._inflate = zlib.decompressobj(window)
        self._failed = False

    def __call__(self, piece: bytes) -> bytes | None:
        if self._failed:
            return None
        try:
            text = self._inflate.decompress(piece)
        except zlib.error:  # no zlib header, or bytes from outside that are none of this
            self._failed = True
            return None
        # After the end there may be another member, which is not read here.
        self._failed = bool(self._inflate.unused_data)
        return None if self._failed else text
