"""A program that does nothing under ``reenact run``, against the same program by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import reenact
from bench.measure import Row, Setting, at_most, fact, interleave, ratio
from bench.startup import ENTRY, children_cpu, environment
from reenact.runs.plan import INJECT

TITLE = "a program under reenact run"

_USED = "import resource; used = resource.getrusage(0); print(used.ru_utime + used.ru_stime)"
"""What a process has used; not asked of a clock, because that would be recorded."""

_PASS = [sys.executable, "-c", "pass"]
_CPU = [sys.executable, "-c", _USED]


def run(setting: Setting) -> Iterator[Row]:
    environ = environment(setting.folder)
    path = setting.folder / "nothing"
    with reenact.session(capture=path, mode="record", seal=False):
        pass
    replay = [sys.executable, "-c", ENTRY, "run", "-q", "--replay", str(path), "--"]
    idle = {**environ, "PYTHONPATH": os.pathsep.join([INJECT, environ["PYTHONPATH"]])}
    captures = _captures(setting.folder)
    times = interleave(
        {
            "bare": _wall(_PASS, environ),
            "idle": _wall(_PASS, idle),
            "replay": _wall([*replay, *_PASS], environ),
            "capture": lambda: _wall([*next(captures), *_PASS], environ)(),
            "bare child": _own(_CPU, environ),
            "replayed child": _own([*replay, *_CPU], environ),
        },
        max(15, setting.rounds),
    )
    bare = times["bare"]
    name = "reenact run --replay -- python -c pass: / python -c pass"
    yield ratio(name, times["replay"], bare, clock="wall")
    name = "reenact run --capture -- python -c pass: / python -c pass"
    yield ratio(name, times["capture"], bare, clock="wall")
    used = interleave(
        {
            "bare": children_cpu(_PASS, environ),
            "replay": children_cpu([*replay, *_PASS], environ),
            "capture": lambda: children_cpu([*next(captures), *_PASS], environ)(),
        },
        max(15, setting.rounds),
    )
    for mode in ("replay", "capture"):
        name = f"reenact run --{mode} -- python -c pass: / python -c pass, with child processes"
        yield ratio(name, used[mode], used["bare"], at_most(10))
    added = _added(times["replayed child"], times["bare child"])
    name = "reenact run --replay: added to the program's process before its first line"
    yield fact(name, added, "ms", at_most(60), clock="cpu")
    name = "python -c pass where the injection is inactive: / python -c pass"
    yield ratio(name, times["idle"], bare, at_most(1.1), clock="wall")


def _captures(folder: Path) -> Iterator[list[str]]:
    number = 0
    while True:
        number += 1
        place = str(folder / f"capture-{number}")
        yield [sys.executable, "-c", ENTRY, "run", "-q", "--capture", place, "--"]


def _wall(command: list[str], environ: dict[str, str]) -> Callable[[], float]:
    def measure() -> float:
        start = perf_counter()
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
        return perf_counter() - start

    return measure


def _own(command: list[str], environ: dict[str, str]) -> Callable[[], float]:
    """What the program says about itself."""

    def measure() -> float:
        done = subprocess.run(command, env=environ, check=True, capture_output=True)
        return float(done.stdout)

    return measure


def _added(over: list[float], under: list[float]) -> list[float]:
    return [(more - less) * 1e3 for more, less in zip(over, under, strict=True)]
