"""Prometheus' text format, version 0.0.4 (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, groupby
from typing import Final

from reenact.server.metrics.meters import BUCKETS, Meters

__all__ = ["CONTENT_TYPE", "METRICS", "Sample", "to_text"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "reenact_http_requests_total": ("counter", "Requests that were answered."),
    "reenact_http_request_seconds": ("histogram", "How long requests took."),
    "reenact_exchanges_ingested_total": ("counter", "Exchanges that agents sent."),
    "reenact_replays_ended_total": ("counter", "Replays that ended."),
    "reenact_retention_erased_total": ("counter", "What retention has erased."),
    "reenact_replays_open": ("gauge", "Replays that have not ended."),
    "reenact_agents_online": ("gauge", "Agents that were heard lately."),
    "reenact_agents_spooled": ("gauge", "Exchanges that wait in spools of agents that are online."),
    "reenact_commands_pending": ("gauge", "Commands that no agent has acknowledged."),
    "reenact_batches_open": ("gauge", "Batches that have not ended."),
    "reenact_batch_items_waiting": ("gauge", "Exchanges of running batches that wait."),
    "reenact_tenants": ("gauge", "Tenants."),
}
"""Every metric there is: its type, and what it says."""

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
