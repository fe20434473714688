"""Clock that moves only on request."""

from __future__ import annotations

import threading

import msgspec

from reenact._system import Clock
from reenact.errors import UsageError

__all__ = ["VirtualClock"]

_START = 1_700_000_000_000
_NANOSECONDS = 1_000_000
_moving = threading.Lock()


class _Anchored(Clock, frozen=True, kw_only=True):
    wall_ns: int = 0
    monotonic_ns: int = 0


class VirtualClock(_Anchored, frozen=True):
    """Clock that shows a set time, and moves by ``tick`` milliseconds per reading. Thread-safe.

    ``clock()`` is the time in milliseconds since the epoch, as with a real clock.
    """

    start: int = _START
    tick: int = 0
    _now: list[int] = msgspec.field(default_factory=list)
    """A clock is a frozen value; what moves is kept in a list that it owns."""

    def __post_init__(self) -> None:
        _check(self.tick)
        msgspec.structs.force_setattr(self, "wall_ns", self.start * _NANOSECONDS)
        self._now.append(self.start)

    def __call__(self) -> int:
        return self._move(self.tick)

    def advance(self, milliseconds: int) -> None:
        """Let time pass. Raises :class:`UsageError` for going back."""
        _check(milliseconds)
        self._move(milliseconds)

    def _move(self, milliseconds: int) -> int:
        """Move the clock; return its time before."""
        with _moving:
            now = self._now[0]
            self._now[0] += milliseconds
            return now


def _check(milliseconds: int) -> None:
    if milliseconds < 0:
        raise UsageError(
            f"a clock does not go back ({milliseconds} ms)", hint="start another one earlier"
        )
