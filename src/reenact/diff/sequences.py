"""Alignment of two sequences, and word-by-word differences between two texts.

Items that occur exactly once in both sequences are anchors (patience diff), so a repeated item is
never matched across a change. The items between two anchors are aligned in the same way.
Stretches without anchors are aligned with the fewest edits (Myers). Mostly equal sequences take
about n log n steps. Pending work is kept in a list, because a long sequence with many anchors
would exceed the recursion limit.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Generic, Literal, NamedTuple, TypeVar

from reenact.diff.terminal_text import escape_controls

__all__ = [
    "Block",
    "Pair",
    "WordChange",
    "align",
    "blocks",
    "common_ends",
    "mark_words",
    "pair_up",
    "word_diff",
]

_Item = TypeVar("_Item")
Pair = tuple[int | None, int | None]
"""Indices of two equal items, or the index of an item without an equal one."""

_MOST_EDITS = 400
"""A stretch without an anchor that needs more edits counts as completely different."""


def align(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[Pair]:
    """Return every index of both, in order. Unmatched items of ``one`` come first."""
    pairs: list[Pair] = []
    done = (0, 0)
    for here in _matches(one, other, 0, len(one), 0, len(other)):
        pairs += _apart(done, here)
        pairs.append(here)
        done = (here[0] + 1, here[1] + 1)
    return [*pairs, *_apart(done, (len(one), len(other)))]


class Block(NamedTuple, Generic[_Item]):
    """Part of an alignment: one equal item of each sequence, or the items between two such pairs."""

    one: list[_Item]
    other: list[_Item]
    equal: bool


def blocks(
    one: Sequence[_Item],
    other: Sequence[_Item],
    keys: Sequence[Hashable],
    other_keys: Sequence[Hashable],
) -> Iterator[Block[_Item]]:
    """Align two sequences by the keys of their items, and yield all items of both in blocks."""
    apart = Block[_Item]([], [], False)
    for here, there in align(keys, other_keys):
        if here is not None and there is not None:
            if apart.one or apart.other:
                yield apart
                apart = Block([], [], False)
            yield Block([one[here]], [other[there]], True)
        elif here is not None:
            apart.one.append(one[here])
        elif there is not None:
            apart.other.append(other[there])
    if apart.one or apart.other:
        yield apart


_Key = Callable[[_Item], Hashable]


def pair_up(
    one: Sequence[_Item],
    other: Sequence[_Item],
    *keys: _Key[_Item] | tuple[_Key[_Item], _Key[_Item]],
    in_order: bool = False,
) -> Iterator[tuple[_Item | None, _Item | None]]:
    """Pair the items of two sequences in order, with None for an item without a counterpart.

    Items with the same first key are pairs. Items between such pairs are paired by the next key, for
    example by their kind after their complete content, and with ``in_order`` finally by their order.
    A key can be a pair of functions, one for each sequence.
    """
    if not keys:
        if in_order:
            yield from zip_longest(one, other)
            return
        yield from ((item, None) for item in one)
        yield from ((None, item) for item in other)
        return
    key, *rest = keys
    mine, theirs = key if isinstance(key, tuple) else (key, key)
    for block in blocks(one, other, [*map(mine, one)], [*map(theirs, other)]):
        if block.equal:
            yield block.one[0], block.other[0]
        else:
            yield from pair_up(block.one, block.other, *rest, in_order=in_order)


def common_ends(
    one: Sequence[_Item], other: Sequence[_Item], same: Callable[[_Item, _Item], bool]
) -> tuple[int, int]:
    """Count the equal items at the start, and the remaining equal items at the end."""
    shorter = min(len(one), len(other))
    start = 0
    while start < shorter and same(one[start], other[start]):
        start += 1
    end = 0
    while end < shorter - start and same(one[-1 - end], other[-1 - end]):
        end += 1
    return start, end


def _apart(start: tuple[int, int], end: tuple[int, int]) -> Iterator[Pair]:
    yield from ((index, None) for index in range(start[0], end[0]))
    yield from ((None, index) for index in range(start[1], end[1]))


_Match = tuple[int, int]


def _matches(
    one: Sequence[Hashable], other: Sequence[Hashable], a: int, a_end: int, b: int, b_end: int
) -> Iterator[_Match]:
    """Pairs of equal items, rising on both sides. The work that is left waits in a list: a long
    sequence with many anchors would be too deep for recursion."""
    waiting: list[tuple[int, int, int, int] | _Match] = [(a, a_end, b, b_end)]
    while waiting:
        here = waiting.pop()
        if len(here) == 2:
            yield here
            continue
        a, a_end, b, b_end = here
        while a < a_end and b < b_end and one[a] == other[b]:
            yield a, b
            a, b = a + 1, b + 1
        tail: list[_Match] = []
        while a < a_end and b < b_end and one[a_end - 1] == other[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            tail.append((a_end, b_end))
        waiting += tail  # popped from the end: the lowest comes first
        if a < a_end and b < b_end:
            waiting += reversed(_between(one, other, a, a_end, b, b_end))


def _between(
    one: Sequence[Hashable], other: Sequence[Hashable], a: int, a_end: int, b: int, b_end: int
) -> list[tuple[int, int, int, int] | _Match]:
    anchors = _anchors(one, other, a, a_end, b, b_end)
    if not anchors:
        return [*_fewest(one, other, a, a_end, b, b_end)]
    found: list[tuple[int, int, int, int] | _Match] = []
    for left, right in anchors:
        found += [(a, left, b, right), (left, right)]
        a, b = left + 1, right + 1
    return [*found, (a, a_end, b, b_end)]


def _anchors(
    one: Sequence[Hashable], other: Sequence[Hashable], a: int, a_end: int, b: int, b_end: int
) -> list[_Match]:
    """Items that occur once on each side, as many as can be had in rising order on both."""
    here, there = Counter(one[a:a_end]), Counter(other[b:b_end])
    place = {other[index]: index for index in range(b, b_end) if there[other[index]] == 1}
    once = [
        (index, place[one[index]])
        for index in range(a, a_end)
        if here[one[index]] == 1 and one[index] in place
    ]
    return _rising(once)


def _rising(pairs: list[_Match]) -> list[_Match]:
    """The longest part of ``pairs`` whose second numbers rise, too."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, right) in enumerate(pairs):
        at = bisect_left(ends, right)
        before.append(last[at - 1] if at else -1)
        if at == len(ends):
            ends.append(right)
            last.append(number)
        else:
            ends[at], last[at] = right, number
    found: list[_Match] = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _fewest(
    one: Sequence[Hashable], other: Sequence[Hashable], a: int, a_end: int, b: int, b_end: int
) -> list[_Match]:
    """The matches of the shortest way from one to the other; none when it is too long. Items that
    only one side has are on no way, and left out before it is looked for."""
    shared = set(one[a:a_end]).intersection(other[b:b_end])
    lefts = [index for index in range(a, a_end) if one[index] in shared]
    rights = [index for index in range(b, b_end) if other[index] in shared]
    way = _shortest([one[index] for index in lefts], [other[index] for index in rights])
    return [(lefts[row], rights[column]) for row, column in way]


def _shortest(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[_Match]:
    """Myers: on the way with the fewest edits, what stays."""
    rows, columns = len(one), len(other)
    furthest = {1: 0}
    """Progress in ``one``, by its lead over ``other``."""
    ways: list[dict[int, int]] = []
    for edits in range(min(rows + columns, _MOST_EDITS) + 1):
        ways.append(dict(furthest))
        for ahead in range(-edits, edits + 1, 2):
            row, _ = _step(furthest, ahead, edits)
            while row < rows and row - ahead < columns and one[row] == other[row - ahead]:
                row += 1
            furthest[ahead] = row
            if row >= rows and row - ahead >= columns:
                return _way(ways, rows, columns)
    return []


def _step(furthest: dict[int, int], ahead: int, edits: int) -> tuple[int, bool]:
    """Return the row after the next edit, and whether it skips an item of ``other``."""
    if ahead == -edits or (ahead != edits and furthest[ahead - 1] < furthest[ahead + 1]):
        return furthest[ahead + 1], True
    return furthest[ahead - 1] + 1, False


def _way(ways: list[dict[int, int]], row: int, column: int) -> list[_Match]:
    """The matches, found backwards from the end."""
    found: list[_Match] = []
    for edits in range(len(ways) - 1, -1, -1):
        ahead = row - column
        start, down = _step(ways[edits], ahead, edits)
        while row > start and column > start - ahead:
            row, column = row - 1, column - 1
            found.append((row, column))
        row, column = (row, column - 1) if down else (row - 1, column)
    return found[::-1]


WordChange = tuple[Literal["same", "removed", "added"], str]

_WORD = re.compile(r"\s+|\w+|[^\w\s]")


def word_diff(one: str, other: str) -> list[WordChange]:
    """Return the pieces that turn ``one`` into ``other``.

    Equal and removed pieces form ``one``; equal and added pieces form ``other``. Adjacent
    replacements are joined, including the space between them.
    """
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
    """Removed text, added text, and the equal text after them."""

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

    def pieces(self) -> Iterator[WordChange]:
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


Marks = dict[str, tuple[str, str]]
_PLAIN_MARKS: Marks = {"same": ("", ""), "removed": ("[-", "-]"), "added": ("{+", "+}")}
_CONTEXT = 40
"""Characters of an equal part that are shown next to a change."""


def mark_words(old: str, new: str, marks: Marks | None = None) -> str:
    """Return two texts as one line, with removed and added words between ``marks``.

    Long equal parts are shortened.
    """
    pieces = word_diff(old, new)
    marked = []
    for index, (kind, text) in enumerate(pieces):
        start, end = (marks or _PLAIN_MARKS)[kind]
        if kind == "same" and len(text) > 2 * _CONTEXT:
            head = text[:_CONTEXT] if index else ""
            tail = text[-_CONTEXT:] if index < len(pieces) - 1 else ""
            text = f"{head} ... {tail}"
        marked.append(f"{start}{escape_controls(text)}{end}")
    return "".join(marked)
