"""The places in which two documents differ, each marked as noise or not."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import msgspec

from reenact.diff.values import Difference, differences
from reenact.format.canonical import digest
from reenact.format.json_path import Path, format_pointer
from reenact.policy.noise import NoiseFilter, NoiseRule

__all__ = ["Changed", "PairChange", "State", "compare_documents", "compare_pair", "single"]

_ALWAYS: Final = NoiseFilter(
    (
        NoiseRule("/start/headers/traceparent"),
        NoiseRule("/start/headers/tracestate"),
        NoiseRule("/result/headers/date"),
        NoiseRule("/result/headers/traceparent"),
    )
)
"""Ids and times that are new in every exchange. Their differences are not even listed."""
_LENGTH: Final = "/headers/content-length"
_BODY: Final = re.compile("/body/")


class Changed(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One difference. ``path`` is a JSON pointer inside what was compared."""

    op: Literal["add", "remove", "replace"]
    path: str
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET
    noise: bool = False


def compare_documents(root: Path, before: Any, after: Any, noise: NoiseFilter) -> list[Changed]:
    """Return all differences, in the order of a walk. ``root`` is the path of both in the rules.

    A changed ``content-length`` is left out when the body changed as well."""
    found: list[Changed] = []
    if noise.has_unordered(root[0]):
        after, moved = _in_order(root, before, after, noise)
        found = [_reordered(place[len(root) :], *lists) for place, lists in moved.items()]
    for one in differences(before, after):
        known = _changed(root, one, noise)
        if known is not None:
            found.append(known)
    return _without_lengths(found)


def _without_lengths(found: list[Changed]) -> list[Changed]:
    """Leave out each replaced ``content-length`` whose body is also among the differences."""
    owners = {
        f"{one.path}/"[: at.start()] for one in found for at in _BODY.finditer(f"{one.path}/")
    }

    def follows(one: Changed) -> bool:
        length = one.op == "replace" and one.path.lower().endswith(_LENGTH)
        return length and one.path[: -len(_LENGTH)] in owners

    return [one for one in found if not follows(one)]


def single(root: Path, place: Path, before: Any, after: Any, noise: NoiseFilter) -> Changed:
    """One difference that is known already. A side that has nothing there is ``UNSET``."""
    op: Literal["add", "remove", "replace"] = "replace"
    if before is msgspec.UNSET:
        op = "add"
    elif after is msgspec.UNSET:
        op = "remove"
    return Changed(
        op=op,
        path=format_pointer(place),
        before=before,
        after=after,
        noise=noise.about((*root, *place), before, after),
    )


def _changed(root: Path, one: Difference, noise: NoiseFilter) -> Changed | None:
    before = msgspec.UNSET if one.kind == "added" else one.expected
    after = msgspec.UNSET if one.kind == "removed" else one.observed
    if _ALWAYS.about((*root, *one.path), before, after):
        return None
    return single(root, one.path, before, after, noise)


def _reordered(place: Path, before: Any, after: Any) -> Changed:
    return Changed(op="replace", path=format_pointer(place), before=before, after=after, noise=True)


_Moved = dict[Path, tuple[Any, Any]]


def _in_order(root: Path, before: Any, after: Any, noise: NoiseFilter) -> tuple[Any, _Moved]:
    """Return ``after`` with its unordered lists in the order of ``before``, and the original
    lists."""
    moved: _Moved = {}
    return _ordered(root, before, after, noise, moved), moved


def _ordered(place: Path, before: Any, after: Any, noise: NoiseFilter, moved: _Moved) -> Any:
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            key: _ordered((*place, key), before[key], item, noise, moved) if key in before else item
            for key, item in after.items()
        }
    if not (isinstance(before, (list, tuple)) and isinstance(after, (list, tuple))):
        return after
    if noise.is_unordered(place):
        arranged = _arranged(place, before, after, noise)
        if arranged != list(range(len(after))):
            moved[place] = (before, after)
            after = [after[index] for index in arranged]
    both = zip(before, after, strict=False)
    items = [
        _ordered((*place, index), one, other, noise, moved)
        for index, (one, other) in enumerate(both)
    ]
    return [*items, *after[len(items) :]]


def _arranged(place: Path, before: Any, after: Any, noise: NoiseFilter) -> list[int]:
    """Indices of ``after``: items that are alike stand where their likes do, the others fill up."""
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    for index, key in reversed(list(enumerate(_keys(place, after, noise)))):
        waiting[key].append(index)
    chosen = [
        waiting[key].pop() if waiting.get(key) else None for key in _keys(place, before, noise)
    ]
    rest = iter(sorted(index for indices in waiting.values() for index in indices))
    found = [next(rest, None) if index is None else index for index in chosen]
    return [index for index in (*found, *rest) if index is not None]


def _keys(place: Path, items: Any, noise: NoiseFilter) -> Iterator[str]:
    for item in items:
        # One step for all of them: a rule about one index makes no sense where order has none.
        yield digest(noise.strip(item, path=(*place, "*")))


State = Literal["same", "changed", "added", "removed"]


class PairChange(msgspec.Struct, frozen=True):
    """Comparison of two steps or calls that belong together. ``noise``: only noise differs."""

    state: State
    changes: tuple[Changed, ...]
    noise: bool


def compare_pair(
    root: Path, before: Any, after: Any, noise: NoiseFilter, find: Callable[[], list[Changed]]
) -> PairChange:
    """Compare a pair of which one side can be None; ``find`` returns its differences."""
    if before is None or after is None:
        whole = noise.about(root, msgspec.UNSET, msgspec.UNSET)
        return PairChange("added" if before is None else "removed", (), whole)
    changes = tuple(find())
    only_noise = bool(changes) and all(change.noise for change in changes)
    return PairChange("changed" if changes else "same", changes, only_noise)
