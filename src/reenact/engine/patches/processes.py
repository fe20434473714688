"""Worker processes: their jobs, the order of results, numbering, and termination.

A job of a process pool gets a lane when it is submitted and carries it to the worker that runs
it. The choice of the worker varies. The pool's thread reads results from a pipe in the order in which
workers finish. In a replay, an early result is held until its turn by a thread of its own, so the
pool's thread can continue to read.

The number of workers and their replacement vary as well. So workers are numbered below a lane of
their pool, and a replay expects none of them. Outside of jobs (imports, initializer) all workers
do the same: in a replay each is served the recording of the worker that did most.

A process that the program terminates or kills has progressed differently in every run. So its
termination is recorded: in a replay it does not need to progress as far, and if it progresses
further, it waits for its end.

::

    submit ──lane──> worker runs job ──pipe──> result ──its turn?──yes──> program
                                                  └─ no ──> held by a thread ──turn──> program

Relies on private details (CPython 3.11 to 3.14): ``BaseProcess._popen``, ``Popen._send_signal`` and
``multiprocessing.connection._ConnectionBase``. ``tests/integration/test_processes_pools.py`` and
``test_worker_processes.py`` notice a change.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from threading import get_ident
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from reenact.engine.lanes import Lane, WorkersLane
from reenact.engine.patches.patch import DeferredPatch
from reenact.engine.patches.ports import PatchedSession, current
from reenact.engine.scheduling.cpu_usage import register_thread
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.context import context_outside_sessions, enter_session, leave_session
from reenact.errors import DivergenceError
from reenact.format.event import STOPPED

__all__ = [
    "DivergedJob",
    "ExpectedResult",
    "RemoteJob",
    "SubmittedJobs",
    "active_session",
    "inside_lane",
    "note_terminated",
    "pool_constructor",
    "run_in_lane",
    "termination_patches",
    "worker_start",
]


class _Held(Waiter):
    """Waits for its turn, or for the end of the recording: then it goes at once."""

    __slots__ = ()

    def __init__(self, token: DeliveryToken, lane: str, ident: int) -> None:
        super().__init__(token, lane, ident, real=self._go)

    def _go(self) -> None:
        self.hand_over()


class ExpectedResult(msgspec.Struct, frozen=True):
    """Delivery of the result of ``job``: its ``lane`` and its ``name`` there."""

    session: PatchedSession
    job: str
    lane: str
    name: str

    def take(
        self, act: Callable[[], None], later: Callable[[], None] | None = None, part: str = ""
    ) -> None:
        """The result has come, or ``part`` of it: ``act`` gives it to who waits for it. ``later``
        is called instead when it has to be held."""
        session, token = self.session, (self.lane, f"{self.name}{part}")
        scheduler = session.scheduler
        if not session.tracks_order:
            act()
            return
        scheduler.helper_comes()  # until it is given, so that no waiter is cut off
        if scheduler.order is None:
            self._note(token)
            self._give(act)
        elif session.in_flight.is_now(token):
            self._give(act)
        else:
            start_new_thread(context_outside_sessions().run, (self._hold, token, later or act))

    def _note(self, token: tuple[str, str]) -> None:
        """Take our turn, and write that."""
        session = self.session
        session.scheduler.hand_over(get_ident(), lambda: session.in_flight.record_delivery(*token))

    def _hold(self, token: tuple[str, str], act: Callable[[], None]) -> None:
        with register_thread():
            held = _Held(token, self.lane, get_ident())
            try:
                self.session.scheduler.wait(held)
                if held.live:
                    self._note(token)
            except BaseException:  # noqa: BLE001 - the session has ended, and the waiter has its error
                pass
            self._give(act)

    def _give(self, act: Callable[[], None]) -> None:
        """Whom ``act`` wakes is busy; we are not."""
        scheduler = self.session.scheduler
        try:
            act()
        finally:
            scheduler.arrive(get_ident())
            scheduler.helper_goes()


class SubmittedJobs:
    """A job, or many of them, that are given to a pool here: their ``lane``, and where what comes
    of them is expected."""

    __slots__ = ("arrival", "lane")

    def __init__(self, session: PatchedSession) -> None:
        with session.lock:
            home = session.lanes.current()
            lane = session.children.spawn()
            session.children.was_forked(lane)
        self.lane = lane.name
        # Not in the lane of the job, which is another process's.
        name = self.lane.removeprefix(f"{home.name}.")
        self.arrival = ExpectedResult(session, self.lane, home.name, f"job:{name}")


class RemoteJob:
    """``fn`` in ``lane``, wherever it is called. It travels with what the program submits; the
    ``arrival`` stays at home."""

    __slots__ = ("arrival", "fn", "lane")

    def __init__(
        self, lane: str, fn: Callable[..., Any], arrival: ExpectedResult | None = None
    ) -> None:
        self.lane = lane
        self.fn = fn
        self.arrival = arrival

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return run_in_lane(self.lane, lambda: self.fn(*args, **kwargs))

    def __reduce__(self) -> Any:
        return RemoteJob, (self.lane, self.fn)


class DivergedJob(Exception):
    """A job that diverged, where only ordinary exceptions find their way home."""

    def __init__(self, error: DivergenceError) -> None:
        super().__init__(error)
        self.error = error


def active_session() -> PatchedSession | None:
    """The session that is in force here, if it does anything."""
    session = current()
    return session if session is not None and session.is_active else None


def run_in_lane(lane: str, act: Callable[[], Any]) -> Any:
    """Do the job of ``lane`` here."""
    session = active_session()
    if session is None:
        return act()
    with session.children.doing_job(lane):
        return act()


PoolLane = tuple["PatchedSession", WorkersLane]
"""Session and lane that the workers of a pool belong to."""

_pools: WeakKeyDictionary[Any, PoolLane] = WeakKeyDictionary()


def pool_constructor(original: Callable[..., None]) -> Callable[..., None]:
    """The constructor of a pool."""

    @wraps(original)
    def founded(self: Any, *args: Any, **kwargs: Any) -> None:
        home = _found()
        if home is not None:
            _pools[self] = home
        original(self, *args, **kwargs)

    return founded


def _found() -> PoolLane | None:
    """Return the lane of a new pool, as for any process that the program starts."""
    session = current()
    if session is None or not session.is_active:
        return None
    with session.lock:
        lane = WorkersLane(session.children.spawn().name)
        session.children.was_forked(lane)
        session.children.leave_to_workers(lane)
    return session, lane


def worker_start(pool: Any) -> AbstractContextManager[None]:
    """Assign processes started in the block to ``pool``, whichever thread starts them."""
    home = _pools.get(pool)
    return nullcontext() if home is None or not home[0].is_active else inside_lane(*home)


@contextmanager
def inside_lane(session: PatchedSession, lane: Lane) -> Iterator[None]:
    """Run the block in ``lane`` of ``session``, in any thread."""
    token = enter_session(session)
    try:
        with session.lanes.inside(lane):
            yield
    finally:
        leave_session(token)


_LANE = "reenact_lane"


def termination_patches() -> list[DeferredPatch]:
    """The patches of this module."""
    return [
        DeferredPatch(
            "multiprocessing.process", lambda module: module.BaseProcess, "start", _start
        ),
        DeferredPatch(
            "multiprocessing.popen_fork", lambda module: module.Popen, "_send_signal", _send_signal
        ),
        DeferredPatch("multiprocessing.connection", _connection, "send", _tell),
        DeferredPatch("multiprocessing.connection", _connection, "send_bytes", _tell),
        DeferredPatch("multiprocessing.queues", lambda module: module.Queue, "put", _tell),
        DeferredPatch("multiprocessing.queues", lambda module: module.JoinableQueue, "put", _tell),
    ]


def _connection(module: ModuleType) -> Any:
    return module._ConnectionBase


def _tell(original: Callable[..., None]) -> Callable[..., None]:
    """Another process learns something, and may end this one the next moment: what was drawn by
    then is written."""

    @wraps(original)
    def tell(self: Any, *args: Any, **kwargs: Any) -> None:
        session = active_session()
        if session is not None and session.writes:
            session.draws.end(session.lanes.current())
        original(self, *args, **kwargs)

    return tell


def note_terminated(lane: str) -> None:
    """Record that the process in ``lane`` can end anywhere from now on."""
    session = active_session()
    if session is not None and session.writes:
        session.in_flight.record_delivery(lane, STOPPED)


def _start(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def start(self: Any) -> None:
        session = active_session()
        if session is None:
            original(self)
            return
        lane = session.lanes.current()
        before = lane.spawned
        original(self)
        if lane.spawned > before:  # a process is the last thing that starting one spawns
            setattr(self._popen, _LANE, f"{lane.name}.{lane.spawned}")

    return start


def _send_signal(original: Callable[..., None]) -> Callable[..., None]:
    """``terminate`` and ``kill``, also of what is left over when the program ends."""

    @wraps(original)
    def send_signal(self: Any, number: int) -> None:
        lane: str | None = getattr(self, _LANE, None)
        if lane is not None and self.returncode is None:
            note_terminated(lane)
        original(self, number)

    return send_signal
