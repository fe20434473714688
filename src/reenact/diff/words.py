"""Two texts, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Literal, NamedTuple

from reenact.diff.align import Pair, align

__all__ = ["Piece", "word_diff"]

Piece = tuple[Literal["same", "removed", "added"], str]

_WORD = re.compile(r"\s+|\w+|[^\w\s]")


def word_diff(one: str, other: str) -> list[Piece]:
    """What to take from ``one`` and what to put in to have ``other``. The pieces that are the same
    or removed make ``one``, those that are the same or added make ``other``. Neighbours that are
    both replaced are one change, with the space between them."""
    mine, theirs = _WORD.findall(one), _WORD.findall(other)
    changes: list[_Change] = []
    for change in _changes(mine, theirs, align(mine, theirs)):
        before = changes[-1] if changes else _NOTHING
        if before.replaces() and change.replaces() and _is_gap(before.same):
            changes[-1] = before.with_next(change)
        else:
            changes.append(change)
    return [piece for change in changes for piece in change.pieces()]


class _Change(NamedTuple):
    """What was taken, what was put in its place, and what is the same after it."""

    removed: str = ""
    added: str = ""
    same: str = ""

    def replaces(self) -> bool:
        return bool(self.removed and self.added)

    def with_next(self, after: _Change) -> _Change:
        gap = self.same
        return _Change(
            self.removed + gap + after.removed, self.added + gap + after.added, after.same
        )

    def pieces(self) -> Iterator[Piece]:
        if self.removed:
            yield "removed", self.removed
        if self.added:
            yield "added", self.added
        if self.same:
            yield "same", self.same


_NOTHING = _Change()


def _is_gap(text: str) -> bool:
    """Space within a line: lines stay apart."""
    return text.isspace() and "\n" not in text


def _changes(mine: list[str], theirs: list[str], pairs: list[Pair]) -> Iterator[_Change]:
    """Of each change, what is removed comes before what is added: as :func:`align` has it."""
    change = _NOTHING
    for kind, run in groupby(pairs, key=_kind):
        if change.same:
            yield change
            change = _NOTHING
        text = "".join(
            mine[left] if left is not None else theirs[right or 0] for left, right in run
        )
        change = change._replace(**{kind: text})
    yield change


def _kind(pair: Pair) -> Literal["same", "removed", "added"]:
    if pair[1] is None:
        return "removed"
    return "added" if pair[0] is None else "same"
