"""How far a text that is still growing may be written down already.

A secret may begin in one piece of a stream and end in another, and nothing tells a half of it from
any other word. So what is written ends between two words, and only while the gate, which never
misses a secret, sees none in all that has come. Behind a doubt nothing is written any more.
"""

from __future__ import annotations

from reenact.policy.redaction import Redactor

__all__ = ["Screen"]

_BLANKS = (b" ", b"\t", b"\r", b"\n")
_CONTEXT = 1_024
"""Bytes before what is new that are looked at again: a name stands before its value."""

_LONGEST = 65_536
"""Bytes of the longest word: it gives itself away by its beginning, if it is a secret."""

_STEP = 8_192
"""Bytes by which a word that has not ended is written, once it is longer than that."""


class Screen:
    """The screen of one stream. Costs time in proportion to what comes, and little space."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._kept = max(_CONTEXT, redactor.reach)
        self._tail = bytearray()
        self._start = 0
        """Where in the stream the tail starts."""
        self._blank = 0
        """Behind the last blank of the stream."""
        self._safe = 0
        self._gave_up = False

    def add(self, text: bytes) -> int:
        """``text`` has come. Returns how many bytes of the stream may be written by now."""
        if not self._gave_up:
            end = self._start + len(self._tail)
            last = max(text.rfind(blank) for blank in _BLANKS)
            if last >= 0:
                self._blank = end + last + 1
            self._tail += text
            self._look(end + len(text))
        return self._safe

    def _look(self, size: int) -> None:
        """``size`` bytes have come."""
        wanted = size if self._redactor.profile == "none" else self._wanted(size)
        if wanted <= self._safe:
            return
        if self._redactor.clears(bytes(self._tail)):
            self._safe = wanted
            done = max(0, wanted - self._kept - self._start)
            del self._tail[:done]
            self._start += done
        elif len(self._tail) > 2 * _LONGEST:  # a doubt that lasts is not looked at for ever
            self._gave_up = True
            self._tail.clear()

    def _wanted(self, size: int) -> int:
        """How much could be written, if there is no doubt."""
        long = (size - _LONGEST) // _STEP * _STEP
        return min(max(self._blank, long), size - self._redactor.reach)
