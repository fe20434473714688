"""How far a session has come: what a replay that stands still is told by."""

from __future__ import annotations

from typing import Final, NamedTuple

from reenact._system import cpu_seconds, monotonic
from reenact.engine.processor import seconds_of_children

__all__ = ["Progress", "progress_at"]

_IDLE_SHARE: Final = 0.05
"""Of the processor, that a standing program may use all the same."""


class Progress(NamedTuple):
    """What has happened so far, the processor time it took, and when that was."""

    activity: int
    cpu: float
    at: float

    def is_quiet_until(self, later: Progress) -> bool:
        """Has nothing happened and nothing been computed from here until ``later``?"""
        idle = later.cpu - self.cpu <= _IDLE_SHARE * (later.at - self.at)
        return later.activity == self.activity and idle


def progress_at(activity: int) -> Progress:
    """This moment; ``activity`` counts what has happened."""
    return Progress(activity, cpu_seconds() + seconds_of_children(), monotonic())
