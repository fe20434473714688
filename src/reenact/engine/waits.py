"""Threads that wait for each other: they are at rest meanwhile, and busy when they are woken.

A wait with a time-out that ended in vain is a delivery: its thread gets it when its time is up,
while recording, or in its turn, in a replay. Seen is what goes through ``threading.Condition``
(events, queues, semaphores, barriers, the results of executors) and ``Thread.join``; a lock that is
handed from one thread to another is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic
from reenact.engine.current import current
from reenact.engine.jobs import is_leaving
from reenact.engine.patches import LatePatch, Patch
from reenact.engine.rest import Turn
from reenact.engine.waiter import Waiter

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["starting", "wait_patches"]

_asleep: dict[Any, _Sleep | _TimedWait] = {}
"""Who sleeps behind a gate. Whoever opens it may be in no session: an executor's worker is not."""

_thread = threading.local()
"""``now``: the time that a thread of a session reads to see what is left of a time-out.
``starts``: it is about to start another one."""

_SHARE = 0.999
"""Of a time-out that may have passed, at most, when a thread is woken before it is over."""

_TINY = 1e-6
"""Seconds by which it is over when a wait ended in vain: some ask for less than nothing left."""


def wait_patches() -> list[Patch | LatePatch]:
    """The patches of this module."""
    return [
        Patch(threading.Condition, "wait", _wait),
        Patch(threading.Condition, "notify", _notify),
        Patch(threading.Thread, "join", _join),
        # They compute what is left of a time-out.
        Patch(threading, "_time", _own_clock),
        LatePatch("queue", lambda module: module, "time", _own_clock),
        LatePatch("concurrent.futures._base", lambda module: module, "time", _OwnTime),
    ]


# Clocks


def _own_clock(original: Callable[[], float]) -> Callable[[], float]:
    """Counts the time that a thread spends in timed waits, and nothing else: so that a time-out is
    over when a wait ended in vain, and only then, however long a replay takes."""

    def time() -> float:
        session = current()
        if session is None or not _takes_part(session):
            return original()
        if not hasattr(_thread, "now"):
            _thread.now = original()
        now: float = _thread.now
        return now

    return time


class _OwnTime:
    """The module ``time``, with a monotonic clock that is the thread's own."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.monotonic = _own_clock(module.monotonic)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


# Conditions


def _takes_part(session: Session) -> bool:
    """Is it the program that waits here, not we ourselves in the middle of something?"""
    if not session.paces or session.lock._is_owned():  # type: ignore[attr-defined]
        return False
    return not getattr(_thread, "starts", False)


@contextmanager
def starting() -> Iterator[None]:
    """This thread starts another one, and waits until that is there: it goes on at once."""
    before = getattr(_thread, "starts", False)
    _thread.starts = True
    try:
        yield
    finally:
        _thread.starts = before


def _wait(original: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(original)
    def wait(self: Any, timeout: float | None = None) -> bool:
        session = current()
        if session is None or not _takes_part(session) or not self._is_owned():
            return original(self, timeout)
        if timeout is None:
            return _Sleep(session).wait(self)
        if timeout <= 0:
            return original(self, timeout)
        return _TimedWait(session, timeout).wait(self)

    return wait


def _notify(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def notify(self: Any, n: int = 1) -> None:
        if _asleep:
            for gate in islice((gate for gate in self._waiters if gate.locked()), n):
                sleeper = _asleep.get(gate)
                if sleeper is not None:
                    sleeper.notified()
        original(self, n)

    return notify


@contextmanager
def _behind(gate: Any, condition: Any, sleeper: _Sleep | _TimedWait) -> Iterator[None]:
    """As ``Condition.wait`` does it, with a gate that others know: the condition's lock is given up
    in the block."""
    _asleep[gate] = sleeper
    try:
        sleeper.arrive()  # before anybody can notify us
        condition._waiters.append(gate)
        saved = condition._release_save()
        try:
            yield
            if sleeper.turn is not None:
                sleeper.turn.wait()
        finally:
            condition._acquire_restore(saved)
    finally:
        del _asleep[gate]
        if gate in condition._waiters:
            condition._waiters.remove(gate)


class _Sleep:
    """A thread that waits for a condition, for as long as it takes."""

    def __init__(self, session: Session) -> None:
        self.turn: Turn | None = None
        self._conductor = session.conductor
        self._ident = threading.get_ident()

    def arrive(self) -> None:
        """It does nothing any more."""
        self._conductor.arrive(self._ident)

    def notified(self) -> None:
        """Somebody is about to open its gate."""
        self.turn = self._conductor.wake(self._ident)

    def wait(self, condition: Any) -> bool:
        """Wait for ``condition``, and return True."""
        gate = threading.Lock()
        gate.acquire()
        with _behind(gate, condition, self):
            gate.acquire()
        return True


class _TimedWait(Waiter):
    """A thread in a timed wait. The program wakes it by notifying; in vain it waits until its time
    is up, while recording, or until its turn, in a replay."""

    __slots__ = ("_lane", "_session", "_since", "_timeout", "in_vain", "turn", "woken")

    def __init__(self, session: Session, timeout: float) -> None:
        self._session = session
        self._lane = session.lanes.current()
        self._timeout = timeout
        self._since = monotonic()
        super().__init__(
            (self._lane.name, self._name()), self._lane.name, session.runner(), real=self._free
        )
        self.polls = True
        self.in_vain = False
        self.turn: Turn | None = None
        self.woken = False

    def _name(self) -> str:
        return f"wait:{self._lane.waits + 1}"

    def arrive(self) -> None:
        """It does nothing any more."""
        conductor = self._session.conductor
        with conductor.lock:
            if conductor.order is not None:
                conductor.expect(self)
            conductor.arrive(self.runner)

    def notified(self) -> None:
        """Somebody is about to open its gate: it will not have waited in vain."""
        conductor = self._session.conductor
        with conductor.lock:
            self.woken = True
            conductor.forget(self)
            self.turn = conductor.wake(self.ident)

    def wait(self, condition: Any) -> bool:
        """Wait for ``condition``; False if that was in vain."""
        with _behind(self.prepare(), condition, self):
            self._wait()
        self._count()
        return not self.in_vain

    def _wait(self) -> None:
        conductor = self._session.conductor
        if conductor.order is not None:
            if conductor.block(self):
                return
            if not self.live:
                self.in_vain = not self.gate.acquire(timeout=self._left())
                return
            self.free = False  # the run was forked, and is recorded
        if not self.gate.acquire(timeout=self._left()):
            # Others may still be busy with what they got: perhaps they notify us yet.
            conductor.hand_over(self.runner, self._give_up)

    def _left(self) -> float:
        return max(0.0, self._since + self._timeout - monotonic())

    def _count(self) -> None:
        """How much of the time-out is over."""
        replays = self._session.conductor.order is not None
        passed = 0.0 if replays and not self.free else monotonic() - self._since
        if hasattr(_thread, "now"):
            most = _SHARE * self._timeout
            _thread.now += self._timeout + _TINY if self.in_vain else min(passed, most)
        if self.in_vain and not self.free:
            self._lane.waits += 1

    def _give_up(self) -> None:
        self.in_vain = not self.woken
        if self.in_vain:
            self._session.record_delivery(self.lane, self._name())

    def hand_over(self) -> bool:
        """Its turn to have waited in vain, in a replay."""
        self.in_vain = True
        return super().hand_over()

    def _free(self) -> None:
        """The recording has nothing to say about this wait: it goes by the clock from now on."""
        self.free = True
        self._since = monotonic()


# Threads


def _join(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def join(self: Any, timeout: float | None = None) -> None:
        session = current()
        if session is None or not _takes_part(session) or timeout is not None:
            return original(self, timeout)
        conductor, ident = session.conductor, threading.get_ident()
        if is_leaving(self):
            # To give the turn up would leave it to chance who goes on first.
            with conductor.thread_starts():
                return original(self)
        with conductor.lock:
            conductor.crew.join(self)
            conductor.arrive(ident)
        try:
            return original(self)
        finally:
            with conductor.lock:
                conductor.crew.joined(self)
                conductor.awaken(ident)

    return join
