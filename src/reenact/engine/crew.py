"""Who could still ask for something: the threads of a session, and who may wake them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from reenact.engine.desk import Desk

__all__ = ["Crew"]

_ident = threading.get_ident
_ENDED = "TERMINATE"
"""What a pool says whose results do not come any more."""


def _is_idle(thread: threading.Thread) -> bool:
    """Does it nothing unless somebody of the session gives it something to do? Threads of ours that
    are so say it of themselves."""
    idles: Callable[[], bool] | None = getattr(thread, "idles", None)
    return idles is not None and idles()


class Crew:
    """Threads by their ident. The caller of every method holds the session's lock.

    ``strangers`` are the threads that were there before, by default all others of the process.
    ``opener`` is the thread that opened the session, by default this one.
    """

    def __init__(
        self, strangers: Iterable[threading.Thread] | None = None, opener: int | None = None
    ) -> None:
        self._threads = {_ident() if opener is None else opener}
        there = threading.enumerate() if strangers is None else strangers
        self.strangers = [thread for thread in there if thread.ident not in self._threads]
        self._jobs = 0
        self._helpers = 0
        self.outside = 0
        """Calls that are really made in a replay, outside of the session: they take as long as they
        take."""
        self._blocked: set[int] = set()
        self._spawned: set[Any] = set()
        self._joiners: dict[Any, set[int]] = {}
        self._pools: WeakSet[Any] = WeakSet()

    def employ(self, pool: Any) -> None:
        """Processes of ``pool``, one of multiprocessing, do jobs for the session."""
        self._pools.add(pool)

    def spawn(self, thread: Any = None) -> None:
        """A thread or a job was spawned and has not begun. ``thread`` is None for a job."""
        self._jobs += 1
        if thread is not None:
            self._spawned.add(thread)

    def begin(self) -> None:
        """It has begun, in this thread."""
        self._jobs -= 1
        self._threads.add(_ident())

    def drop(self, thread: Any = None) -> None:
        """It will never begin."""
        self._jobs -= 1
        self._spawned.discard(thread)

    def end(self) -> None:
        """What ran in this thread has ended."""
        self._threads.discard(_ident())

    def help(self) -> None:
        """Somebody outside the session works for it, and will wake it."""
        self._helpers += 1

    def helped(self) -> None:
        """It is done."""
        self._helpers -= 1

    def block(self, ident: int) -> None:
        """The thread ``ident`` waits for its turn: it does nothing until it is given something."""
        self._blocked.add(ident)

    def unblock(self, ident: int) -> None:
        """It goes on."""
        self._blocked.discard(ident)

    def join(self, thread: Any) -> None:
        """This thread waits for the end of ``thread``."""
        self._joiners.setdefault(thread, set()).add(_ident())

    def joined(self, thread: Any) -> None:
        """It does not any more."""
        joiners = self._joiners.get(thread, set())
        joiners.discard(_ident())
        if not joiners:
            self._joiners.pop(thread, None)

    def ended(self, thread: Any) -> set[int]:
        """``thread`` has ended. Who was waiting for that?"""
        self._spawned.discard(thread)
        return self._joiners.pop(thread, set())

    def all_wait(self, desk: Desk | None = None) -> bool:
        """Does every thread wait for its turn, or for the end of one that does? ``desk`` is the
        idle loop of a thread that may be left out. False where somebody else may wake them."""
        if (
            self._jobs
            or self._helpers
            or self.outside
            or any(one.is_alive() and not _is_idle(one) for one in self.strangers)
        ):
            return False
        if any(pool._cache and pool._state != _ENDED for pool in self._pools):
            return False
        joining = {
            ident
            for thread, joiners in self._joiners.items()
            if thread in self._spawned
            for ident in joiners
        }
        awake = self._threads - self._blocked - joining
        return not awake or (desk is not None and awake == {desk.ident})
