"""The real clock and randomness, for Reenact's own use.

Grabbed by name when this module is imported, before any boundary can patch the standard library,
so that a recording is stamped with real time while the program sees re-enacted time.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from types import FrameType

__all__ = [
    "Clock",
    "Now",
    "cpu_seconds",
    "entropy",
    "id_bytes",
    "interpreter_and_platform",
    "kill_group",
    "monotonic",
    "pause",
    "start_clock",
    "thread_frames",
]

Now = Callable[[], int]
"""Milliseconds since the epoch."""

_time_ns = time.time_ns
_monotonic_ns = time.monotonic_ns
monotonic = time.monotonic
"""Seconds on the system-wide monotonic clock."""
_urandom = os.urandom
_sleep = time.sleep
_process_time = time.process_time
_killpg = os.killpg
process_id = os.getpid
"""Return the real id of this process, even if a replay shows the program a different one."""


class Clock(msgspec.Struct, frozen=True):
    """Wall time that never runs backwards: an epoch anchor plus the monotonic clock.

    All processes of one capture share the anchor, so their time stamps can be compared even if the
    machine's clock is changed during a run.
    """

    wall_ns: int
    monotonic_ns: int

    def __call__(self) -> int:
        return (self.wall_ns + _monotonic_ns() - self.monotonic_ns) // 1_000_000


def start_clock() -> Clock:
    """A clock anchored now."""
    return Clock(_time_ns(), _monotonic_ns())


def pause(seconds: float) -> None:
    """Really wait."""
    _sleep(seconds)


def entropy(size: int) -> bytes:
    """Real random bytes, never drawn from (or recorded in) the program's own stream."""
    return _urandom(size)


class _IdBytes:
    """Random bytes for ids, read from the system 4 KiB at a time. A forked child reads its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        with self._lock:
            if self._at + size > len(self._bytes):
                self._bytes, self._at = _urandom(4096), 0
            self._at += size
            return self._bytes[self._at - size : self._at]

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._bytes = b""


_ids = _IdBytes()
os.register_at_fork(after_in_child=_ids.after_fork)


def id_bytes(size: int) -> bytes:
    """Random bytes for an id that is made often and is not a secret."""
    return _ids.take(size)


def cpu_seconds() -> float:
    """Processor time that this process has used, all threads together."""
    return _process_time()


def interpreter_and_platform() -> dict[str, str]:
    """Return the Python version and the platform, as in a manifest.

    The module ``platform`` returns the same values, and importing it takes a millisecond.
    """
    system = os.uname()
    return {
        "python": sys.version.partition(" ")[0],
        "platform": f"{system.sysname.lower()}-{system.machine}",
    }


def kill_group(group: int) -> None:
    """End all processes of ``group``, without recording it. A missing group is ignored."""
    try:
        _killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # no process of the group is left


class _ThreadFrames:
    """Lists the frames of all threads. A forked child has a lock of its own."""

    def __init__(self) -> None:
        self.after_fork()

    def take(self) -> dict[int, FrameType]:
        with self._lock:
            collecting = gc.isenabled()
            gc.disable()
            try:
                return sys._current_frames()
            finally:
                if collecting:
                    gc.enable()

    def after_fork(self) -> None:
        self._lock = threading.RLock()  # a signal handler can list the threads within a list


_frames = _ThreadFrames()
os.register_at_fork(after_in_child=_frames.after_fork)


def thread_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by thread ident.

    No garbage collection begins meanwhile. Up to CPython 3.11, one that begins inside
    ``sys._current_frames`` and frees a ``threading.local`` waits for a lock that this thread holds,
    and every thread of the process stops for good.
    """
    return _frames.take()
