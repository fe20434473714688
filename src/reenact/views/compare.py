"""Comparison of two runs: lane by lane, call by call, and its JSON form.

Lanes and calls of both runs are paired by their content, and between equal ones by what they do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from reenact.diff.sequences import Pair, align, common_ends, pair_up
from reenact.diff.values import Difference, differences
from reenact.format.canonical import decode, stored
from reenact.format.event import ROOT_LANE, lane_order
from reenact.format.json_path import normalised_path
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction.redactor import Redactor
from reenact.store.source import SeekableSource
from reenact.views.call_digests import DigestedCall, DigestReader
from reenact.views.content import ContentReader
from reenact.views.recorded_calls import RecordedCall

__all__ = ["KINDS", "VERSION", "Change", "Comparison", "LanePair", "Same", "as_json", "counts"]

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


# Alignment

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


def _align_calls(
    one: RunSide, other: RunSide, mine: list[DigestedCall], theirs: list[DigestedCall]
) -> Iterator[Pair]:
    """Align calls like :func:`align`. Keys are computed only between the common ends."""
    start, end = common_ends(mine, theirs, lambda left, right: _are_same(one, other, left, right))
    yield from ((index, index) for index in range(start))
    stop, stop_other = len(mine) - end, len(theirs) - end
    keys = [*map(one.key, mine[start:stop])]
    others = [*map(other.key, theirs[start:stop_other])]
    for left, right in align(keys, others):
        yield None if left is None else left + start, None if right is None else right + start
    yield from ((stop + index, stop_other + index) for index in range(end))


LaneNames = tuple[str | None, str | None]


def _pair_lanes(one: RunSide, other: RunSide) -> Iterator[LaneNames]:
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

    start, end = (0, 0) if len(mine) == len(theirs) == 1 else common_ends(mine, theirs, same)
    yield from zip(mine[:start], theirs[:start], strict=True)
    between, others = mine[start : len(mine) - end], theirs[start : len(theirs) - end]
    if min(len(between), len(others)) == 0 or len(between) == len(others) == 1:
        yield from zip_longest(between, others)
    else:
        by = (one.keys, other.keys), (one.labels, other.labels)
        yield from pair_up(between, others, *by, in_order=True)
    yield from zip(mine[len(mine) - end :], theirs[len(theirs) - end :], strict=True)


# Comparison


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
        lanes = [_Lane(mine, theirs, names) for names in _pair_lanes(mine, theirs)]
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
        for index, number in _align_calls(one, other, mine, theirs):
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
    for mine, theirs in pair_up(left, right, (one.label, other.label)):
        if mine is not None and theirs is not None:
            yield _changed(one, other, mine, theirs)
        elif mine is not None:
            yield Change(kind="removed", one=one.step(mine))
        elif theirs is not None:
            yield Change(kind="added", other=other.step(theirs))


def _changed(one: RunSide, other: RunSide, left: DigestedCall, right: DigestedCall) -> Change:
    here, there = one.step(left), other.step(right)

    def find() -> list[Difference]:
        found = differences(one.said(here), other.said(there))
        here.let_go()
        there.let_go()
        return found

    return Change(kind="changed", one=here, other=there, find=find)


# JSON

VERSION = 1
KINDS = ("changed", "added", "removed", "moved")


def counts(lanes: Iterable[LanePair]) -> Counter[str]:
    """Count the steps by result: ``same``, ``changed``, ``added``, ``removed``, ``moved``."""
    found: Counter[str] = Counter()
    for lane in lanes:
        found["same"] += lane.same
        found.update(change.kind for change in lane.changes)
    return found


def as_json(lane: LanePair) -> dict[str, Any]:
    """Return a lane with all its differences."""
    return {
        "one": lane.one,
        "other": lane.other,
        "same": lane.same,
        "changes": [_change(change) for change in lane.changes],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "one": _step(change.one),
        "other": _step(change.other),
        "differences": [_difference(one) for one in change.differences],
    }


def _step(step: RecordedCall | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {"seq": step.seq, "lane": step.lane, "kind": step.kind, "name": step.name}


def _difference(found: Difference) -> dict[str, Any]:
    # Bytes become what they are on disk.
    values = decode(stored({"one": found.expected, "other": found.observed}))
    return {"path": normalised_path(found.path), "kind": found.kind, **values}
