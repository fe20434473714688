"""The real clock and randomness, for Reenact's own use.

Grabbed by name when this module is imported, before any boundary can patch the standard library,
so that a recording is stamped with real time while the program sees re-enacted time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import msgspec

__all__ = [
    "Clock",
    "Now",
    "cpu_seconds",
    "entropy",
    "kill_group",
    "monotonic",
    "pause",
    "start_clock",
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


class Clock(msgspec.Struct, frozen=True):
    """Wall time that never runs backwards: an epoch anchor plus the system-wide monotonic clock.

    All processes of one capture share the anchor, so their time stamps can be compared even when
    somebody sets the machine's clock in the middle of a run.
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


def cpu_seconds() -> float:
    """Processor time that this process has used, all threads together."""
    return _process_time()


def kill_group(group: int) -> None:
    """End all processes of ``group``, which nobody records. One that is gone is no matter."""
    try:
        _killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it who can be ended
