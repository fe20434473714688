"""Two runs side by side: lane against lane, step against step.

Steps that say the same hold the others in place. Between them a removed step and an added one that
do the same kind of thing are one changed step; the same step in another place has moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from reenact.diff.align import align
from reenact.diff.values import Difference, differences
from reenact.format import lane as lane_names
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction import Redactor
from reenact.views.saying import Speaker
from reenact.views.steps import Step, Steps

__all__ = ["Change", "LanePair", "compare"]

Kind = Literal["changed", "added", "removed", "moved"]


class Change(msgspec.Struct, kw_only=True):
    """``one`` is the step of the first run, ``other`` that of the second; None where it has none."""

    kind: Kind
    one: Step | None = None
    other: Step | None = None
    differences: list[Difference] = []

    @property
    def step(self) -> Step:
        """That of the second run, if it has it."""
        found = self.other or self.one
        assert found is not None
        return found


class LanePair(msgspec.Struct, kw_only=True):
    """A lane of each run; one name is None where that run has no such lane."""

    one: str | None
    other: str | None
    same: int
    changes: list[Change]


def compare(
    one: Steps, other: Steps, rules: Rules | None = None, *, everything: bool = False
) -> Iterator[LanePair]:
    """What differs between two runs, lane by lane, parents first. ``rules`` say what does not count; with
    ``everything`` all that the events hold does.

    Raises :class:`PolicyInvalid` for a rule that cannot be read.
    """
    comparer = Comparer(rules or Rules(), Redactor("none"))
    mine, theirs = _Run(one, comparer, everything), _Run(other, comparer, everything)
    lanes = [_Lane(mine, theirs, names) for names in _paired_lanes(mine, theirs)]
    moved = _moves(mine, theirs, lanes)
    for lane in lanes:
        changes = list(_changes(mine, theirs, lane, moved))
        yield LanePair(one=lane.names[0], other=lane.names[1], same=lane.same, changes=changes)


_Label = tuple[str, ...]


class _Run:
    """One of the two. Steps are known by their seq, and compared by the digest of what they say."""

    def __init__(self, steps: Steps, comparer: Comparer, everything: bool) -> None:
        self.steps = steps.lanes
        self._speaker = Speaker(
            (step for lane in steps.lanes.values() for step in lane), everything=everything
        )
        self._comparer = comparer
        self.key_of = {step.seq: self._key(step) for lane in steps.lanes.values() for step in lane}
        self._children: dict[str, list[str]] = {}
        for lane in sorted(steps.lanes, key=lane_names.order):
            self._children.setdefault(self._above(lane), []).append(lane)

    def _key(self, step: Step) -> str:
        key = self._comparer.key(self._speaker.of(step))
        step.let_go()
        return key

    def keys(self, lane: str) -> tuple[str, ...]:
        """What all steps of ``lane`` say."""
        return tuple(self.key_of[step.seq] for step in self.steps[lane])

    def labels(self, lane: str) -> tuple[_Label, ...]:
        """What all steps of ``lane`` do."""
        return tuple(map(_label, self.steps[lane]))

    def said(self, step: Step) -> object:
        """What is compared of ``step``."""
        return self._comparer.normal(self._speaker.of(step))

    def children(self, lane: str) -> list[str]:
        """The lanes right under ``lane``; under "" those that are under none."""
        return self._children.get(lane, [])

    def _above(self, lane: str) -> str:
        """The nearest lane above in which something was done."""
        while lane := lane.rpartition(".")[0]:
            if lane in self.steps:
                return lane
        return ""


def _label(step: Step) -> _Label:
    """What kind of thing ``step`` does: another prompt or another number is the same kind."""
    if step.kind == "llm":
        return ("llm",)
    request = step.asked.get("request")
    url = request.get("url") if isinstance(request, dict) else None
    path = urlsplit(url).path if isinstance(url, str) else ""
    return (step.kind, step.name, path)


_LaneNames = tuple[str | None, str | None]
_Item = TypeVar("_Item")


def _paired_lanes(one: _Run, other: _Run) -> Iterator[_LaneNames]:
    """Parents before their children. A lane that is new moves the numbers of those after it, so
    siblings are paired by what is done in them."""
    waiting: list[_LaneNames] = [("", "")]
    while waiting:
        left, right = waiting.pop(0)
        if left or right:
            yield left or None, right or None
        mine = one.children(left) if left is not None else []
        theirs = other.children(right) if right is not None else []
        waiting += _siblings(one, other, mine, theirs)


def _siblings(one: _Run, other: _Run, mine: list[str], theirs: list[str]) -> Iterator[_LaneNames]:
    """Those in which the same was said, then those in which the same was done, then in order."""
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


class _Lane:
    """A lane of each run, as parts between which all is the same."""

    def __init__(self, one: _Run, other: _Run, names: _LaneNames) -> None:
        self.names = names
        self.same = 0
        self.parts: list[tuple[list[Step], list[Step]]] = []
        left, right = names
        mine = one.steps[left] if left is not None else []
        theirs = other.steps[right] if right is not None else []
        keys = [one.key_of[step.seq] for step in mine]
        others = [other.key_of[step.seq] for step in theirs]
        for steps, more in _blocks(mine, theirs, keys, others):
            if steps and more and one.key_of[steps[0].seq] == other.key_of[more[0].seq]:
                self.same += 1
            else:
                self.parts.append((steps, more))


def _moves(one: _Run, other: _Run, lanes: list[_Lane]) -> dict[int, Step]:
    """Steps of the first run that the second has elsewhere, by the seq that they have there."""
    removed: defaultdict[str, list[Step]] = defaultdict(list)
    for lane in lanes:
        for steps, _ in lane.parts:
            for step in steps:
                removed[one.key_of[step.seq]].append(step)
    found: dict[int, Step] = {}
    for lane in lanes:
        for _, steps in lane.parts:
            for step in steps:
                before = removed.get(other.key_of[step.seq])
                if before:
                    found[step.seq] = before.pop(0)
    return found


def _changes(one: _Run, other: _Run, lane: _Lane, moved: dict[int, Step]) -> Iterator[Change]:
    gone = {step.seq for step in moved.values()}
    for steps, more in lane.parts:
        left = [step for step in steps if step.seq not in gone]
        right = [step for step in more if step.seq not in moved]
        yield from _unlike(one, other, left, right)
        for step in more:
            if step.seq in moved:
                yield Change(kind="moved", one=moved[step.seq], other=step)


def _unlike(one: _Run, other: _Run, left: list[Step], right: list[Step]) -> Iterator[Change]:
    """Steps that do the same kind of thing have changed, others were removed or added."""
    for index, number in align([*map(_label, left)], [*map(_label, right)]):
        if index is not None and number is not None:
            here, there = left[index], right[number]
            found = differences(one.said(here), other.said(there))
            yield Change(kind="changed", one=here, other=there, differences=found)
        elif index is not None:
            yield Change(kind="removed", one=left[index])
        elif number is not None:
            yield Change(kind="added", other=right[number])
