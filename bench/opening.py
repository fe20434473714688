"""A long capture: how soon its first event is there, and what an event costs in memory."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from bench.measure import Row, Setting, at_most, fact
from bench.recordings import make
from reenact import open_recording

TITLE = "first event and index of a long capture"


def run(setting: Setting) -> Iterator[Row]:
    count = 100_000 if setting.quick else 1_000_000
    path = setting.folder / "long"
    start = perf_counter()
    make(path, count)
    setting.say(f"made a capture of {count:,} events in {perf_counter() - start:.0f} s")
    opened, served = zip(*(_first(path) for _ in range(setting.rounds)), strict=True)
    yield fact(f"first event of {count:,}, after opening", served, "ms", at_most(1), clock="wall")
    yield fact(f"opening {count:,} events (verifies all)", opened, "ms", clock="wall")
    yield fact(f"index of {count:,} events, all read", [_index(path)], "B/event", at_most(150))
    shutil.rmtree(path)


def _first(path: Path) -> tuple[float, float]:
    begin = perf_counter()
    with open_recording(path) as source:
        ready = perf_counter()
        event = source.next()
        done = perf_counter()
    if event is None:
        raise AssertionError("no event was served")
    return (ready - begin) * 1000, (done - ready) * 1000


def _index(path: Path) -> float:
    """Bytes that reading every event leaves behind in memory, per event."""
    with open_recording(path) as source:
        source.next()
        tracemalloc.start()
        count = sum(1 for _ in iter(source.next, None))
        left, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return left / count
