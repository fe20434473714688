"""Comparison of two runs: lane by lane, call by call."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from reenact.diff.sequences import blocks
from reenact.diff.values import Difference, differences
from reenact.format.event import ROOT_LANE
from reenact.policy.matching import Rules
from reenact.store.source import SeekableSource
from reenact.views.calls import RecordedCall
from reenact.views.compare.alignment import (
    ComparableContent,
    LaneNames,
    RunSide,
    align_calls,
    pair_lanes,
)
from reenact.views.compare.call_digests import DigestedCall, DigestReader

__all__ = [
    "Change",
    "Comparison",
    "LanePair",
    "Same",
]

Kind = Literal["changed", "added", "removed", "moved"]


class Change(msgspec.Struct, kw_only=True):
    """Difference between two runs. ``one`` is the step of the first run and ``other`` the step of the second.

    Both recordings must stay open while the change is in use.
    """

    kind: Kind
    one: RecordedCall | None = None
    other: RecordedCall | None = None
    find: Callable[[], list[Difference]] = list

    @property
    def differences(self) -> list[Difference]:
        """All differences of a changed step. They are computed on each access."""
        return self.find()

    @property
    def step(self) -> RecordedCall:
        """Step of the second run, or of the first if the second lacks it."""
        found = self.other or self.one
        assert found is not None
        return found


class Same(msgspec.Struct):
    """Steps that follow each other in both runs and say the same."""

    pairs: list[tuple[DigestedCall, DigestedCall]]


class LanePair(msgspec.Struct, kw_only=True):
    """Lanes of the two runs that belong together. A name is None if that run has no such lane."""

    one: str | None
    other: str | None
    parts: list[Same | Change]
    """In the order of the second run."""

    @property
    def same(self) -> int:
        return sum(len(part.pairs) for part in self.parts if isinstance(part, Same))

    @property
    def changes(self) -> list[Change]:
        return [part for part in self.parts if isinstance(part, Change)]


class Comparison:
    """Comparison of two recordings, which must stay open while it is in use.

    ``rules`` list the differences to ignore. ``everything`` compares all event data, including
    draws. ``first`` is called early with the first differing step of the main lanes, always as
    ``changed``, because its final kind is known only at the end.

    Raises :class:`PolicyInvalid` for an invalid rule.
    """

    def __init__(
        self,
        one: SeekableSource,
        other: SeekableSource,
        rules: Rules | None = None,
        *,
        everything: bool = False,
        first: Callable[[Change], None] | None = None,
    ) -> None:
        self.one = DigestReader(one, draws=everything, everything=everything)
        self.other = DigestReader(other, draws=everything, everything=everything)
        self._said = ComparableContent(rules or Rules(), everything)
        self._first = first

    @property
    def left_out(self) -> Counter[str]:
        """Draws of both runs that are not compared, by source.

        Complete after all events were read.
        """
        return self.one.left_out + self.other.left_out

    def said(self, step: RecordedCall) -> object:
        """Return the comparable content of a step."""
        return self._said.of(step)

    def lanes(self) -> Iterator[LanePair]:
        """Yield the differences lane by lane, parents first."""
        self._read()
        said = self._said
        said.learn(self.one, self.other)
        mine, theirs = RunSide(self.one, said), RunSide(self.other, said)
        lanes = [_Lane(mine, theirs, names) for names in pair_lanes(mine, theirs)]
        moved = _moves(mine, theirs, lanes)
        gone = {seen.first for seen in moved.values()}
        for lane in lanes:
            parts = list(_parts(mine, theirs, lane, moved, gone))
            yield LanePair(one=lane.names[0], other=lane.names[1], parts=parts)

    def _read(self) -> None:
        """Read both runs in parallel to their ends, and compare their main lanes meanwhile."""
        compared = 0
        more = True
        while more:
            more = self.one.read_on() | self.other.read_on()
            if self._first is not None:
                compared = self._watch(self._first, compared)

    def _watch(self, first: Callable[[Change], None], compared: int) -> int:
        """Compare what was read of the main lanes; returns how many steps have been so far."""
        one, other, root = self.one, self.other, ROOT_LANE
        if root in one.jumped | other.jumped:
            self._first = None
        mine, theirs = one.lanes.get(root, [])[compared:], other.lanes.get(root, [])[compared:]
        for left, right in zip(mine, theirs, strict=False):
            if self._first is None or not (left.digest and right.digest):
                break
            if left.digest != right.digest and self._differ(left, right):
                self._first = None
                first(_changed(RunSide(one, self._said), RunSide(other, self._said), left, right))
            compared += 1
        return compared

    def _differ(self, left: DigestedCall, right: DigestedCall) -> bool:
        self._said.learn(self.one, self.other)
        return self._said.key(self.one, left) != self._said.key(self.other, right)


_Apart = tuple[list[DigestedCall], list[DigestedCall]]


class _Lane:
    """A lane of each run, as parts in which all is the same or all is different."""

    def __init__(self, one: RunSide, other: RunSide, names: LaneNames) -> None:
        self.names = names
        self.parts: list[Same | _Apart] = []
        left, right = names
        mine = one.lanes[left] if left is not None else []
        theirs = other.lanes[right] if right is not None else []
        for index, number in align_calls(one, other, mine, theirs):
            if index is not None and number is not None:
                self._same().pairs.append((mine[index], theirs[number]))
            elif index is not None:
                self._apart()[0].append(mine[index])
            elif number is not None:
                self._apart()[1].append(theirs[number])

    def _same(self) -> Same:
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, Same):
            self.parts.append(last := Same([]))
        return last

    def _apart(self) -> _Apart:
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, tuple):
            self.parts.append(last := ([], []))
        return last

    def apart(self) -> Iterator[_Apart]:
        """Yield the parts without equal steps."""
        return (part for part in self.parts if isinstance(part, tuple))


def _moves(one: RunSide, other: RunSide, lanes: list[_Lane]) -> dict[int, DigestedCall]:
    """Return the steps of the first run that the second has in a different place, by their seq
    there."""
    removed: defaultdict[str, list[DigestedCall]] = defaultdict(list)
    for lane in lanes:
        for steps, _ in lane.apart():
            for seen in steps:
                removed[one.key(seen)].append(seen)
    found: dict[int, DigestedCall] = {}
    for lane in lanes:
        for _, steps in lane.apart():
            for seen in steps:
                before = removed.get(other.key(seen))
                if before:
                    found[seen.first] = before.pop(0)
    return found


def _parts(
    one: RunSide, other: RunSide, lane: _Lane, moved: dict[int, DigestedCall], gone: set[int]
) -> Iterator[Same | Change]:
    same = Same([])
    for part in lane.parts:
        if isinstance(part, Same):
            same.pairs += part.pairs
            continue
        left = [seen for seen in part[0] if seen.first not in gone]
        right = [seen for seen in part[1] if seen.first not in moved]
        here = [seen for seen in part[1] if seen.first in moved]
        if same.pairs and (left or right or here):
            yield same
            same = Same([])
        yield from _unlike(one, other, left, right)
        for seen in here:
            before = one.step(moved[seen.first])
            yield Change(kind="moved", one=before, other=other.step(seen))
    if same.pairs:
        yield same


def _unlike(
    one: RunSide, other: RunSide, left: list[DigestedCall], right: list[DigestedCall]
) -> Iterator[Change]:
    """Pair the calls by what they do: pairs have changed, the others were removed or added."""
    labels = [*map(one.label, left)], [*map(other.label, right)]
    for mine, theirs, equal in blocks(left, right, *labels):
        if equal:
            yield _changed(one, other, mine[0], theirs[0])
        else:
            yield from (Change(kind="removed", one=one.step(seen)) for seen in mine)
            yield from (Change(kind="added", other=other.step(seen)) for seen in theirs)


def _changed(one: RunSide, other: RunSide, left: DigestedCall, right: DigestedCall) -> Change:
    here, there = one.step(left), other.step(right)

    def find() -> list[Difference]:
        found = differences(one.said(here), other.said(there))
        here.let_go()
        there.let_go()
        return found

    return Change(kind="changed", one=here, other=there, find=find)
