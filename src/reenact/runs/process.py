"""Starting the program, passing signals on, and waiting for its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from reenact._system import monotonic
from reenact.errors import UsageError
from reenact.runs.telling import say

__all__ = ["exit_code", "run_program"]

_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")

_FROM_TERMINAL = (signal.SIGINT, getattr(signal, "SIGQUIT", None))


_LOOK = 0.25
"""Seconds between two looks at what the processes have told."""

_LAST_WORDS = 5.0
"""Seconds that a program has for its end when that is due."""

_LAST_BREATH = 2.0
"""Seconds from being asked to end to being killed."""


def run_program(
    argv: Sequence[str],
    environ: Mapping[str, str],
    doomed: Callable[[], Sequence[int] | None] = lambda: None,
    *,
    patience: float = _LAST_WORDS,
    output: TextIO | None = None,
) -> int:
    """Run it with our standard streams; ``output`` takes what it prints. Returns what ``subprocess``
    calls its return code.

    ``doomed`` names the processes of a program that should come to its end by now, because what it
    does is of no use any more; None as long as it is. If it has not ended after ``patience``
    seconds, they are ended.
    """
    try:
        process = subprocess.Popen(list(argv), env=dict(environ), stdout=output)
    except OSError as error:
        raise UsageError(
            f"cannot start {argv[0]}: {error.strerror}", hint="check the path and its permissions"
        ) from None
    with _passing_signals_to(process):
        return _wait(process, doomed, patience)


def _wait(
    process: subprocess.Popen[bytes], doomed: Callable[[], Sequence[int] | None], patience: float
) -> int:
    due: float | None = None
    while True:
        try:
            return process.wait(_LOOK)
        except subprocess.TimeoutExpired:
            others = doomed()
            if others is not None:
                due = due or monotonic() + patience
                if monotonic() >= due:
                    say(f"reenact: the program did not end within {patience:g} s, and was ended")
                    return _end(process, others)


def _end(process: subprocess.Popen[bytes], others: Sequence[int]) -> int:
    """A thread that died of a divergence may be waited for; its process would never end."""
    everybody = dict.fromkeys((process.pid, *others))
    _send(everybody, signal.SIGTERM)
    try:
        return process.wait(_LAST_BREATH)
    except subprocess.TimeoutExpired:
        return _killed(process)
    finally:
        _send(everybody, signal.SIGKILL)


def _killed(process: subprocess.Popen[bytes]) -> int:
    process.kill()
    return process.wait()


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


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
