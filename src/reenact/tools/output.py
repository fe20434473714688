"""The end of a long text, with a note on what was left out."""

from __future__ import annotations

import codecs
from collections import deque

__all__ = ["Tail"]


class Tail:
    """Keeps the last ``most`` characters of what is added, and little more in memory."""

    def __init__(self, most: int) -> None:
        self.left_out = 0
        """Characters that are not kept any more."""
        self._most = most
        self._pieces: deque[str] = deque()
        self._size = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> None:
        """More bytes; a character may be cut in the middle."""
        self._append(self._decoder.decode(data))

    def _append(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        while self._size - len(self._pieces[0]) >= self._most:
            gone = len(self._pieces.popleft())
            self._size -= gone
            self.left_out += gone
        over = self._size - self._most
        if over > 0:
            self._pieces[0] = self._pieces[0][over:]
            self._size -= over
            self.left_out += over

    def is_longer_than(self, most: int) -> bool:
        """Was more said than that?"""
        return self.left_out + self._size > most

    def text(self, most: int | None = None) -> str:
        """What is kept, or the last ``most`` characters of it. Nothing may be added after that."""
        self._append(self._decoder.decode(b"", final=True))
        text = "".join(self._pieces)
        left_out = self.left_out
        if most is not None and len(text) > most:
            left_out += len(text) - most
            text = text[-most:]
        return f"[{left_out:,} characters left out]\n{text}" if left_out else text
