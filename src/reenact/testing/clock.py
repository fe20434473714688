"""A clock that moves only when it is told to."""

from __future__ import annotations

import threading

from reenact._system import Clock
from reenact.errors import UsageError

__all__ = ["VirtualClock"]

_START = 1_700_000_000_000
_NANOSECONDS = 1_000_000


class VirtualClock(Clock):
    """Stands where it is put; every look moves it on by ``tick`` milliseconds. Thread-safe.

    ``clock()`` is the time in milliseconds since the epoch, as that of a real clock.
    """

    __slots__ = ("_lock", "_state")
    _state: list[int]
    _lock: threading.Lock

    def __init__(self, start: int = _START, *, tick: int = 0) -> None:
        _check(tick)
        super().__init__(wall_ns=start * _NANOSECONDS, monotonic_ns=0)
        # A clock is a frozen value; what moves is kept in a list that it owns.
        object.__setattr__(self, "_state", [start, tick])
        object.__setattr__(self, "_lock", threading.Lock())

    def __call__(self) -> int:
        return self._move(self._state[1])

    def advance(self, milliseconds: int) -> None:
        """Let time pass. Raises :class:`UsageError` for going back."""
        _check(milliseconds)
        self._move(milliseconds)

    def _move(self, milliseconds: int) -> int:
        """What the clock shows before it is moved."""
        with self._lock:
            now = self._state[0]
            self._state[0] += milliseconds
            return now


def _check(milliseconds: int) -> None:
    if milliseconds < 0:
        raise UsageError(
            f"a clock does not go back ({milliseconds} ms)", hint="start another one earlier"
        )
