"""Tells from the numbers of records alone which are missing, moved, or there twice.

One pass, with one record of looking ahead, in bounded memory. A record that runs ahead of the
count while the expected one follows is kept in mind: if its place is found empty later it was
moved, and if not it is a copy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

__all__ = ["Oddity", "Order"]

_MOST: Final = 10_000
"""Gaps, and records that ran ahead, that are kept in mind."""


class Oddity(NamedTuple):
    """Records from ``seq`` up to and without ``until``."""

    kind: Literal["deleted", "duplicate", "reordered"]
    seq: int
    until: int


class Order:
    """Feed it the number of every record; ``expected`` is the one that should come next."""

    def __init__(self) -> None:
        self.expected = 0
        self._gaps: list[tuple[int, int]] = []
        self._early: set[int] = set()

    def place(self, seq: int, following: int | None) -> Iterator[Oddity]:
        """What is odd about a record, now that the one after it is known to be ``following``."""
        if seq != self.expected:
            yield from self._catch_up()
        if seq == self.expected:
            if seq in self._early:
                self._early.remove(seq)
                yield _one("duplicate", seq)
            self.expected += 1
        elif seq < self.expected:
            yield _one("reordered" if self._fill(seq) else "duplicate", seq)
            yield from self._forget()
        elif seq in self._early:
            yield _one("duplicate", seq)
        elif following == self.expected and len(self._early) < _MOST:
            self._early.add(seq)
        else:
            yield from self._skip_to(seq)
            self.expected += 1

    def end(self) -> Iterator[Oddity]:
        """What is known only when no record follows. Records that are missing after the last one
        are not in it: compare ``expected`` with what should be there."""
        yield from self._catch_up()
        if self._early:
            yield from self._skip_to(max(self._early) + 1)
        for start, end in self._gaps:
            yield Oddity("deleted", start, end)
        self._gaps = []

    def _catch_up(self) -> Iterator[Oddity]:
        """Past the places whose records ran ahead."""
        while self.expected in self._early:
            self._early.remove(self.expected)
            yield _one("reordered", self.expected)
            self.expected += 1

    def _skip_to(self, seq: int) -> Iterator[Oddity]:
        for ahead in sorted(found for found in self._early if found < seq):
            if ahead > self.expected:  # else the one before it was caught up with, and so was it
                self._add_gap(self.expected, ahead)
                self.expected = ahead
                yield from self._catch_up()
        self._add_gap(self.expected, seq)
        self.expected = seq
        yield from self._forget()

    def _forget(self) -> Iterator[Oddity]:
        """Give up the first of too many gaps: what is missing there is not waited for."""
        while len(self._gaps) > _MOST:
            start, end = self._gaps.pop(0)
            yield Oddity("deleted", start, end)

    def _add_gap(self, start: int, end: int) -> None:
        if start < end:
            self._gaps.append((start, end))

    def _fill(self, seq: int) -> bool:
        """Was ``seq`` missing so far?"""
        at = bisect_right(self._gaps, (seq, self.expected)) - 1
        if at < 0 or not self._gaps[at][0] <= seq < self._gaps[at][1]:
            return False
        start, end = self._gaps.pop(at)
        for left, right in ((seq + 1, end), (start, seq)):
            if left < right:
                self._gaps.insert(at, (left, right))
        return True


def _one(kind: Literal["duplicate", "reordered"], seq: int) -> Oddity:
    return Oddity(kind, seq, seq + 1)
