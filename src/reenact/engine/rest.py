"""Rest: nobody is busy any more with what was handed to the program last.

Whoever gets a delivery is busy with it: a thread until it makes its next call, waits for another
thread, or ends; a loop until nothing of the session is ready to run in it. Whom it wakes or spawns
on the way is busy, too. What a thread waits for beyond that (a lock, a file) cannot be seen: when
it has not wanted the processor for a few milliseconds, it counts as at rest.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from reenact._system import monotonic
from reenact.engine.processor import wants_processor

if TYPE_CHECKING:
    from reenact.engine.desk import Desk

__all__ = ["GRACE", "Rest"]

GRACE = 0.005
"""Seconds after which whoever is busy counts as at rest."""

_LOOKS = 5
"""A grace is so many looks, one after the other: on a machine that has no time for the program
there is none to look, either."""

_MOST_LOOKS = 100
"""After so many even a thread counts as at rest that computes."""

_NOBODY = 0


class Rest:
    """Who is busy: threads by their ident (a loop is the thread that runs it), and jobs that have
    not begun.

    ``lock`` is the session's own. The caller of every method holds it.
    """

    def __init__(self, lock: Any, grace: float = GRACE) -> None:
        self.desks: WeakSet[Desk] = WeakSet()
        """The loops of the session."""
        self.starting: set[int] = set()
        """The threads that start another one. They wait until the machine has time for that, and
        have not come to rest meanwhile. Not under the lock: an executor starts threads under one
        of its own, which a fork takes after ours."""
        self._lock = lock
        self._busy: set[Hashable] = set()
        self._step = grace / _LOOKS
        self._looked = 0.0
        self._looks = 0
        self._quiet_looks = 0
        self._sleepers: list[Any] = []
        self._curious: set[Desk] = set()

    def give(self, runner: int) -> None:
        """``runner`` has just been given something."""
        self._busy = {runner}
        self._start()

    def add(self, runner: Hashable) -> None:
        """``runner`` was woken or spawned, and acts on the last delivery as well."""
        self._busy.add(runner)
        self._start()

    def _start(self) -> None:
        self._looked = monotonic()
        self._looks = self._quiet_looks = 0

    def remove(self, runner: Hashable) -> bool:
        """``runner`` is done. True when that was the last one: now all is at rest."""
        if runner not in self._busy:
            return False
        self._busy.remove(runner)
        if self._busy:
            return False
        if self._sleepers or self._curious:
            self._tell()
        return True

    def is_complete(self) -> bool:
        """Is nobody busy?"""
        return self.holds_for(_NOBODY)

    def holds_for(self, runner: int) -> bool:
        """May ``runner`` be given something?"""
        busy = self._busy
        if not busy or (len(busy) == 1 and runner in busy):
            return True
        if self.left() > 0 or not self._has_looked_enough(runner):
            return False
        busy.clear()
        self._tell()
        return True

    def _has_looked_enough(self, runner: int) -> bool:
        """Has nobody but ``runner`` itself wanted the processor for some time?"""
        self._looked = monotonic()
        self._looks += 1
        others = (one for one in self._busy if isinstance(one, int) and one != runner)
        if self.starting or any(map(wants_processor, others)):
            self._quiet_looks = 0
        else:
            self._quiet_looks += 1
        return self._quiet_looks >= _LOOKS or self._looks >= _MOST_LOOKS

    def left(self) -> float:
        """Seconds until it is worth looking again whether there is rest; 0 when there is."""
        return max(0.0, self._looked + self._step - monotonic()) if self._busy else 0.0

    def sleep(self) -> None:
        """Give the lock up until there is rest, or may be. For threads."""
        gate = threading.Lock()
        gate.acquire()
        self._sleepers.append(gate)
        self.prod()
        seconds = self.left()
        self._lock.release()
        try:
            gate.acquire(timeout=seconds)
        finally:
            self._lock.acquire()

    def tell_later(self, desk: Desk) -> None:
        """Let ``desk`` look again when there is rest, or may be. In its loop's own thread."""
        self._curious.add(desk)
        self.prod()
        desk.post_later(self.left())

    def prod(self) -> None:
        """Loops do not say by themselves that they are done: let the busy ones look."""
        for desk in self.desks:
            if desk.ident in self._busy:
                desk.post_from_anywhere()

    def _tell(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for gate in sleepers:
            gate.release()
        desks, self._curious = self._curious, set()
        for desk in desks:
            desk.post_from_anywhere()

    def after_fork(self) -> None:
        """In a forked child nobody else is left."""
        self.desks.clear()
        self.starting = set()
        self._busy = set()
        self._sleepers = []
        self._curious = set()
