"""What it costs to make events durable while they are written. On the clock: disks wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.append import new_file, ready_lines, write_raw
from bench.measure import Row, Setting, at_least, interleave, ratio, wall
from bench.record import record, request_events
from reenact.store.log import Log, Syncer

TITLE = "durability"


def run(setting: Setting) -> Iterator[Row]:
    folder = setting.folder
    # Long enough for several group commits.
    lines = ready_lines(1_000, setting.scaled(200_000))
    times = interleave(
        {
            "raw": partial(write_raw, folder, lines, wall),
            "interval": partial(_synced, folder, lines, _write),
            "log": partial(_synced, folder, lines, _append),
        },
        setting.rounds,
    )
    yield ratio(
        "durability interval, 1 KB lines: throughput / raw os.write",
        times["raw"],
        times["interval"],
        at_least(0.5),
        clock="wall",
    )
    yield ratio(
        "durability interval, 1 KB lines, running hash too: throughput / raw os.write",
        times["raw"],
        times["log"],
        clock="wall",
    )
    events = request_events(1_000, setting.scaled(20_000))
    few = events[: setting.scaled(800)]
    times = interleave(
        {
            "none": partial(record, folder, events, durability="none", clock=wall),
            "interval": partial(record, folder, events, durability="interval", clock=wall),
            "event": partial(record, folder, few, durability="event", clock=wall),
        },
        setting.rounds,
    )
    yield ratio(
        "record, 1 KB, durability interval: throughput / durability none",
        times["none"],
        times["interval"],
        clock="wall",
    )
    each = [seconds * len(events) / len(few) for seconds in times["event"]]
    yield ratio(
        "record, 1 KB, durability event: time / durability none", each, times["none"], clock="wall"
    )


def _synced(
    folder: Path, lines: list[bytes], make: Callable[[Path, int], Callable[[bytes], object]]
) -> float:
    path, fd = new_file(folder)
    syncer = Syncer(fd, [])
    append = make(path, fd)

    def step(line: bytes) -> None:
        append(line)
        syncer.touch()

    seconds = wall(step, lines)
    syncer.close()
    os.close(fd)
    path.unlink()
    return seconds


def _write(_path: Path, fd: int) -> Callable[[bytes], object]:
    return partial(os.write, fd)


def _append(path: Path, fd: int) -> Callable[[bytes], object]:
    return Log(fd, path).append
