"""Runs of draws: consecutive clock readings and random values of a program, stored as one event.

A hot loop that reads the clock a million times must not become a million events. The draws of a run
are columns, one per requested function, and the order of the requests. A column of numbers is its
first number and the steps between consecutive numbers. The step between two floats is the
difference of their bit patterns, which for a clock is a small and exact integer.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final, Literal

import msgspec

from reenact.errors import ValueRefused
from reenact.format.event import Data

__all__ = [
    "CHDIR",
    "LONGEST_RUN",
    "MOST_NAMES",
    "Mutation",
    "Name",
    "Run",
    "dump_aside",
    "dump_reads",
    "dump_run",
    "load_aside",
    "load_run",
    "mutation_of",
    "values_of",
]

LONGEST_RUN: Final = 2048
"""Draws in one event, at most."""

MOST_NAMES: Final = 36
"""Different things in one run, at most: a turn is one digit or letter."""

Name = str
"""Source and function of a draw: ``clock time.time``."""

Mutation = Literal["", "env_read", "cwd_change"]
"""The type of the ``state_mutation`` event that a draw is written as; empty for any other draw."""

CHDIR: Final = "os.chdir"
"""With a folder behind it: the program has gone there."""

_ENV = "env "
_GOES = f"{_ENV}{CHDIR} "
_ENVIRON = "os.environ"
_ALL = f"{_ENV}{_ENVIRON}"
"""The names of all variables."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_VALUES = frozenset({"values", "first", "steps", "columns"})
_EXACT = 1 << 53
_FLOAT, _BITS = struct.Struct("<d"), struct.Struct("<q")


class Run(msgspec.Struct):
    """Draws in their order: ``turns`` has the number of the name for each of them."""

    names: list[Name]
    turns: Sequence[int]
    columns: list[list[Any]]


def dump_run(run: Run) -> Data:
    """The fields that keep ``run``: ``source`` and ``key`` of its first draw, and the values."""
    source, _, key = run.names[run.turns[0]].partition(" ")
    data: Data = {"source": source, "key": key}
    if len(run.turns) == 1:
        return {**data, "value": run.columns[0][0]}
    data["count"] = len(run.turns)
    columns = [_dump_column(column) for column in run.columns]
    if len(columns) == 1:
        return data | columns[0]
    turns = "".join([_DIGITS[turn] for turn in run.turns])
    return {**data, "names": run.names, "turns": turns, "columns": columns}


@lru_cache(maxsize=4096)  # a name may have a path in it
def mutation_of(name: Name) -> Mutation:
    """Return the type of the state mutation for a draw of ``name``. Other facts of the host have a
    dot in their key."""
    if not name.startswith(_ENV):
        return ""
    if name.startswith(_GOES):
        return "cwd_change"
    return "env_read" if name == _ALL or "." not in name else ""


def dump_aside(run: Run) -> Data:
    """Return the event fields for ``run``, drawn aside. A state mutation has ``type`` and ``details``,
    and no other copy of its values; each of its names was drawn once."""
    kind = mutation_of(run.names[0])
    if not kind:
        return dump_run(run)
    if kind == "cwd_change":
        return {"type": kind, "details": {"path": run.names[0].removeprefix(_GOES)}}
    drawn = zip(run.names, run.columns, strict=True)
    return dump_reads([(name, column[0]) for name, column in drawn])


def dump_reads(drawn: Sequence[tuple[Name, Any]]) -> Data:
    """:func:`dump_aside` for draws whose mutation is ``env_read``."""
    variables = {name[len(_ENV) :]: value for name, value in drawn}
    details: Data = {}
    if _ENVIRON in variables:
        details["names"] = variables.pop(_ENVIRON)
    if variables:
        details["variables"] = variables
    return {"type": "env_read", "details": details}


def load_aside(data: Data) -> Run:
    """The run that :func:`dump_aside` was given; empty for a state mutation that is none of ours.
    Raises :class:`ValueRefused` for what no run makes."""
    if "type" not in data:
        return load_run(data)
    details = data.get("details")
    found: dict[Name, Any] = {}
    if isinstance(details, dict) and data["type"] == "cwd_change":
        found[f"{_GOES}{details.get('path')}"] = None
    elif isinstance(details, dict) and data["type"] == "env_read":
        variables = details.get("variables", {})
        if isinstance(variables, dict):
            found = {f"{_ENV}{name}": item for name, item in variables.items()}
        if isinstance(details.get("names"), list):
            found[_ALL] = details["names"]
    return Run(list(found), range(len(found)), [[item] for item in found.values()])


def values_of(data: Data) -> Any:
    """Return the part of :func:`dump_run` that contains the values, without the requests."""
    if "value" in data:
        return data["value"]
    return {name: data[name] for name in _VALUES & data.keys()}


def _dump_column(values: list[Any]) -> Data:
    steps = _steps(values)
    return {"values": values} if steps is None else {"first": values[0], "steps": steps}


def _steps(values: list[Any]) -> list[int] | None:
    kinds = set(map(type, values))
    if kinds == {float}:
        numbers, smaller = array("q", array("d", values).tobytes()).tolist(), 20
    elif kinds == {int}:
        numbers, smaller = values, 8
    else:
        return None
    # Chance has no small steps: its numbers are shorter, and easier to read, as they are.
    limit = min(_EXACT, max(map(abs, numbers)) >> smaller)
    steps = [after - before for before, after in pairwise(numbers)]
    return steps if steps and -limit < min(steps) and max(steps) < limit else None


def _bits(value: float) -> int:
    found: int = _BITS.unpack(_FLOAT.pack(value))[0]
    return found


def load_run(data: Data) -> Run:
    """The run that ``data`` was made of. Raises :class:`ValueRefused` for what no run makes."""
    try:
        return _load(data)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, struct.error) as error:
        raise ValueRefused(f"not a run of draws: {error!r}", "$.data") from None


def _load(data: Data) -> Run:
    first = f"{_text(data['source'])} {_text(data['key'])}"
    if "count" not in data:
        return Run([first], [0], [[data.get("value")]])
    count = data["count"]
    if type(count) is not int or not 1 < count <= LONGEST_RUN:
        raise ValueError(f"{count!r} draws")
    if "turns" not in data:
        return _checked(Run([first], [0] * count, [_load_column(data)]), count)
    names = [_text(name) for name in data["names"]]
    turns = [_DIGITS.index(turn) for turn in data["turns"]]
    return _checked(Run(names, turns, [_load_column(column) for column in data["columns"]]), count)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no name")
    return value


def _load_column(data: Data) -> list[Any]:
    if "steps" not in data:
        return list(data["values"])
    first, steps = data["first"], data["steps"]
    if type(first) is float:
        bits = array("q", accumulate(steps, initial=_bits(first)))
        return array("d", bits.tobytes()).tolist()
    return list(accumulate(steps, initial=first))


def _checked(run: Run, count: int) -> Run:
    asked = [0] * len(run.names)
    for turn in run.turns:
        asked[turn] += 1
    if len(run.turns) != count or asked != [len(column) for column in run.columns]:
        raise ValueError("it has more or fewer values than draws")
    return run
