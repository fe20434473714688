"""A ready line appended with its running hash, against the bare system call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.measure import Row, Setting, at_most, cpu, interleave, ratio
from reenact.store.log import Log

TITLE = "append with running hash"


def run(setting: Setting) -> Iterator[Row]:
    for label, size, count, limit in (("1 KB", 1_000, 20_000, 2.5), ("10 KB", 10_000, 4_000, None)):
        lines = ready_lines(size, setting.scaled(count))
        times = interleave(
            {
                "log": partial(_append, setting.folder, lines),
                "raw": partial(write_raw, setting.folder, lines, cpu),
            },
            setting.rounds,
        )
        yield ratio(
            f"append, {label}: / raw os.write",
            times["log"],
            times["raw"],
            at_most(limit) if limit else None,
        )


def ready_lines(size: int, count: int) -> list[bytes]:
    """Lines of ``size`` bytes, all different."""
    return [(b'{"seq":%d,"data":"' % n).ljust(size - 3, b"x") + b'"}\n' for n in range(count)]


def write_raw(folder: Path, lines: list[bytes], clock: Callable[..., float]) -> float:
    """Time for one ``os.write`` per line to a new file opened for appending."""
    path, fd = new_file(folder)
    seconds = clock(lambda line: os.write(fd, line), lines)
    os.close(fd)
    path.unlink()
    return seconds


def _append(folder: Path, lines: list[bytes]) -> float:
    path, fd = new_file(folder)
    log = Log(fd, path)
    seconds = cpu(lambda line: log.append(line), lines)
    log.close()
    path.unlink()
    return seconds


def new_file(folder: Path) -> tuple[Path, int]:
    path = folder / "lines"
    return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC)
