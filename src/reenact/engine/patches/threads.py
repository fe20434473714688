"""Patches of ``threading``: lanes of started threads, and waits of threads for each other.

Infrastructure threads (workers of an executor, helpers of asyncio) get no lane number, because
their number depends on timing.

A thread that waits for another one is quiescent, and busy again when it is woken. A timed wait
that expires is a delivery: its thread gets it when the time is up, while recording, or in turn,
in a replay. Covered are ``threading.Condition`` (and so events, queues, semaphores, barriers and
results of executors) and ``Thread.join``. A lock that is passed from one thread to another is not
covered. The thread's own clock counts only the time spent in timed waits, so a time-out expires
exactly when a wait expired.

::

    runs ──wait──> quiescent ──notify──> turn ──> runs
                       └─ time-out ──> delivery ("wait:N" of its lane) ──> runs

Invariants: a waiting thread has reported that it waits before anything can notify it. A thread that
holds the session's lock is Reenact itself, so its waits are not patched.

Relies on private details (CPython 3.11 to 3.14): ``_waiters``, ``_release_save``,
``_acquire_restore`` and ``_is_owned`` of ``Condition``, ``threading._time``, the module ``time`` in
``queue`` and ``concurrent.futures._base``, and ``Thread._initialized`` and ``_target``.
``tests/unit/engine/test_thread_waits.py`` notices a change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic
from reenact.engine.lanes import Lane
from reenact.engine.patches.patch import DeferredPatch, Patch
from reenact.engine.patches.ports import PatchedSession, current
from reenact.engine.patches.thread_pools import is_worker_leaving
from reenact.engine.scheduling.quiescence import Turn
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.context import OUTSIDE, VARIABLE

if TYPE_CHECKING:
    from reenact.engine.scheduling.scheduler import Scheduler

__all__ = [
    "INFRASTRUCTURE",
    "is_within",
    "thread_patches",
    "thread_start",
    "wait_patches",
]

_asleep: dict[Any, _Sleep | _TimedWait] = {}
"""Sleepers by their gate. The thread that opens a gate can be outside every session."""

_thread = threading.local()
"""``now``: the time that a thread of a session reads to see what is left of a time-out.
``starts``: it is about to start another one."""

_SHARE = 0.999
"""Of a time-out that may have passed, at most, when a thread is woken before it is over."""

_TINY = 1e-6
"""Seconds by which it is over when a wait ended in vain: some ask for less than nothing left."""


def wait_patches() -> list[Patch | DeferredPatch]:
    """The patches of this module."""
    return [
        Patch(threading.Condition, "wait", _wait),
        Patch(threading.Condition, "notify", _notify),
        Patch(threading.Thread, "join", _join),
        # They compute what is left of a time-out.
        Patch(threading, "_time", _own_clock),
        DeferredPatch("queue", lambda module: module, "time", _own_clock),
        DeferredPatch("concurrent.futures._base", lambda module: module, "time", _OwnTime),
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


def _takes_part(session: PatchedSession) -> bool:
    """Is it the program that waits here, not we ourselves in the middle of something?"""
    if not session.tracks_order or session.lock._is_owned():  # type: ignore[attr-defined]
        return False
    return not getattr(_thread, "starts", False)


@contextmanager
def thread_start() -> Iterator[None]:
    """Mark this thread as starting a thread: its short wait for it is not a wait of the program."""
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

    def __init__(self, session: PatchedSession) -> None:
        self.turn: Turn | None = None
        self._scheduler = session.scheduler
        self._ident = threading.get_ident()

    def arrive(self) -> None:
        """It does nothing any more."""
        self._scheduler.arrive(self._ident)

    def notified(self) -> None:
        """Take a turn, because the gate is about to be opened."""
        self.turn = self._scheduler.wake(self._ident)

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

    def __init__(self, session: PatchedSession, timeout: float) -> None:
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
        scheduler = self._session.scheduler
        with scheduler.lock:
            if scheduler.order is not None:
                scheduler.expect(self)
            scheduler.arrive(self.runner)

    def notified(self) -> None:
        """Take a turn, because the gate is about to be opened: the wait has not expired."""
        scheduler = self._session.scheduler
        with scheduler.lock:
            self.woken = True
            scheduler.forget(self)
            self.turn = scheduler.wake(self.ident)

    def wait(self, condition: Any) -> bool:
        """Wait for ``condition``; False if that was in vain."""
        with _behind(self.prepare(), condition, self):
            self._wait()
        self._count()
        return not self.in_vain

    def _wait(self) -> None:
        scheduler = self._session.scheduler
        if scheduler.order is not None:
            if scheduler.block(self):
                return
            if not self.live:
                self.in_vain = not self.gate.acquire(timeout=self._left())
                return
            self.free = False  # the run was forked, and is recorded
        if not self.gate.acquire(timeout=self._left()):
            # Others may still be busy with what they got: perhaps they notify us yet.
            scheduler.hand_over(self.runner, self._give_up)

    def _left(self) -> float:
        return max(0.0, self._since + self._timeout - monotonic())

    def _count(self) -> None:
        """Add the elapsed part of the time-out to the thread's own clock."""
        replays = self._session.scheduler.order is not None
        passed = 0.0 if replays and not self.free else monotonic() - self._since
        if hasattr(_thread, "now"):
            most = _SHARE * self._timeout
            _thread.now += self._timeout + _TINY if self.in_vain else min(passed, most)
        if self.in_vain and not self.free:
            self._lane.waits += 1

    def _give_up(self) -> None:
        self.in_vain = not self.woken
        if self.in_vain:
            self._session.in_flight.record_delivery(self.lane, self._name())

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
        scheduler, ident = session.scheduler, threading.get_ident()
        if is_worker_leaving(self):
            # Without its turn, the order of the next steps would be random.
            with scheduler.thread_starts():
                return original(self)
        with scheduler.lock:
            scheduler.threads.join(self)
            scheduler.arrive(ident)
        try:
            return original(self)
        finally:
            with scheduler.lock:
                scheduler.threads.joined(self)
                scheduler.awaken(ident)

    return join


_OURS = ("reenact",)
INFRASTRUCTURE = (
    "asyncio",
    "concurrent.futures",
    "multiprocessing",
    "anyio._backends",
    "logging",
    *_OURS,
)
"""Packages whose threads and tasks are infrastructure, not work of the program."""


def thread_patches() -> list[Patch]:
    """The patches of this module."""
    return [Patch(threading.Thread, "start", _start)]


def _start(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def start(self: Any) -> None:
        session = current()
        apart = VARIABLE.get() is OUTSIDE
        if (session is None and not apart) or not _can_start(self):
            original(self)
        elif session is None or _is_of(self, INFRASTRUCTURE):
            _start_outside(original, self, session)
        else:
            _start_in_lane(original, self, session, session.lanes.spawn())

    return start


def _can_start(thread: Any) -> bool:
    """Otherwise starting it raises, and nothing is spawned."""
    return getattr(thread, "_initialized", False) and thread.ident is None


def _is_of(thread: Any, packages: tuple[str, ...]) -> bool:
    """Is ``thread`` one of ``packages``, or does it run code of theirs? A function of ours may be
    what the program wants to be run (``Thread(target=session.call)``): threads of our own have
    classes of their own."""
    if is_within(type(thread).__module__, packages):
        return True
    target = getattr(getattr(thread, "_target", None), "__module__", None) or ""
    return is_within(target, packages) and not is_within(target, _OURS)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    """Is ``module`` one of ``packages``, or in one of them?"""
    return any(module == name or module.startswith(f"{name}.") for name in packages)


def _start_outside(
    original: Callable[..., Any], thread: Any, session: PatchedSession | None
) -> None:
    """Start ``thread`` outside every session. A thread of the session can join it."""
    scheduler = None if session is None or _is_of(thread, _OURS) else session.scheduler
    # A loop that waits for one of its own threads is not cut off.
    helps = scheduler is not None and _is_of(thread, ("asyncio",))

    def run_outside(run: Callable[[], None]) -> None:
        VARIABLE.set(OUTSIDE)
        try:
            run()
        finally:
            if scheduler is not None:
                scheduler.thread_ended(thread)
                if helps:
                    scheduler.helper_goes()

    if scheduler is not None and helps:
        scheduler.helper_comes()
    _start_as(original, thread, run_outside, scheduler)


def _start_in_lane(
    original: Callable[..., Any], thread: Any, session: PatchedSession, lane: Lane
) -> None:
    scheduler = session.scheduler

    def run_in_lane(run: Callable[[], None]) -> None:
        turn.wait()
        scheduler.job_begins(lane)
        VARIABLE.set(session)
        try:
            with session.lanes.inside(lane):
                run()
        finally:
            scheduler.lane_ends(lane)
            scheduler.job_ends(thread)

    turn = scheduler.thread_waits(lane, thread)
    try:
        _start_as(original, thread, run_in_lane, scheduler)
    except BaseException:
        scheduler.job_dropped(lane, thread)
        raise


def _start_as(
    original: Callable[..., Any],
    thread: Any,
    run: Callable[[Callable[[], None]], None],
    scheduler: Scheduler | None,
) -> None:
    """Start ``thread`` with ``run(its own run)``. Nothing of that stays with it."""
    own, had = thread.run, vars(thread).get("run")

    def restore() -> None:
        if had is None:
            vars(thread).pop("run", None)
        else:
            thread.run = had

    def run_once() -> None:
        restore()
        run(own)

    thread.run = run_once
    try:
        with thread_start(), nullcontext() if scheduler is None else scheduler.thread_starts():
            original(thread)
    except BaseException:
        restore()
        raise
