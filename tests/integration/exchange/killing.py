"""Processes that are killed just before the n-th thing they do to a folder."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_WATCHED = frozenset(
    "open os.mkdir os.rename os.remove os.rmdir os.truncate os.link os.symlink".split()
)


def killed_at_each_step(
    make_folder: Callable[[int], Path], work: Callable[[Path, Callable[[str], None]], None]
) -> Iterator[tuple[Path, list[str]]]:
    """Run ``work(folder, tell)`` in a child, again and again, each time in a folder that
    ``make_folder`` made, and killed one step later. Gives the folder, and what was told before the
    kill. The last child lives to its end."""
    for step in itertools.count(1):
        folder = make_folder(step)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _be_killed(folder, step, write, work)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as told:
            lines = told.read().split()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL), (step, status)
        yield folder, lines
        if status == 0:
            return


def _be_killed(folder: Path, step: int, told: int, work: Callable[..., None]) -> None:
    left = itertools.count(1)
    within = f"{folder}{os.sep}"

    def hook(event: str, args: tuple[Any, ...]) -> None:
        inside = event in _WATCHED and any(str(one).startswith(within) for one in args[:2])
        if inside and next(left) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        sys.addaudithook(hook)
        work(folder, lambda text: _tell(told, text))
        code = 0
    finally:
        os._exit(code)


def _tell(told: int, text: str) -> None:
    os.write(told, f"{text}\n".encode())
