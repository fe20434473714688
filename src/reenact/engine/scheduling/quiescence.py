"""Quiescence detection: which threads, loops and jobs are busy with the last delivery.

The receiver of a delivery is busy: a thread until it makes its next call, waits for another
thread, or ends; a loop until nothing of the session is ready to run in it. Threads that it wakes
or starts get their turns one after the other, each when the ones before are quiescent, because
their order must not depend on timing. Other waits of a thread (a lock, a file) are invisible: a
thread that has not used the processor for a few milliseconds (``GRACE_SECONDS``) counts as
quiescent.

:class:`Quiescence` tracks who is busy. :class:`ThreadRegistry` tracks which threads could still
make a call and who can wake them, so that a deadlocked replay is recognised.

Invariants: the caller of every method holds the session's lock, except for
``Quiescence.starting``: an executor starts threads under a lock of its own, which a fork takes
after the session's lock.

::

    give ──> busy ──remove (next call, wait, end)──> quiescent ──next turn──> busy
               │
               └─ GRACE_SECONDS without processor use, in several looks ──> quiescent
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any
from weakref import WeakSet

from reenact._system import monotonic
from reenact.engine.scheduling.cpu_usage import wants_processor
from reenact.engine.scheduling.waiters import LoopRunner

__all__ = [
    "GRACE_SECONDS",
    "Quiescence",
    "ThreadRegistry",
    "Turn",
]

_ident = threading.get_ident
_ENDED = "TERMINATE"
"""State of a pool that delivers no more results."""


def _is_idle(thread: threading.Thread) -> bool:
    """Return whether a thread only reacts to the session. Reenact's own threads declare it."""
    idles: Callable[[], bool] | None = getattr(thread, "idles", None)
    return idles is not None and idles()


class ThreadRegistry:
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
        """Live calls of a replay, outside the session. Their duration is not a stall."""
        self._blocked: set[int] = set()
        self._spawned: set[Any] = set()
        self._joiners: dict[Any, set[int]] = {}
        self._pools: WeakSet[Any] = WeakSet()

    def employ(self, pool: Any) -> None:
        """Register a multiprocessing pool whose processes do jobs for the session."""
        self._pools.add(pool)

    def spawn(self, thread: Any = None) -> None:
        """Note a spawned thread or job that has not begun. ``thread`` is None for a job."""
        self._jobs += 1
        if thread is not None:
            self._spawned.add(thread)

    def begin(self) -> None:
        """Note that a spawned thread or job has begun in this thread."""
        self._jobs -= 1
        self._threads.add(_ident())

    def drop(self, thread: Any = None) -> None:
        """Note that a spawned thread or job will never begin."""
        self._jobs -= 1
        self._spawned.discard(thread)

    def end(self) -> None:
        """Note that the job of this thread has ended."""
        self._threads.discard(_ident())

    def help(self) -> None:
        """Note a helper outside the session, which will wake it."""
        self._helpers += 1

    def helped(self) -> None:
        """Note that a helper has ended."""
        self._helpers -= 1

    def block(self, ident: int) -> None:
        """Mark thread ``ident`` as blocked: it does nothing until its delivery."""
        self._blocked.add(ident)

    def unblock(self, ident: int) -> None:
        """Mark thread ``ident`` as no longer blocked."""
        self._blocked.discard(ident)

    def join(self, thread: Any) -> None:
        """Note that this thread waits for the end of ``thread``."""
        self._joiners.setdefault(thread, set()).add(_ident())

    def joined(self, thread: Any) -> None:
        """Note that this thread no longer waits for the end of ``thread``."""
        joiners = self._joiners.get(thread, set())
        joiners.discard(_ident())
        if not joiners:
            self._joiners.pop(thread, None)

    def ended(self, thread: Any) -> set[int]:
        """Note the end of ``thread``. Return the idents of the threads that joined it."""
        self._spawned.discard(thread)
        return self._joiners.pop(thread, set())

    def all_wait(self, loop_scheduler: LoopRunner | None = None) -> bool:
        """Return whether every thread waits for its turn, or for the end of a thread that does.

        ``loop_scheduler`` is the idle loop of a thread that is left out. False if something outside
        the session can wake them.
        """
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
        return not awake or (loop_scheduler is not None and awake == {loop_scheduler.ident})


GRACE_SECONDS = 0.005
"""Seconds after which a busy thread counts as quiescent."""

_LOOKS = 5
"""Looks per grace period. A machine too slow for the program also looks more rarely."""

_MOST_LOOKS = 100
"""Looks after which even a computing thread counts as quiescent."""

_NOBODY = 0

_allocate = threading.Lock


class Turn:
    """Turn of a thread that was woken or started."""

    __slots__ = ("_gate", "_rest", "runner")

    def __init__(self, rest: Quiescence, runner: Hashable) -> None:
        self.runner = runner
        self._rest = rest
        self._gate = _allocate()
        self._gate.acquire()

    def come(self) -> None:
        """Let the thread continue. Locked."""
        self._gate.release()

    def wait(self) -> None:
        """Block this thread until its turn. Called without the lock.

        The thread looks for quiescence itself, because no other thread might be left to do so.
        """
        while not self._gate.acquire(timeout=self._rest.step):
            self._rest.look()


class Quiescence:
    """Set of busy threads, loops and jobs.

    Threads are identified by their ident, a loop by the thread that runs it, and a
    waiting job by its object. ``lock`` is the session's lock. The caller of every method holds it.
    """

    def __init__(self, lock: Any, grace: float = GRACE_SECONDS) -> None:
        self.loops: WeakSet[LoopRunner] = WeakSet()
        """The loops of the session."""
        self.starting: set[int] = set()
        """Threads that wait for the start of another thread. They are idle, and count as busy.

        Not under the lock: an executor starts threads under a lock of its own, which a fork takes
        after the session's lock.
        """
        self._lock = lock
        self._busy: set[Hashable] = set()
        self._turns: deque[Turn] = deque()
        self._coming: set[Hashable] = set()
        """Threads and jobs whose turn has come and that the machine has not started yet."""
        self.step = grace / _LOOKS
        """Seconds between two looks."""
        self._looked = 0.0
        self._looks = 0
        self._quiet_looks = 0
        self._sleepers: list[Any] = []
        self._curious: set[LoopRunner] = set()

    def give(self, runner: Hashable) -> None:
        """Make ``runner`` the only busy one, because it has just received a delivery."""
        self._busy = {runner}
        self._start()

    def add(self, runner: Hashable) -> None:
        """Mark ``runner`` as busy too: it was woken or spawned because of the last delivery."""
        self._busy.add(runner)
        self._start()

    def wake(self, runner: Hashable) -> Turn:
        """Return the turn of ``runner``, after the busy ones and those woken before.

        It comes at once if the waking thread is not busy itself.
        """
        turn = Turn(self, runner)
        if _ident() not in self._busy:
            self.add(runner)
            self._come(turn)
        else:
            self._turns.append(turn)
        return turn

    def drop(self, runner: Hashable) -> bool:
        """Forget ``runner``, which will not continue. Return whether everything is quiescent now."""
        self._turns = deque(turn for turn in self._turns if turn.runner != runner)
        return self.remove(runner)

    def _next(self) -> bool:
        """Give the next turn, if nothing is busy. Return whether there was one."""
        if not self._turns:
            return False
        turn = self._turns.popleft()
        self.give(turn.runner)
        self._come(turn)
        return True

    def _come(self, turn: Turn) -> None:
        if not isinstance(turn.runner, int):
            self._coming.add(turn.runner)
        turn.come()

    def free(self) -> None:
        """Let every waiting thread continue, because the order is no longer relevant."""
        turns, self._turns = self._turns, deque()
        for turn in turns:
            turn.come()

    def look(self) -> None:
        """Check for quiescence, for a thread whose turn has not come. Called without the lock."""
        with self._lock:
            self.prod()
            if self._busy and self.left() <= 0 and self._has_looked_enough(_NOBODY):
                self._busy.clear()
            if not self._busy and not self._next():
                self._tell()

    def _start(self) -> None:
        self._looked = monotonic()
        self._looks = self._quiet_looks = 0

    def remove(self, runner: Hashable) -> bool:
        """Mark ``runner`` as quiescent. Return whether everything is quiescent now."""
        self._coming.discard(runner)
        if runner not in self._busy:
            return False
        self._busy.remove(runner)
        # The next turn comes before any delivery: a woken thread acts on the previous delivery.
        if self._busy or self._next():
            return False
        if self._sleepers or self._curious:
            self._tell()
        return True

    def is_busy(self, runner: Hashable) -> bool:
        """Return whether ``runner`` is busy. A runner that checks itself needs no lock."""
        return runner in self._busy

    def is_complete(self) -> bool:
        """Return whether no thread, loop or job is busy."""
        return self.holds_for(_NOBODY)

    def holds_for(self, runner: int) -> bool:
        """Return whether ``runner`` can receive a delivery: all others are quiescent.

        Threads that have not used the processor for the grace period count as quiescent.
        """
        busy = self._busy
        if not self._turns and (not busy or (len(busy) == 1 and runner in busy)):
            return True
        if self.left() > 0 or not self._has_looked_enough(runner):
            return False
        self._busy.clear()
        if self._next():
            return False
        self._tell()
        return True

    def _has_looked_enough(self, runner: int) -> bool:
        """Return whether only ``runner`` itself has used the processor for some time."""
        self._looked = monotonic()
        self._looks += 1
        others = (one for one in self._busy if isinstance(one, int) and one != runner)
        if self.starting or self._coming & self._busy or any(map(wants_processor, others)):
            self._quiet_looks = 0
        else:
            self._quiet_looks += 1
        return self._quiet_looks >= _LOOKS or self._looks >= _MOST_LOOKS

    def left(self) -> float:
        """Return the seconds until the next look for quiescence; 0 if nothing is busy."""
        return max(0.0, self._looked + self.step - monotonic()) if self._busy else 0.0

    def sleep(self) -> None:
        """Release the lock until the next look for quiescence, or a signal. For threads.

        Called with the lock held once, and returns with it held.
        """
        gate = threading.Lock()
        gate.acquire()
        self._sleepers.append(gate)
        self.prod()
        seconds = self.left()
        # The gate is registered before the release, so that a signal in between is not lost.
        self._lock.release()
        try:
            gate.acquire(timeout=seconds)
        finally:
            self._lock.acquire()

    def tell_later(self, loop_scheduler: LoopRunner) -> None:
        """Let ``loop_scheduler`` look again when all may be quiescent. In its loop's own thread."""
        self._curious.add(loop_scheduler)
        self.prod()
        loop_scheduler.post_later(self.left())

    def prod(self) -> None:
        """Let the busy loops check for quiescence, because they do not do that on their own."""
        for loop_scheduler in self.loops:
            if loop_scheduler.ident in self._busy:
                loop_scheduler.post_from_anywhere()

    def _tell(self) -> None:
        """Wake the threads and loops that wait for quiescence. They look again themselves."""
        sleepers, self._sleepers = self._sleepers, []
        for gate in sleepers:
            gate.release()
        loop_schedulers, self._curious = self._curious, set()
        for loop_scheduler in loop_schedulers:
            loop_scheduler.post_from_anywhere()

    def after_fork(self) -> None:
        """Reset in a forked child, where no other thread is left."""
        self.loops.clear()
        self.starting = set()
        self._busy = set()
        self._turns = deque()
        self._coming = set()
        self._sleepers = []
        self._curious = set()
