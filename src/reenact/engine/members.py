"""Who takes part in a session, and who of them is busy: threads, loops, jobs, and helpers."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reenact.engine.crew import Crew
from reenact.engine.order import Order
from reenact.engine.progress import Progress, progress_at
from reenact.engine.rest import Rest, Turn

if TYPE_CHECKING:
    from reenact.engine.desk import Desk

__all__ = ["Members", "thread_of"]

_ident = threading.get_ident


def thread_of(runner: int | Desk) -> int:
    """The thread that ``runner`` is, or that runs the loop."""
    return runner if isinstance(runner, int) else runner.ident


class Members(ABC):
    """The first layer of a conductor. ``lock`` is the session's own; "locked" means that the caller
    holds it. ``order`` is the recorded one in a replay, None while recording. ``opener`` is the
    thread that opened the session."""

    def __init__(self, lock: Any, order: Order | None, grace: float, opener: int) -> None:
        self.lock = lock
        self.order = order
        self.rest = Rest(lock, grace)
        self.crew = Crew(opener=opener)
        self._activity = 0
        self.rest.give(opener)  # whoever opens the session goes on with the program

    @abstractmethod
    def advance(self) -> None:
        """Hand over what can be handed over. Locked."""

    # Rest

    def arrive(self, runner: int | Desk) -> None:
        """``runner`` makes its next call, waits for somebody, or has ended: it is at rest."""
        with self.lock:
            self._activity += 1
            if self.rest.remove(thread_of(runner)) and self.order is not None:
                self.advance()

    def awaken(self, runner: int | Desk) -> None:
        """``runner`` goes on, because somebody of the session has woken it."""
        with self.lock:
            self._activity += 1
            self.rest.add(thread_of(runner))

    def wake(self, ident: int) -> Turn:
        """The thread ``ident`` has been woken by this one: when it may go on. Locked or not."""
        with self.lock:
            self._activity += 1
            return self.rest.wake(ident)

    def given(self, runner: int | Desk) -> None:
        """``runner`` has just been given something. Locked."""
        self._activity += 1
        self.rest.give(thread_of(runner))

    def holds_for(self, runner: int | Desk) -> bool:
        """May ``runner`` be given something? Locked."""
        return self.rest.holds_for(thread_of(runner))

    # Who takes part

    def add_desk(self, desk: Desk) -> None:
        """``desk`` takes part from now on."""
        with self.lock:
            self.rest.desks.add(desk)

    def job_waits(self, job: Any, thread: Any = None) -> None:
        """``job``, or the thread that it is, has been spawned and has not begun."""
        with self.lock:
            self._activity += 1
            self.crew.spawn(thread)
            self.rest.add(job)

    def thread_waits(self, lane: Any, thread: Any) -> Turn:
        """``thread`` is about to be started by this one: when it may begin."""
        with self.lock:
            self._activity += 1
            self.crew.spawn(thread)
            return self.rest.wake(lane)

    def job_takes_turn(self, job: Any) -> Turn:
        """``job`` has been given by this thread to a worker that is free: when it may begin."""
        return self.thread_waits(job, None)

    def job_begins(self, job: Any) -> None:
        """It has begun, in this thread."""
        with self.lock:
            self._activity += 1
            self.crew.begin()
            self.rest.add(_ident())
            self.rest.remove(job)

    def job_dropped(self, job: Any, thread: Any = None) -> None:
        """It will never begin."""
        with self.lock:
            self.crew.drop(thread)
            self.rest.drop(job)
            self._somebody_ended()

    def job_ends(self, thread: Any = None, *, goes_on: bool = False) -> None:
        """What ran in this thread has ended, and perhaps the thread itself. ``goes_on``: it takes
        the next job at once."""
        with self.lock:
            self.crew.end()
            for ident in self.crew.ended(thread):
                self.rest.add(ident)
            if not goes_on:
                self.rest.remove(_ident())
            self._somebody_ended()

    @contextmanager
    def thread_starts(self) -> Iterator[None]:
        """This thread starts another one, and waits until that is there; or until one is gone that
        has nothing more to do."""
        ident = _ident()
        self.rest.starting.add(ident)
        try:
            yield
        finally:
            self.rest.starting.discard(ident)

    def helper_comes(self) -> None:
        """Somebody outside the session works for it, and will wake it."""
        with self.lock:
            self.crew.help()

    def helper_goes(self) -> None:
        """It is done."""
        with self.lock:
            self.crew.helped()
            self._somebody_ended()

    @contextmanager
    def going_outside(self) -> Iterator[None]:
        """In the block a call is really made, outside of the session: quiet as that may be, the run
        does not stand still."""
        crew = self.crew  # a forked child has another one
        with self.lock:
            crew.outside += 1
        try:
            yield
        finally:
            with self.lock:
                crew.outside -= 1
                self._activity += 1

    def thread_ended(self, thread: Any) -> None:
        """A thread that is plumbing has ended: who waits for that goes on."""
        with self.lock:
            for ident in self.crew.ended(thread):
                self.rest.add(ident)

    def _somebody_ended(self) -> None:
        """Perhaps nobody is left who could ask for the head."""
        self._activity += 1
        if self.order is not None:
            self.advance()
            for desk in self.rest.desks:
                desk.post_from_anywhere()

    def after_fork(self) -> None:
        """In a forked child there is one thread, and nobody waits."""
        self.rest.after_fork()
        self.crew = Crew()

    # Progress

    def progress(self) -> Progress:
        """What has happened so far."""
        return progress_at(self._activity)

    def is_quiet_since(self, before: Progress) -> bool:
        """Has nothing happened and nothing been computed since, and is nothing on its way?"""
        return not self.crew.outside and before.is_quiet_until(self.progress())
