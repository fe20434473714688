"""What a process counts since it started: numbers by names, without anything that came in.

Labels are from closed lists (routes, states, codes of answers), never what somebody sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import msgspec

__all__ = ["BUCKETS", "Meters", "Seconds"]

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends, in seconds."""

_Labels = tuple[tuple[str, str], ...]


class Seconds(msgspec.Struct):
    """How long something took: how often it was in each of :data:`BUCKETS` and beyond them, and the
    sum."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        at = next((at for at, end in enumerate(BUCKETS) if seconds <= end), len(BUCKETS))
        self.counts[at] += 1
        self.total += seconds


class Meters:
    """For every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, _Labels], int] = {}
        self._times: dict[tuple[str, _Labels], Seconds] = {}

    def add(self, name: str, number: int = 1, **labels: str) -> None:
        """Count ``number`` more."""
        key = name, tuple(labels.items())
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + number

    def took(self, name: str, seconds: float, **labels: str) -> None:
        key = name, tuple(labels.items())
        with self._lock:
            self._times.setdefault(key, Seconds()).add(seconds)

    def counts(self) -> Iterator[tuple[str, _Labels, int]]:
        """As they are now, by name."""
        with self._lock:
            found = sorted(self._counts.items())
        yield from ((name, labels, number) for (name, labels), number in found)

    def times(self) -> Iterator[tuple[str, _Labels, Seconds]]:
        with self._lock:
            found = [
                (key, Seconds(list(one.counts), one.total)) for key, one in self._times.items()
            ]
        for (name, labels), seconds in sorted(found, key=lambda item: item[0]):
            yield name, labels, seconds
