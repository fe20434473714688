"""Alignment and comparison of the processors of two exchanges.

Two processors are the same when their ids, iterations and enclosing processors up to the route are
equal. So iterations of a loop and parts of a split stay separate in any order. Several calls of one
step at the same position are matched by their content.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from reenact.diff.sequences import align, pair_up
from reenact.exchange.comparison.differences import Changed, compare_documents, compare_pair, single
from reenact.exchange.comparison.result import Durations, ProcessorChange
from reenact.exchange.model import Change, Processor
from reenact.format.canonical import digest
from reenact.format.json_path import Path, format_pointer, parse_pointer
from reenact.policy.noise import NoiseFilter

__all__ = [
    "ProcessorPair",
    "align_processors",
    "compare_processors",
    "content_of",
]

_SHOWN: Final = 16
"""Maximum number of processors in a path."""

Key = tuple[str, int | None]


class ProcessorPair(msgspec.Struct, frozen=True):
    """``before`` is None for a processor that was added, ``after`` for one that was removed.

    ``moved`` are its places among its neighbours, where it has changed them with others.
    """

    before: Processor | None
    after: Processor | None
    path: str
    moved: tuple[int, int] | None = None


class _Side:
    """Processors of one exchange as a tree. A processor with an invalid parent is at the top."""

    def __init__(self, processors: Sequence[Processor]) -> None:
        self.all = sorted(processors, key=lambda one: one.seq)
        self.below: defaultdict[int, list[int]] = defaultdict(list)
        index_of = {one.seq: index for index, one in enumerate(self.all)}
        for index, one in enumerate(self.all):
            parent = index_of.get(one.parent_seq, -1) if one.parent_seq < one.seq else -1
            self.below[parent].append(index)

    def groups(self, parent: int) -> dict[Key, list[int]]:
        found: dict[Key, list[int]] = {}
        for index in self.below.get(parent, ()):
            one = self.all[index]
            found.setdefault((one.processor_id, one.iteration), []).append(index)
        return found


def align_processors(
    before: Sequence[Processor],
    after: Sequence[Processor],
    content: Callable[[Processor], Hashable],
) -> list[ProcessorPair]:
    """All processors of both, in the order of ``after``, the removed ones where they were.

    ``content`` is a key for what a processor did. Takes time in proportion to the number of
    processors, times its logarithm.
    """
    mine, theirs = _Side(before), _Side(after)
    partner: dict[int, int] = {}
    moved: dict[int, tuple[int, int]] = {}
    waiting = [(-1, -1)]
    while waiting:
        left, right = waiting.pop()
        found = _children(mine, theirs, left, right, content)
        partner.update(found)
        moved.update(_moves(mine, theirs, left, right, found))
        waiting += found
    return _listed(mine, theirs, partner, moved)


def _children(
    mine: _Side,
    theirs: _Side,
    left: int,
    right: int,
    content: Callable[[Processor], Hashable],
) -> list[tuple[int, int]]:
    other = theirs.groups(right)
    found: list[tuple[int, int]] = []
    for key, group in mine.groups(left).items():
        against = other.get(key, [])
        if len(group) == len(against):
            found += zip(group, against, strict=True)
        elif against:  # equal content first, then those between in order
            keys = (lambda at: content(mine.all[at])), (lambda at: content(theirs.all[at]))
            pairs = pair_up(group, against, keys, in_order=True)
            found += ((one, two) for one, two in pairs if one is not None and two is not None)
    return found


def _moves(
    mine: _Side, theirs: _Side, left: int, right: int, found: list[tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    """Return processors in a different order within one iteration.

    Iterations can run in any order.
    """
    if all(one[1] < other[1] for one, other in pairwise(sorted(found))):
        return {}
    partner = dict(found)
    back = {there: here for here, there in found}
    rounds: defaultdict[int | None, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for index in mine.below.get(left, ()):
        if index in partner:
            rounds[mine.all[index].iteration][0].append(index)
    for index in theirs.below.get(right, ()):
        if index in back:
            rounds[theirs.all[index].iteration][1].append(back[index])
    moved: dict[int, tuple[int, int]] = {}
    for one, other in rounds.values():
        place = {index: number for number, index in enumerate(other)}
        for number, there in align(one, other):
            if number is not None and there is None:
                moved[one[number]] = (number, place[one[number]])
    return moved


def _listed(
    mine: _Side, theirs: _Side, partner: dict[int, int], moved: dict[int, tuple[int, int]]
) -> list[ProcessorPair]:
    back = {there: here for here, there in partner.items()}
    gone: defaultdict[int | None, list[int]] = defaultdict(list)
    lost: list[int] = []
    for index in range(len(mine.all)):
        if index not in partner:
            lost.append(index)
        else:
            gone[partner[index]], lost = lost, []
    my_paths, their_paths = _paths(mine), _paths(theirs)
    pairs: list[ProcessorPair] = []
    for there, after in enumerate(theirs.all):
        pairs += [ProcessorPair(mine.all[one], None, my_paths[one]) for one in gone[there]]
        here = back.get(there)
        before = None if here is None else mine.all[here]
        at = None if here is None else moved.get(here)
        pairs.append(ProcessorPair(before, after, their_paths[there], at))
    return pairs + [ProcessorPair(mine.all[one], None, my_paths[one]) for one in lost]


def _paths(side: _Side) -> list[str]:
    """``items/price[3]``: the innermost processors around each, and itself."""
    names: list[tuple[str, ...]] = [()] * len(side.all)
    parent = {child: above for above, children in side.below.items() for child in children}
    for index, one in enumerate(side.all):
        round_ = "" if one.iteration is None else f"[{one.iteration}]"
        above = names[parent[index]] if parent[index] >= 0 else ()
        names[index] = (*above, f"{one.processor_id}{round_}")[-_SHOWN:]
    return ["/".join(name) for name in names]


_REMOVED: Final = {"$removed": True}
"""Marker for a path that a processor removed."""


def content_of(one: Processor) -> str:
    """A key for what a processor did."""
    made = [[change.op, change.path, _left(change)] for change in one.changes]
    return digest([_facts(one), made])


def compare_processors(pair: ProcessorPair, noise: NoiseFilter) -> ProcessorChange:
    """Compare one pair of processors."""
    before, after = pair.before, pair.after
    one = after or before
    assert one is not None
    root = ("processors", one.processor_id)
    found = compare_pair(root, before, after, noise, lambda: _changes(root, pair, noise))
    return ProcessorChange(
        processor_id=one.processor_id,
        iteration=one.iteration,
        path=pair.path,
        state=found.state,
        before=before.seq if before else None,
        after=after.seq if after else None,
        changes=found.changes,
        duration=Durations(
            before=before.duration if before else None, after=after.duration if after else None
        ),
        noise=found.noise,
    )


def _facts(one: Processor) -> dict[str, Any]:
    """Return the comparable facts of a processor, without its payload changes."""
    facts: dict[str, Any] = {"status": one.status, "kind": one.kind}
    if one.branch:
        facts["branch"] = one.branch
    if one.error is not None:
        facts["error"] = msgspec.to_builtins(one.error)
    for name in ("input", "output"):
        value = getattr(one, name)
        if value is not msgspec.UNSET:
            facts[name] = value
    return facts


def _left(change: Change) -> Any:
    return _REMOVED if change.op == "remove" or change.after is msgspec.UNSET else change.after


def _changes(root: Path, pair: ProcessorPair, noise: NoiseFilter) -> list[Changed]:
    before, after = pair.before, pair.after
    assert before is not None
    assert after is not None
    found = compare_documents(root, _facts(before), _facts(after), noise)
    mine = {change.path: _left(change) for change in before.changes}
    theirs = {change.path: _left(change) for change in after.changes}
    for path in dict.fromkeys((*mine, *theirs)):
        place = ("changes", *parse_pointer(path))
        if path in mine and path in theirs:
            inner = compare_documents((*root, *place), mine[path], theirs[path], noise)
            head = format_pointer(place)
            found += (msgspec.structs.replace(one, path=head + one.path) for one in inner)
        else:
            left, right = (side.get(path, msgspec.UNSET) for side in (mine, theirs))
            found.append(single(root, place, left, right, noise))
    if pair.moved is not None:
        found.append(single(root, ("order",), *pair.moved, noise))
    return found
