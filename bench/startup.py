"""The command line from nothing to its end, against an interpreter that does nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import reenact
from bench.measure import Row, Setting, at_most, interleave, ratio
from bench.recordings import make

__all__ = ["ENTRY", "children_cpu", "environment"]

TITLE = "command line"

ENTRY = "import sys; from reenact.cli.main import entry; sys.exit(entry())"
"""What the installed script does."""


def run(setting: Setting) -> Iterator[Row]:
    if find_spec("reenact.cli.main") is None:
        setting.say("skipped: there is no command line yet")
        return
    tiny = setting.folder / "tiny"
    make(tiny, 3)
    environ = environment(setting.folder)
    times = interleave(
        {
            "bare": _child(["-c", "pass"], environ),
            "help": _child(["-c", ENTRY, "--help"], environ),
            "verify": _child(["-c", ENTRY, "verify", str(tiny)], environ),
        },
        max(15, setting.rounds),
    )
    bare = times["bare"]
    yield ratio("reenact --help: / python -c pass", times["help"], bare, at_most(2), clock="wall")
    yield ratio("reenact verify: / python -c pass", times["verify"], bare, at_most(5), clock="wall")
    used = interleave(
        {
            "bare": children_cpu([sys.executable, "-c", "pass"], environ),
            "import": children_cpu([sys.executable, "-c", "import reenact"], environ),
            "run help": children_cpu([sys.executable, "-c", ENTRY, "run", "--help"], environ),
        },
        max(15, setting.rounds),
    )
    bare = used["bare"]
    yield ratio("import reenact: / python -c pass", used["import"], bare, at_most(2))
    yield ratio("reenact run --help: / python -c pass", used["run help"], bare, at_most(5))


def environment(folder: Path) -> dict[str, str]:
    """For children. Compiled modules are kept, as they are in an installation."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    source = str(Path(reenact.__file__).parents[1])
    return {**keep, "PYTHONPATH": source, "PYTHONPYCACHEPREFIX": str(folder / "pycache")}


def _child(arguments: list[str], environment: dict[str, str]) -> Callable[[], float]:
    def run_child() -> float:
        start = perf_counter()
        subprocess.run(
            [sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        return perf_counter() - start

    return run_child


def children_cpu(command: list[str], environment: dict[str, str]) -> Callable[[], float]:
    """Measure the CPU seconds of ``command`` and of all processes that it has waited for."""

    def measure() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return measure
