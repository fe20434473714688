"""What is wanted besides words: the kind of call, the model, the time … as conditions in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from reenact.errors import UsageError

__all__ = ["Wishes", "conditions"]

Condition = tuple[str, tuple[object, ...]]
"""SQL about ``calls`` and ``recordings`` (as ``runs``), and its values."""

_FAILED_RUN = (
    "EXISTS (SELECT 1 FROM calls AS ends WHERE ends.recording = runs.id "
    "AND ends.type = 'run_end' AND ends.failed)"
)


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """Those of one kind are alternatives, those of several must all hold. Names may have ``*``;
    times are milliseconds, ``until`` is not included. ``diverged`` may be empty: any code."""

    types: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    failed: bool = False
    diverged: str | None = None
    since: int | None = None
    until: int | None = None


def conditions(wishes: Wishes) -> Iterator[Condition]:
    """All of them hold for what is wanted. Raises :class:`UsageError` for a status that is none."""
    yield from _any(wishes.types, _named("calls.kind", "calls.type"))
    yield from _any(wishes.models, _named("calls.model"))
    yield from _any(wishes.providers, _named("calls.provider"))
    yield from _any(wishes.tools, lambda name: _both("calls.kind = 'tool'", "calls.name", name))
    yield from _any(wishes.urls, _containing)
    yield from _any(wishes.hosts, _named("calls.host"))
    yield from _any(wishes.methods, _named("calls.method"))
    yield from _any(wishes.statuses, _status)
    yield from _any(wishes.boundaries, _boundary)
    yield from _any(wishes.lanes, _lane)
    yield from _any(wishes.runs, _run)
    if wishes.failed:
        yield "calls.failed", ()
    if wishes.diverged is not None:
        yield from _any([wishes.diverged or "*"], _named("calls.diverged"))
        yield "calls.diverged <> ''", ()
    if wishes.since is not None:
        yield "calls.ts >= ?", (wishes.since,)
    if wishes.until is not None:
        yield "calls.ts < ?", (wishes.until,)


def _any(values: Iterable[str], condition: Callable[[str], Condition]) -> Iterator[Condition]:
    found: list[Condition] = [condition(value) for value in values]
    if found:
        words = " OR ".join(words for words, _ in found)
        yield f"({words})", tuple(item for _, items in found for item in items)


def _named(*columns: str) -> Callable[[str], Condition]:
    """Case does not count, and ``*`` stands for anything."""

    def condition(name: str) -> Condition:
        words = " OR ".join(f"{column} LIKE ? ESCAPE '!'" for column in columns)
        return words, (_pattern(name),) * len(columns)

    return condition


def _pattern(name: str) -> str:
    return re.sub(r"([!%_])", r"!\1", name).replace("*", "%")


def _both(first: str, column: str, name: str) -> Condition:
    return f"({first} AND {column} LIKE ? ESCAPE '!')", (_pattern(name),)


def _containing(text: str) -> Condition:
    return "calls.url LIKE ? ESCAPE '!'", (f"%{_pattern(text)}%",)


def _status(text: str) -> Condition:
    """``404``, ``4xx``; of processes and runs, the exit code."""
    if re.fullmatch(r"[1-9]xx", text.lower()):
        first = int(text[0]) * 100
        return "calls.status BETWEEN ? AND ?", (first, first + 99)
    if not re.fullmatch(r"-?\d{1,9}", text):
        raise UsageError(f"{text!r} is no status", hint="404, 5xx; for processes the exit code")
    return "(calls.status = ? AND (calls.host <> '' OR calls.kind IN ('process', 'run_end')))", (
        int(text),
    )


def _boundary(name: str) -> Condition:
    """``net.fetch``, ``process.exec`` …, as policies call them, or a function of the program's."""
    from reenact.engine.call import SOURCES  # which takes its time, and is seldom asked for

    kind = "tool" if name == "tool.call" else SOURCES.get(name, name)
    return "(calls.kind = ? OR calls.name = ?)", (kind, name)


def _lane(name: str) -> Condition:
    """With everything under it."""
    return "(calls.lane = ? OR calls.lane LIKE ? ESCAPE '!')", (name, f"{_pattern(name)}.%")


def _run(status: str) -> Condition:
    """Of the recording (``ok``, ``error``, ``recovered``, ``unfinished``); or ``failed``: the
    program did."""
    if status == "failed":
        return _FAILED_RUN, ()
    return "runs.status = ?", (status,)
