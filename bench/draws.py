"""The clock in a hot loop: what a reading costs while it is recorded and replayed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from time import thread_time

import reenact
from bench.measure import Row, Setting, at_most, fact, interleave, ratio

TITLE = "draws of the clock"


def run(setting: Setting) -> Iterator[Row]:
    count = setting.scaled(1_000_000)
    kept = setting.folder / "kept"
    _recorded(kept, count)
    times = interleave(
        {
            "bare": lambda: _loop(count),
            "recorded": lambda: _recorded(setting.folder / "hot", count),
            "replayed": lambda: _replayed(kept, count),
        },
        setting.rounds,
    )
    for what in ("recorded", "replayed"):
        each = [
            (drawn - bare) * 1e6 for drawn, bare in zip(times[what], times["bare"], strict=True)
        ]
        limit = at_most(2) if what == "recorded" else None
        yield fact(f"time.time(), {what}, in a hot loop", each, "µs", clock="cpu", limit=limit)
    size = sum(file.stat().st_size for file in kept.rglob("*"))
    yield fact("time.time(), recorded: on disk", [size / count], "B", clock="", limit=at_most(20))
    times = interleave({"bare": lambda: _loop(count), "off": lambda: _off(count)}, setting.rounds)
    yield ratio("time.time() in a session that is off: / bare", times["off"], times["bare"])


def _loop(count: int) -> float:
    """CPU seconds of one reading, the loop included."""
    numbers = range(count)
    start = thread_time()
    for _ in numbers:
        time.time()
    return (thread_time() - start) / count


def _recorded(path: Path, count: int) -> float:
    with reenact.session(capture=path, mode="rewrite", seal=False):
        return _loop(count)


def _replayed(path: Path, count: int) -> float:
    with reenact.session(capture=path, mode="replay", strict=True):
        return _loop(count)


def _off(count: int) -> float:
    with reenact.session(mode="off"):
        return _loop(count)
