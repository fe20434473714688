"""A process that is started and waited for: bare, recorded, and stood in for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import reenact
from bench.measure import Row, Setting, interleave, ratio
from reenact._system import monotonic

TITLE = "processes"


def run(setting: Setting) -> Iterator[Row]:
    count = setting.scaled(200)
    kept = setting.folder / "kept"
    _recorded(kept, count)
    times = interleave(
        {
            "bare": lambda: _loop(count),
            "record": lambda: _recorded(setting.folder / "run", count),
            "replay": lambda: _replayed(kept, count),
        },
        setting.rounds,
    )
    for what in ("record", "replay"):
        yield ratio(f"process, {what}: / bare", times[what], times["bare"], clock="wall")


def _loop(count: int) -> float:
    """Seconds of one process that says nothing."""
    start = monotonic()
    for _ in range(count):
        subprocess.run(["true"], check=True)
    return (monotonic() - start) / count


def _recorded(path: Path, count: int) -> float:
    with reenact.session(capture=path, mode="rewrite", seal=False):
        return _loop(count)


def _replayed(path: Path, count: int) -> float:
    with reenact.session(capture=path, mode="replay", strict=True):
        return _loop(count)
