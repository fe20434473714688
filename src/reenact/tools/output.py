"""What a command says: the end of a long text, with a note on what was left out."""

from __future__ import annotations

import codecs
from collections import deque
from typing import Final

__all__ = ["MOST", "PENDING", "Output", "Tail"]

MOST: Final = 200_000
"""Characters of output that are kept."""

PENDING: Final = 30_000
"""Characters that wait to be polled."""


class Tail:
    """Keeps the last ``most`` characters of what is added, and little more in memory."""

    def __init__(self, most: int, left_out: int = 0) -> None:
        self.left_out = left_out
        """Characters that are not kept any more."""
        self._most = most
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, text: str) -> None:
        """More text."""
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

    def kept(self) -> str:
        """What is kept."""
        return "".join(self._pieces)

    def text(self, most: int | None = None) -> str:
        """What is kept, or the last ``most`` characters of it, and how much is missing."""
        text, left_out = self.kept(), self.left_out
        if most is not None and len(text) > most:
            left_out += len(text) - most
            text = text[-most:]
        return f"[{left_out:,} characters left out]\n{text}" if left_out else text


class Output:
    """What a command has said so far, from bytes that may be no text; and what of it is new.

    One thread adds, others look: whoever uses it holds a lock.
    """

    def __init__(self) -> None:
        self.all = Tail(MOST)
        self._new = Tail(PENDING)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> None:
        """More bytes; a character may be cut in the middle."""
        self._append(self._decoder.decode(data))

    def end(self) -> None:
        """Nothing comes any more: half a character stands for itself."""
        self._append(self._decoder.decode(b"", final=True))

    def _append(self, text: str) -> None:
        if text:
            self.all.add(text)
            self._new.add(text)

    @property
    def has_news(self) -> bool:
        """Has it said something since it was last asked?"""
        return self._new.is_longer_than(0)

    def take_new(self) -> str:
        """What it has said since then."""
        found, self._new = self._new.text(), Tail(PENDING)
        return found

    def tail(self, most: int) -> str:
        """The last ``most`` characters, and nothing else."""
        return self.all.kept()[-most:]
