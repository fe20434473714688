"""The process that stands in for a recorded one: it is there, and it ends when it is told how."""

from __future__ import annotations

import os
import signal
from typing import Final

from reenact.boundaries.processes.ends import Given

__all__ = ["as_stand_in", "order_end"]

_COMMAND: Final = ("/bin/sh", "-c", "ulimit -c 0; read how || exit 0; eval $how")
"""Waits on its standard input. When the program is gone it goes, too."""


def as_stand_in(given: Given, control: int, nowhere: int) -> Given:
    """``given`` for a stand-in, which reads from ``control`` and says nothing. What stays is what
    others can see of a process: its session and its group."""
    changed: Given = {
        "args": list(_COMMAND),
        "executable": None,
        "preexec_fn": None,
        "close_fds": True,
        "pass_fds": (),
        "cwd": None,
        "env": {},
        "shell": False,
        "p2cread": control,
        "p2cwrite": -1,
        "c2pread": -1,
        "c2pwrite": nowhere,
        "errread": -1,
        "errwrite": nowhere,
        "gid": None,
        "gids": None,
        "uid": None,
        "umask": -1,
    }
    return {name: changed.get(name, value) for name, value in given.items()}


def order_end(control: int, exit_code: int) -> None:
    """Let the stand-in at the other end of ``control`` end as the recorded process did."""
    how = f"kill -{_name(-exit_code)} $$" if exit_code < 0 else f"exit {exit_code}"
    try:
        os.write(control, f"{how}\n".encode("ascii"))
    except BrokenPipeError:
        pass  # somebody has killed it
    os.close(control)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:  # a real-time signal has none
        return str(number)
