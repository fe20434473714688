"""Timing things side by side, and what a measured row looks like."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, thread_time
from typing import Any

__all__ = [
    "Limit",
    "Row",
    "Setting",
    "at_least",
    "at_most",
    "cpu",
    "fact",
    "interleave",
    "ratio",
    "wall",
    "whole_cpu",
]

Case = Callable[[], float]
"""Does its work once and returns the seconds it took, by a clock of its choice."""


@dataclass(frozen=True, slots=True)
class Setting:
    """``folder`` is empty and removed afterwards; ``quick`` asks for less work, not other work."""

    folder: Path
    quick: bool
    say: Callable[[str], None]

    @property
    def rounds(self) -> int:
        return 5 if self.quick else 9

    def scaled(self, count: int) -> int:
        """How often to repeat something that a full run repeats ``count`` times."""
        return max(1, count // 4) if self.quick else count


@dataclass(frozen=True, slots=True)
class Limit:
    """What the specification promises."""

    value: float
    most: bool

    def holds(self, measured: float) -> bool:
        return measured <= self.value if self.most else measured >= self.value

    def __str__(self) -> str:
        return f"{'≤' if self.most else '≥'} {self.value:g}"


def at_most(value: float) -> Limit:
    return Limit(value, most=True)


def at_least(value: float) -> Limit:
    return Limit(value, most=False)


@dataclass(frozen=True, slots=True)
class Row:
    """``low`` and ``high`` enclose the middle half of the rounds. No limit: for information."""

    name: str
    value: float
    unit: str
    low: float
    high: float
    limit: Limit | None
    clock: str

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return "–"
        return "ok" if self.limit.holds(self.value) else "MISS"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "low": self.low,
            "high": self.high,
            "target": str(self.limit) if self.limit else None,
            "verdict": self.verdict,
            "clock": self.clock,
        }


def interleave(cases: Mapping[str, Case], rounds: int) -> dict[str, list[float]]:
    """Every case once per round, after one round that is thrown away.

    The order turns round each time, so that a machine that slows down favours nobody.
    """
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        order = list(cases) if number % 2 else list(cases)[::-1]
        for name in order:
            gc.collect()
            seconds = cases[name]()
            if number:
                times[name].append(seconds)
    return times


def ratio(
    name: str,
    over: Sequence[float],
    under: Sequence[float],
    limit: Limit | None = None,
    *,
    clock: str = "cpu",
) -> Row:
    """``over`` against ``under``, round by round."""
    return _row(
        name, [a / b for a, b in zip(over, under, strict=True)], "×", limit=limit, clock=clock
    )


def fact(
    name: str,
    values: Sequence[float],
    unit: str,
    limit: Limit | None = None,
    *,
    clock: str = "",
) -> Row:
    """Something that is not a ratio."""
    return _row(name, values, unit, limit=limit, clock=clock)


def _row(name: str, values: Sequence[float], unit: str, *, limit: Limit | None, clock: str) -> Row:
    low, high = values[0], values[-1]
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Row(name, statistics.median(values), unit, low, high, limit, clock)


def cpu(work: Callable[[Any], Any], items: Iterable[Any]) -> float:
    """CPU seconds of this thread, kernel included, for ``work`` on every item."""
    start = thread_time()
    for item in items:
        work(item)
    return thread_time() - start


def wall(work: Callable[[Any], Any], items: Iterable[Any]) -> float:
    """Seconds on the clock for ``work`` on every item."""
    start = perf_counter()
    for item in items:
        work(item)
    return perf_counter() - start


def whole_cpu(work: Callable[[], Any]) -> float:
    """CPU seconds of the whole process, threads included, for ``work``."""
    start = process_time()
    work()
    return process_time() - start
