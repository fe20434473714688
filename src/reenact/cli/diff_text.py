"""Two recordings side by side, as text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TextIO

from reenact.cli.render import clip, count, escape_controls, preview
from reenact.cli.screen import has_colour
from reenact.cli.summary import summary
from reenact.diff.sequences import WordChange, word_diff
from reenact.diff.values import Difference
from reenact.format.canonical import digest
from reenact.format.paths import join
from reenact.views.compare.runs import Change, LanePair

__all__ = ["Printer", "in_words"]

_Marks = dict[str, tuple[str, str]]

_PLAIN: _Marks = {"same": ("", ""), "removed": ("[-", "-]"), "added": ("{+", "+}")}
_COLOURED: _Marks = {
    "same": ("", ""),
    "removed": ("\033[31m", "\033[0m"),
    "added": ("\033[32m", "\033[0m"),
}
_CONTEXT = 40
_LISTED = 20
_FIRST_FEW = 3
_MOST_WORDS = 100_000


class Printer:
    """Prints what differs. A conversation says again what was said before: a difference is shown
    once, and after that only where it stands."""

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = width
        self._out = out or sys.stdout
        self._marks = _COLOURED if has_colour(self._out) else _PLAIN
        self._shown: dict[str, int] = {}

    def lane(self, lane: LanePair) -> None:
        """Print what differs in a pair of lanes; nothing when nothing does."""
        if lane.changes:
            self._line(_heading(lane))
            for change in lane.changes:
                self._change(change)
            self._line("")

    def first(self, change: Change) -> None:
        """Print a difference while the rest is still to be read."""
        self._line(f"reenact: first difference at {_seqs(change)}  {_what(change)}")
        for found in change.differences[:_FIRST_FEW]:
            self._difference(found)
        self._out.flush()

    def _line(self, text: str) -> None:
        print(clip(text.rstrip(), self._width), file=self._out)

    def _change(self, change: Change) -> None:
        step = change.step
        self._line(f"  {change.kind:<8} {_seqs(change)}  {_what(change)}")
        differences = change.differences
        for found in differences[:_LISTED]:
            before = self._shown.setdefault(_gist(found), step.seq)
            if before == step.seq:
                self._difference(found)
            else:
                self._line(f"    {escape_controls(join(found.path))}: as at event {before}")
        if len(differences) > _LISTED:
            self._line(f"    and {count(len(differences) - _LISTED, 'more place')}")

    def _difference(self, found: Difference) -> None:
        kind = "" if found.kind == "changed" else f" ({found.kind})"
        self._line(f"    {escape_controls(join(found.path))}{kind}")
        one, other = found.expected, found.observed
        if isinstance(one, str) and isinstance(other, str) and len(one + other) < _MOST_WORDS:
            # Never cut: the change may be anywhere in it.
            print("      " + "".join(_words(word_diff(one, other), self._marks)), file=self._out)
            return
        if found.kind != "added":
            self._line(f"      - {self._value(one)}")
        if found.kind != "removed":
            self._line(f"      + {self._value(other)}")

    def _value(self, value: Any) -> str:
        if isinstance(value, bytes):
            return f"{len(value):,} bytes, {digest(value)}"
        return preview(value, self._width or 1 << 16)


def in_words(one: str, other: str, out: TextIO) -> str:
    """Two texts in one, word by word, marked as ``out`` can show it. Never cut: the change may be
    anywhere in it."""
    marks = _COLOURED if has_colour(out) else _PLAIN
    return "".join(_words(word_diff(one, other), marks))


def _heading(lane: LanePair) -> str:
    if lane.one is None or lane.other is None:
        before = {change.one.lane for change in lane.changes if change.one and change.other}
        if len(before) == 1 and all(change.kind == "moved" for change in lane.changes):
            return f"lane {lane.other}, in the first lane {before.pop()}"
        which = "second" if lane.one is None else "first"
        return f"lane {lane.one or lane.other}, only in the {which}"
    moved = "" if lane.one == lane.other else f", now {lane.other}"
    return f"lane {lane.one}{moved}: {count(lane.same, 'call')} the same"


def _seqs(change: Change) -> str:
    numbers = (str(step.seq) for step in (change.one, change.other) if step is not None)
    return f"event {' -> '.join(numbers)}"


def _what(change: Change) -> str:
    step = change.step
    told = summary(step.opening.type, step.opening.data)
    step.let_go()
    return told


def _gist(found: Difference) -> str:
    """Two differences with the same one say the same."""
    return digest([found.kind, found.expected, found.observed])


def _words(pieces: list[WordChange], marks: _Marks) -> Iterator[str]:
    """What differs, with a little of what is the same around it."""
    for number, (kind, text) in enumerate(pieces):
        start, end = marks[kind]
        if kind == "same":
            text = _middle(text, first=not number, last=number == len(pieces) - 1)
        yield f"{start}{escape_controls(text)}{end}"


def _middle(text: str, *, first: bool, last: bool) -> str:
    if len(text) <= 2 * _CONTEXT:
        return text
    head = "" if first else text[:_CONTEXT]
    tail = "" if last else text[-_CONTEXT:]
    return f"{head} ... {tail}"
