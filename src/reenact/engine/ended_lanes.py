"""Lanes that have ended, and the recorded deliveries that no replay of them can request any more.

A delivery is *unreachable* when the thread or job that received it in the recording has ended in the
replay without requesting it, or was never started by a thread or job that has ended. Waiting for an
unreachable delivery is useless, however long the replay waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from reenact.engine.lanes import Lane
from reenact.engine.order import Delivery
from reenact.format.schedule import CHUNK

__all__ = ["EndedLanes"]

_COUNTERS: Final[dict[str, Callable[[Lane], int]]] = {
    "post": lambda lane: lane.posts,
    "timer": lambda lane: lane.timers,
    "wait": lambda lane: lane.waits,
}
"""The deliveries that a lane numbers itself, starting with 1, and the last number it has used."""


class EndedLanes:
    """The ended lanes of one replay. The session's lock covers every use.

    ``is_unused`` returns whether a delivery belongs to a recorded call that the replay has not made.
    """

    def __init__(self, is_unused: Callable[[Delivery], bool]) -> None:
        self._is_unused = is_unused
        self._ended: dict[str, Lane] = {}

    def add(self, lane: Lane) -> None:
        """Mark ``lane`` as ended: nothing runs in it from now on."""
        self._ended[lane.name] = lane

    def is_unreachable(self, delivery: Delivery) -> bool:
        """Return whether no part of the program can request ``delivery`` any more.

        The caller has checked that no waiter requests it now.
        """
        if not self._ended:
            return False
        lane = self._ended.get(delivery.lane)
        return self._never_starts(delivery.lane) if lane is None else self._is_left(lane, delivery)

    def _never_starts(self, name: str) -> bool:
        """Return whether lane ``name``, or a lane it descends from, can no longer be started."""
        while name:
            parent, _, number = name.rpartition(".")
            lane = self._ended.get(parent)
            if lane is not None and number.isdecimal() and int(number) > lane.spawned:
                return True
            name = parent
        return False

    def _is_left(self, lane: Lane, delivery: Delivery) -> bool:
        """Return whether ``lane`` has ended without requesting ``delivery``."""
        token = delivery.token
        # Another lane may still read the response of a call that was made, such as a stream.
        if isinstance(token, int):
            return self._is_unused(delivery)
        family, _, number = token[1].partition(":")
        if family == CHUNK:
            return self._is_unused(delivery)
        last = _COUNTERS.get(family)
        return last is not None and number.isdecimal() and int(number) > last(lane)
