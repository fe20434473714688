"""Alignment of the lanes and calls of two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar
from urllib.parse import urlsplit

from reenact.diff.sequences import Pair, align, blocks
from reenact.format.event import lane_order
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction.redactor import Redactor
from reenact.views.calls import RecordedCall
from reenact.views.compare.call_digests import DigestedCall, DigestReader
from reenact.views.content import ContentReader

__all__ = ["ComparableContent", "Label", "LaneNames", "RunSide", "align_calls", "pair_lanes"]

Label = tuple[str, ...]


class ComparableContent:
    """Comparable content of the calls of both runs, with a key for each.

    Calls with equal content have equal keys. Generated ids are replaced in both runs, so a key
    depends only on the call.
    """

    def __init__(self, rules: Rules, everything: bool) -> None:
        self._comparer = Comparer(rules, Redactor("none"))
        self._speaker = ContentReader(everything=everything)
        self._keys: dict[bytes, str] = {}
        self._learnt = [0, 0]

    def learn(self, one: DigestReader, other: DigestReader) -> None:
        """Note the ids that models made up in what was read so far."""
        for number, run in enumerate((one, other)):
            for seen in run.answered[self._learnt[number] :]:
                if self._speaker.learn(run.step(seen)):
                    self._keys.clear()
            self._learnt[number] = len(run.answered)

    def of(self, step: RecordedCall) -> object:
        """Return the comparable content of ``step``."""
        return self._comparer.normal(self._speaker.of(step))

    def key(self, run: DigestReader, seen: DigestedCall) -> str:
        """Return the digest of the comparable content."""
        found = self._keys.get(seen.digest)
        if found is None:
            found = self._keys[seen.digest] = self._comparer.key(self._speaker.of(run.step(seen)))
        return found


class RunSide:
    """One of the two compared runs."""

    def __init__(self, skimmer: DigestReader, said: ComparableContent) -> None:
        self.lanes = skimmer.lanes
        self.step = skimmer.step
        self._skimmer = skimmer
        self._said = said
        self._children: dict[str, list[str]] = {}
        for lane in sorted(skimmer.lanes, key=lane_order):
            self._children.setdefault(self._above(lane), []).append(lane)

    def key(self, seen: DigestedCall) -> str:
        """Return the key of a step. Steps with equal keys have equal content."""
        return self._said.key(self._skimmer, seen)

    def keys(self, lane: str) -> tuple[str, ...]:
        """Return the keys of all calls in ``lane``."""
        return tuple(map(self.key, self.lanes[lane]))

    def label(self, seen: DigestedCall) -> Label:
        """Return the kind of a call, which is the same for a different prompt or argument."""
        if seen.kind == "llm":
            return ("llm",)
        request = self.step(seen).asked.get("request")
        url = request.get("url") if isinstance(request, dict) else None
        path = urlsplit(url).path if isinstance(url, str) else ""
        return (seen.kind, seen.name, path)

    def labels(self, lane: str) -> tuple[Label, ...]:
        """Return the labels of all calls in ``lane``."""
        return tuple(map(self.label, self.lanes[lane]))

    def said(self, step: RecordedCall) -> object:
        """Return the comparable content of ``step``."""
        return self._said.of(step)

    def children(self, lane: str) -> list[str]:
        """Return the lanes directly below ``lane``, or the root lanes for an empty string."""
        return self._children.get(lane, [])

    def _above(self, lane: str) -> str:
        """Return the nearest lane above that has calls."""
        while lane := lane.rpartition(".")[0]:
            if lane in self.lanes:
                return lane
        return ""


def _are_same(one: RunSide, other: RunSide, left: DigestedCall, right: DigestedCall) -> bool:
    return left.digest == right.digest or one.key(left) == other.key(right)


_Item = TypeVar("_Item")


def _ends(
    mine: Sequence[_Item], theirs: Sequence[_Item], same: Callable[[_Item, _Item], bool]
) -> tuple[int, int]:
    """Count the equal items at the start, and the remaining equal items at the end."""
    shorter = min(len(mine), len(theirs))
    start = 0
    while start < shorter and same(mine[start], theirs[start]):
        start += 1
    end = 0
    while end < shorter - start and same(mine[-1 - end], theirs[-1 - end]):
        end += 1
    return start, end


def align_calls(
    one: RunSide, other: RunSide, mine: list[DigestedCall], theirs: list[DigestedCall]
) -> Iterator[Pair]:
    """Align calls like :func:`align`. Keys are computed only between the common ends."""
    start, end = _ends(mine, theirs, lambda left, right: _are_same(one, other, left, right))
    yield from ((index, index) for index in range(start))
    stop, stop_other = len(mine) - end, len(theirs) - end
    keys = [*map(one.key, mine[start:stop])]
    others = [*map(other.key, theirs[start:stop_other])]
    for left, right in align(keys, others):
        yield None if left is None else left + start, None if right is None else right + start
    yield from ((stop + index, stop_other + index) for index in range(end))


LaneNames = tuple[str | None, str | None]


def pair_lanes(one: RunSide, other: RunSide) -> Iterator[LaneNames]:
    """Pair the lanes of two runs, parents before their children.

    A new lane changes the numbers of the lanes after it, so siblings are paired by their content.
    """
    waiting: list[LaneNames] = [("", "")]
    while waiting:
        left, right = waiting.pop(0)
        if left or right:
            yield left or None, right or None
        mine = one.children(left) if left is not None else []
        theirs = other.children(right) if right is not None else []
        waiting += _siblings(one, other, mine, theirs)


def _siblings(
    one: RunSide, other: RunSide, mine: list[str], theirs: list[str]
) -> Iterator[LaneNames]:
    """Pair sibling lanes by equal content, then by equal labels, then in order."""

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


def _alike(one: RunSide, other: RunSide, mine: list[str], theirs: list[str]) -> Iterator[LaneNames]:
    said = [*map(one.keys, mine)], [*map(other.keys, theirs)]
    for lanes, others, _ in blocks(mine, theirs, *said):
        done = [*map(one.labels, lanes)], [*map(other.labels, others)]
        for some, some_others, _ in blocks(lanes, others, *done):
            yield from zip_longest(some, some_others)
