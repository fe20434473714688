"""Counters of this process, in Prometheus' text format 0.0.4.

Labels come from closed lists (routes, states, status codes), never from request data.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, groupby
from typing import Final

import msgspec

__all__ = [
    "BUCKETS",
    "CONTENT_TYPE",
    "METRICS",
    "Meters",
    "Sample",
    "Seconds",
    "to_text",
]

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends, in seconds."""

_Labels = tuple[tuple[str, str], ...]


class Seconds(msgspec.Struct):
    """Histogram of durations: counts per bucket of :data:`BUCKETS`, and the sum."""

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


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "reenact_http_requests_total": ("counter", "Completed requests."),
    "reenact_http_request_seconds": ("histogram", "Duration of requests."),
    "reenact_exchanges_ingested_total": ("counter", "Exchanges that agents sent."),
    "reenact_replays_ended_total": ("counter", "Replays that ended."),
    "reenact_retention_erased_total": ("counter", "Items that retention has erased."),
    "reenact_replays_open": ("gauge", "Replays that have not ended."),
    "reenact_agents_online": ("gauge", "Agents with a recent heartbeat."),
    "reenact_agents_spooled": ("gauge", "Exchanges that wait in spools of agents that are online."),
    "reenact_commands_pending": ("gauge", "Commands that no agent has acknowledged."),
    "reenact_batches_open": ("gauge", "Batches that have not ended."),
    "reenact_batch_items_waiting": ("gauge", "Exchanges of running batches that wait."),
    "reenact_tenants": ("gauge", "Tenants."),
}
"""All metrics, with type and help text."""

Sample = tuple[str, tuple[tuple[str, str], ...], int]


def to_text(meters: Meters, gauges: Iterable[Sample]) -> str:
    """All that is known, each metric under its heading."""
    samples: list[tuple[str, str]] = []
    for name, labels, number in (*meters.counts(), *gauges):
        samples.append((name, f"{name}{_labels(labels)} {number}"))
    for name, labels, seconds in meters.times():
        ends = [*map("{:g}".format, BUCKETS), "+Inf"]
        for end, count in zip(ends, accumulate(seconds.counts), strict=True):
            samples.append((name, f"{name}_bucket{_labels((*labels, ('le', end)))} {count}"))
        samples.append((name, f"{name}_sum{_labels(labels)} {seconds.total:.6f}"))
        samples.append((name, f"{name}_count{_labels(labels)} {sum(seconds.counts)}"))
    return "".join(_parts(samples))


def _parts(samples: list[tuple[str, str]]) -> Iterator[str]:
    for name, lines in groupby(sorted(samples, key=lambda one: one[0]), key=lambda one: one[0]):
        kind, words = METRICS[name]
        yield f"# HELP {name} {words}\n# TYPE {name} {kind}\n"
        yield from (f"{line}\n" for _, line in lines)


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
