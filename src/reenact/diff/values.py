"""Differences between two JSON values, each with its path.

Values are equal if their canonical JSON is equal: 1 equals 1.0, True does not equal 1, a tuple
equals a list, and bytes equal only bytes. Lists are aligned at both ends, so one inserted item is
reported as one difference and not as a cascade.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import eq
from typing import Any, Final, Literal

import msgspec

from reenact.diff.sequences import common_ends
from reenact.format.canonical import canonical
from reenact.format.json_path import Path

__all__ = ["OPS", "Difference", "Kind", "differences"]

Kind = Literal["changed", "added", "removed"]
OPS: Final[dict[Kind, Literal["add", "remove", "replace"]]] = {
    "changed": "replace",
    "added": "add",
    "removed": "remove",
}
"""Operations of a JSON patch that make the same difference."""


class Difference(msgspec.Struct, frozen=True):
    """``expected`` is None where something was added, ``observed`` where something was removed.

    An index in ``path`` counts in the observed list; at the end of the path of something that was
    removed, in the expected one. (Where both have an item, it has one index.)
    """

    path: Path
    kind: Kind
    expected: Any
    observed: Any


_Pair = tuple[Path, Any, Any]


def differences(expected: Any, observed: Any, *, limit: int | None = None) -> list[Difference]:
    """All of them, in the order of a walk: keys sorted, indices rising. At most ``limit``.

    Empty exactly when the values are equal. Both are made of what canonical JSON can hold, else
    :class:`ValueRefused`. Takes time in proportion to the size of both, and no stack.
    """
    same = _Numbers()
    found: list[Difference] = []
    waiting: list[Difference | _Pair] = [((), expected, observed)]
    if same.of(expected) == same.of(observed):
        return found
    while waiting and (limit is None or len(found) < limit):
        here = waiting.pop()
        if isinstance(here, Difference):
            found.append(here)
        else:
            waiting += reversed(list(_inside(*here, same)))
    return found


def _inside(path: Path, expected: Any, observed: Any, same: _Numbers) -> Iterator[Any]:
    """Yield the differences one level down, given two different values."""
    if isinstance(expected, dict) and isinstance(observed, dict):
        yield from _members(path, expected, observed, same)
    elif isinstance(expected, (list, tuple)) and isinstance(observed, (list, tuple)):
        yield from _items(path, expected, observed, same)
    else:
        yield Difference(path, "changed", expected, observed)


def _members(
    path: Path, expected: dict[str, Any], observed: dict[str, Any], same: _Numbers
) -> Iterator[Difference | _Pair]:
    for key in sorted(expected.keys() | observed.keys()):
        here = (*path, key)
        if key not in observed:
            yield Difference(here, "removed", expected[key], None)
        elif key not in expected:
            yield Difference(here, "added", None, observed[key])
        elif same.of(expected[key]) != same.of(observed[key]):
            yield here, expected[key], observed[key]


def _items(path: Path, expected: Any, observed: Any, same: _Numbers) -> Iterator[Any]:
    mine, theirs = [*map(same.of, expected)], [*map(same.of, observed)]
    start, end = common_ends(mine, theirs, eq)
    paired = min(len(mine), len(theirs)) - end
    for index in range(start, paired):
        if mine[index] != theirs[index]:
            yield (*path, index), expected[index], observed[index]
    for index in range(paired, len(theirs) - end):
        yield Difference((*path, index), "added", None, observed[index])
    for index in range(paired, len(mine) - end):
        yield Difference((*path, index), "removed", expected[index], None)


class _Numbers:
    """Gives equal values equal numbers, so that comparing any two parts is comparing two numbers.

    Values are known by their identity; the caller keeps them alive.
    """

    def __init__(self) -> None:
        self._number: dict[Any, int] = {}
        self._container: dict[int, int] = {}

    def of(self, value: Any) -> int:
        if not isinstance(value, (dict, list, tuple)):
            return self._given(_leaf(value))
        known = self._container.get(id(value))
        return self._walk(value) if known is None else known

    def _given(self, shape: Any) -> int:
        return self._number.setdefault(shape, len(self._number))

    def _walk(self, value: Any) -> int:
        """Children before their parents, without recursion."""
        waiting = [value]
        while waiting:
            here = waiting[-1]
            inner = here.values() if isinstance(here, dict) else here
            unknown = [one for one in inner if self._is_new(one)]
            if unknown:
                waiting += unknown
            else:
                waiting.pop()
                self._container[id(here)] = self._given(self._shape(here))
        return self._container[id(value)]

    def _is_new(self, value: Any) -> bool:
        return isinstance(value, (dict, list, tuple)) and id(value) not in self._container

    def _shape(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "object", frozenset((key, self.of(item)) for key, item in value.items())
        return "array", tuple(map(self.of, value))


def _leaf(value: Any) -> Any:
    """Something hashable that only equal leaves share. The tag keeps True apart from 1."""
    if value is None or isinstance(value, (bool, str, bytes)):
        return type(value).__name__, value
    if isinstance(value, int):
        return "number", int(value)
    text = canonical(value).decode()
    return ("number", int(text)) if text.lstrip("-").isdigit() else ("fraction", text)
