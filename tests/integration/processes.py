"""Real child processes, and the pipe on which they say what they have done."""

from __future__ import annotations

import contextlib
import os
import random
import select
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.conftest import SOAK

__all__ = [
    "PATIENCE",
    "ROOT",
    "Acks",
    "environment",
    "killed_places",
    "let_some_instants_pass",
    "run_program",
    "start_program",
]

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"

PATIENCE = 120.0
"""Seconds after which a test gives up on a process. No verdict depends on it."""


def environment(**more: str) -> dict[str, str]:
    """The test's own environment; the child imports what the test imports."""
    paths = [str(ROOT), *(path for path in sys.path if path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def start_program(name: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """Start ``programs/<name>.py``. Its stdin is a pipe: closing it tells the program to stop."""
    return subprocess.Popen(
        [sys.executable, PROGRAMS / f"{name}.py", *map(str, arguments)],
        stdin=subprocess.PIPE,
        env=environment(),
    )


def run_program(
    name: str, *arguments: str | Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``programs/<name>.py`` to its end and return what it printed."""
    return subprocess.run(
        [sys.executable, PROGRAMS / f"{name}.py", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        env=environment(**variables),
        timeout=PATIENCE,
        check=False,
    )


class Acks:
    """The reading end of a named pipe. Writers send lines ``name number``, each in one write."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._rest = b""
        self._processes: list[int] = []
        self.seen: dict[str, list[int]] = defaultdict(list)
        """What each writer acknowledged, in order."""
        self.pids: dict[str, int] = {}
        """Writers say ``pid name number`` once, before anything else."""

    def __enter__(self) -> Acks:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in (self._fd, *self._processes):
            os.close(fd)

    def total(self) -> int:
        return sum(map(len, self.seen.values()))

    def wait_for(self, count: int) -> None:
        """Until ``count`` lines have come, or every writer is gone."""
        while self.total() < count and self._read():
            pass

    def wait_for_pids(self, count: int) -> None:
        while len(self.pids) < count and self._read():
            pass

    def rest(self) -> None:
        """Everything up to the end of the last writer."""
        while self._read():
            pass
        # The pipe is closed a moment before the other files of a process are.
        for process in self._processes:
            select.select([process], [], [], PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._fd], [], [], PATIENCE)
        if not ready:
            raise TimeoutError(f"no word from any process for {PATIENCE} seconds")
        chunk = os.read(self._fd, 65536)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            words = line.decode("ascii").split()
            if words[0] == "pid":
                self.pids[words[1]] = int(words[2])
                with contextlib.suppress(ProcessLookupError):
                    self._processes.append(os.pidfd_open(int(words[2])))
            else:
                self.seen[words[0]].append(int(words[1]))
        return bool(chunk)


def let_some_instants_pass(chance: random.Random) -> None:
    """Up to ten milliseconds or so of idle work: what is behind it comes at a random instant."""
    for _ in range(chance.randrange(chance.choice((10, 1_000, 30_000, 600_000)))):
        pass


def killed_places(program: str, scenario: str, folder: Path) -> list[Path]:
    """Run ``scenario`` once for each step before which it is killed, and once to its end.

    Return the folder of each run, in this order. ``make test`` kills before every third step.
    """
    done = run_program(program, scenario, folder, "1" if SOAK else "3")
    assert done.returncode == 0, done.stderr
    places = sorted(folder.iterdir(), key=lambda place: int(place.name))
    assert int(places[-1].name) > 3, "the scenario does almost nothing"
    return places
