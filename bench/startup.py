"""The command line from nothing to its end, against an interpreter that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import reenact
from bench.measure import Row, Setting, at_most, interleave, ratio
from bench.recordings import make

TITLE = "command line"

# What the installed script does.
_ENTRY = "import sys; from reenact.cli.main import entry; sys.exit(entry())"


def run(setting: Setting) -> Iterator[Row]:
    if find_spec("reenact.cli.main") is None:
        setting.say("skipped: there is no command line yet")
        return
    tiny = setting.folder / "tiny"
    make(tiny, 3)
    environment = _environment(setting.folder)
    times = interleave(
        {
            "bare": _child(["-c", "pass"], environment),
            "help": _child(["-c", _ENTRY, "--help"], environment),
            "verify": _child(["-c", _ENTRY, "verify", str(tiny)], environment),
        },
        max(15, setting.rounds),
    )
    bare = times["bare"]
    yield ratio("reenact --help: / python -c pass", times["help"], bare, at_most(2), clock="wall")
    yield ratio("reenact verify: / python -c pass", times["verify"], bare, at_most(5), clock="wall")


def _environment(folder: Path) -> dict[str, str]:
    """Compiled modules are kept, as they are in an installation."""
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
