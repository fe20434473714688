"""Child processes: one that exchanges lines with Reenact, and waiting for the end of others.

Only the end of their other output is stored.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from select import select

from reenact._system import monotonic

__all__ = ["LAST_WORDS", "ChildProcess", "kill_group", "wait_for_end"]

LAST_WORDS = 2_000
"""Number of characters at the end of a process's output that are stored."""
_TICK = 0.5
"""Seconds between two checks of whether a process has ended, because others can hold its pipes
open."""
_READ = 1 << 16


class ChildProcess:
    """Process ``python -m module FD word …``, which writes its lines to the file descriptor FD."""

    def __init__(self, module: str, *words: str) -> None:
        self._lines, write = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(write), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(write,),
            start_new_session=True,
            bufsize=0,
        )
        os.close(write)
        self._rest = b""
        self.said = ""
        """The end of its standard error."""

    def write(self, line: bytes) -> None:
        """Send a line. Raises :class:`BrokenPipeError` if the process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(line)

    def line(self, timeout: float | None) -> bytes | None:
        """Return the next line, or None if the process has ended. Raises :class:`TimeoutError`."""
        end = None if timeout is None else monotonic() + timeout
        assert self._process.stderr is not None
        watched = [self._lines, self._process.stderr.fileno()]
        while b"\n" not in self._rest:
            left = _TICK if end is None else min(_TICK, end - monotonic())
            if left <= 0:
                raise TimeoutError
            ready, _, _ = select(watched, [], [], left)
            if not ready and _has_ended(self._process):
                return None
            for one in ready:
                more = os.read(one, _READ)
                if one == self._lines:
                    if not more:
                        self._hear_out(watched)
                        return None
                    self._rest += more
                elif more:
                    self._hear(more)
                else:
                    watched.remove(one)
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _hear_out(self, watched: list[int]) -> None:
        """Read the rest of standard error after the lines have ended."""
        others = [one for one in watched if one != self._lines]
        while others and select(others, [], [], 0.1)[0]:
            more = os.read(others[0], _READ)
            if not more:
                break
            self._hear(more)

    def _hear(self, more: bytes) -> None:
        self.said = (self.said + more.decode("utf-8", "replace"))[-LAST_WORDS:]

    def wait(self) -> int:
        """Kill the process group and return the exit code of the process."""
        self.kill()
        return self._process.wait()

    def kill(self) -> None:
        """Kill the process and its process group."""
        kill_group(self._process)

    def close(self) -> None:
        """Kill the process group and close the pipes."""
        self.kill()
        with self._process:
            os.close(self._lines)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process group, unless its leader has already been waited for."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def wait_for_end(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[int | None, str]:
    """Wait for a process that leads a group and prints to a pipe, and then kill its group.

    Returns the exit code, or None after a timeout, and the end of the output.
    """
    assert process.stdout is not None
    end = None if timeout is None else monotonic() + timeout
    output, source, late = b"", process.stdout.fileno(), False
    while True:
        left = _TICK if end is None else min(_TICK, end - monotonic())
        if left <= 0:
            late = True
            break
        if select([source], [], [], left)[0]:
            more = os.read(source, _READ)
            if not more:
                break
            output = (output + more)[-4 * LAST_WORDS :]
        elif _has_ended(process):
            break
    if not late and end is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - monotonic()))
        late = process.returncode is None
    elif not late:
        process.wait()
    kill_group(process)
    code = process.wait()
    return (None if late else code), output.decode("utf-8", "replace")[-LAST_WORDS:]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return True if the process has ended, and then kill its group.

    The process is not reaped, so that its group can still be addressed.
    """
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return found is not None
