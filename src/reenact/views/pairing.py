"""Which lane stands against which, and which step of one against which of the other.

As by the keys of all steps; but keys are only asked for where the digests do not tell already.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from reenact.diff.sequences import Pair, align
from reenact.views.sides import Side
from reenact.views.skimming import Seen

__all__ = ["LaneNames", "aligned", "paired_lanes"]


def _are_same(one: Side, other: Side, left: Seen, right: Seen) -> bool:
    return left.digest == right.digest or one.key(left) == other.key(right)


_Item = TypeVar("_Item")


def _ends(
    mine: Sequence[_Item], theirs: Sequence[_Item], same: Callable[[_Item, _Item], bool]
) -> tuple[int, int]:
    """How many are the same at the beginning, and of the rest at the end."""
    shorter = min(len(mine), len(theirs))
    start = 0
    while start < shorter and same(mine[start], theirs[start]):
        start += 1
    end = 0
    while end < shorter - start and same(mine[-1 - end], theirs[-1 - end]):
        end += 1
    return start, end


def aligned(one: Side, other: Side, mine: list[Seen], theirs: list[Seen]) -> Iterator[Pair]:
    """As :func:`align` does with the keys, of which only those between the ends are asked for."""
    start, end = _ends(mine, theirs, lambda left, right: _are_same(one, other, left, right))
    yield from ((index, index) for index in range(start))
    stop, stop_other = len(mine) - end, len(theirs) - end
    keys = [*map(one.key, mine[start:stop])]
    others = [*map(other.key, theirs[start:stop_other])]
    for left, right in align(keys, others):
        yield None if left is None else left + start, None if right is None else right + start
    yield from ((stop + index, stop_other + index) for index in range(end))


LaneNames = tuple[str | None, str | None]


def paired_lanes(one: Side, other: Side) -> Iterator[LaneNames]:
    """Parents before their children. A lane that is new moves the numbers of those after it, so
    siblings are paired by what is done in them."""
    waiting: list[LaneNames] = [("", "")]
    while waiting:
        left, right = waiting.pop(0)
        if left or right:
            yield left or None, right or None
        mine = one.children(left) if left is not None else []
        theirs = other.children(right) if right is not None else []
        waiting += _siblings(one, other, mine, theirs)


def _siblings(one: Side, other: Side, mine: list[str], theirs: list[str]) -> Iterator[LaneNames]:
    """Those in which the same was said, then those in which the same was done, then in order."""

    def same(left: str, right: str) -> bool:
        steps, others = one.lanes[left], other.lanes[right]
        pairs = zip(steps, others, strict=False)
        return len(steps) == len(others) and all(_are_same(one, other, *pair) for pair in pairs)

    start, end = (0, 0) if len(mine) == len(theirs) == 1 else _ends(mine, theirs, same)
    yield from zip(mine[:start], theirs[:start], strict=True)
    between, others = mine[start : len(mine) - end], theirs[start : len(theirs) - end]
    if min(len(between), len(others)) == 0 or len(between) == len(others) == 1:
        yield from zip_longest(between, others)
    else:
        yield from _alike(one, other, between, others)
    yield from zip(mine[len(mine) - end :], theirs[len(theirs) - end :], strict=True)


def _alike(one: Side, other: Side, mine: list[str], theirs: list[str]) -> Iterator[LaneNames]:
    said = [*map(one.keys, mine)], [*map(other.keys, theirs)]
    for lanes, others in _blocks(mine, theirs, *said):
        done = [*map(one.labels, lanes)], [*map(other.labels, others)]
        for some, some_others in _blocks(lanes, others, *done):
            yield from zip_longest(some, some_others)


def _blocks(
    mine: list[_Item], theirs: list[_Item], keys: Sequence[Hashable], others: Sequence[Hashable]
) -> Iterator[tuple[list[_Item], list[_Item]]]:
    """Both lists in parts: one item each that have the same key, or what lies between such."""
    left: list[_Item] = []
    right: list[_Item] = []
    for one, other in align(keys, others):
        if one is not None and other is not None:
            if left or right:
                yield left, right
                left, right = [], []
            yield [mine[one]], [theirs[other]]
        elif one is not None:
            left.append(mine[one])
        elif other is not None:
            right.append(theirs[other])
    if left or right:
        yield left, right
