"""A part of a text with what was found in it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reenact.search.asking import Term

__all__ = ["Excerpt", "excerpt"]

_BEFORE = 3
"""One part in so many stands before what was found."""
_CUT = "..."
_LEAST = 12


class Excerpt(msgspec.Struct, frozen=True):
    """On one line. ``marks`` are where something was found in ``text``, from and to."""

    text: str
    marks: list[tuple[int, int]]

    def pieces(self) -> list[tuple[str, bool]]:
        """All of the text in pieces, those that were found marked."""
        found, last = [], 0
        for start, end in self.marks:
            found += [(self.text[last:start], False), (self.text[start:end], True)]
            last = end
        return [*found, (self.text[last:], False)]


def excerpt(text: str, terms: Iterable[Term], room: int) -> Excerpt:
    """At most ``room`` characters (but no fewer than a few) around the first place in ``text``
    where something is found."""
    room = max(room, _LEAST)
    spans = sorted({span for term in terms if not term.unwanted for span in term.spans(text)})
    start, end = _window(len(text), spans[0][0] if spans else 0, room)
    head, tail = _CUT if start else "", _CUT if end < len(text) else ""
    shift = len(head) - start
    line = "".join(" " if char in "\n\r\t" else char for char in text[start:end])
    marks = [(a + shift, min(b, end) + shift) for a, b in spans if start <= a < end]
    return Excerpt(f"{head}{line}{tail}", _apart(marks))


def _window(size: int, first: int, room: int) -> tuple[int, int]:
    """From where to where a text of ``size`` is shown, so that ``first`` is in it."""
    if size <= room:
        return 0, size
    start = first - room // _BEFORE
    if start <= len(_CUT):
        return 0, room - len(_CUT)
    inner = room - len(_CUT)
    if start + inner >= size:
        return size - inner, size
    return start, start + inner - len(_CUT)


def _apart(marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that touch each other as one."""
    found: list[tuple[int, int]] = []
    for start, end in marks:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
