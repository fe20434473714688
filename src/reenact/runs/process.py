"""Starting the program, passing signals on, and waiting for its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from reenact.errors import UsageError

__all__ = ["exit_code", "run_program"]

_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")

_FROM_TERMINAL = (signal.SIGINT, getattr(signal, "SIGQUIT", None))


def run_program(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run it with our standard streams. Returns what ``subprocess`` calls its return code."""
    try:
        process = subprocess.Popen(list(argv), env=dict(environ))
    except OSError as error:
        raise UsageError(
            f"cannot start {argv[0]}: {error.strerror}", hint="check the path and its permissions"
        ) from None
    with _passing_signals_to(process):
        return process.wait()


@contextmanager
def _passing_signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, frame: Any) -> None:
        if number in _FROM_TERMINAL and _is_foreground():
            return  # the terminal has told the program already
        try:
            process.send_signal(number)
        except ProcessLookupError:
            pass  # it has just ended

    known = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    before = {number: signal.signal(number, pass_on) for number in known}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_foreground() -> bool:
    """Does the terminal send its signals to us, and so to the program? Our standard input need not
    be the terminal for that."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def exit_code(returned: int) -> int:
    """The exit code that a shell would report: a signal counts from 128."""
    return returned if returned >= 0 else 128 - returned


def flush() -> None:
    """What we have said so far stands before what the program says."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
