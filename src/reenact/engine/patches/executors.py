"""Patches of ``concurrent.futures``: jobs of thread and process executors.

Covers ``asyncio.to_thread`` and ``run_in_executor`` as well.

Loaded when the program imports ``concurrent.futures``, and not before.

::

    submit ──> job waits ──worker free──> turn ──> begun ──> result ──> callbacks in the job's lane
                  └─ cancelled or shut down ──> dropped

Invariant: a job is known to the scheduler from ``submit`` until it has ended or was dropped.

Relies on private details (CPython 3.11 to 3.14): ``_work_queue``, ``_threads`` and ``_max_workers`` of
``ThreadPoolExecutor``, ``_spawn_process`` of ``ProcessPoolExecutor``, and
``_ExecutorManagerThread.process_result_item``. ``tests/unit/engine/test_thread_pools.py`` and
``tests/integration/test_processes_pools.py`` notice a change.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import wraps
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from reenact.engine.lanes import Lane, lane_hash
from reenact.engine.patches import patch
from reenact.engine.patches.patch import Patch
from reenact.engine.patches.ports import PatchedSession, current
from reenact.engine.patches.processes import (
    RemoteJob,
    SubmittedJobs,
    active_session,
    inside_lane,
    pool_constructor,
    worker_start,
)
from reenact.engine.patches.thread_pools import Job, result_callback
from reenact.engine.session.context import OUTSIDE, VARIABLE, enter_session, leave_session

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from reenact.engine.scheduling.quiescence import Turn

__all__ = ["process_patches", "submit", "thread_executor_patches"]

_LOOPS: Final = "asyncio.base_events"
"""The module of ``run_in_executor``, which does not let the program see the executor's future."""


def submit(original: Callable[..., Any]) -> Callable[..., Any]:
    """``ThreadPoolExecutor.submit``."""

    @wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            if VARIABLE.get() is OUTSIDE:
                fn = _called_outside(fn)
            return original(self, fn, *args, **kwargs)
        job = _Submitted(session, session.lanes.spawn(), fn, self)
        job.is_of_loop = _is_loop(sys._getframe(1))
        try:
            future = original(self, job, *args, **kwargs)
        except BaseException:
            job.drop()
            raise
        job.attach(future)
        return future

    return submit


def _is_loop(frame: FrameType | None) -> bool:
    """Return whether ``frame``, the caller of a patched function, is one of an asyncio loop."""
    while frame is not None and frame.f_globals.get("__name__") == patch.__name__:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == _LOOPS


def _called_outside(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        token = enter_session(OUTSIDE)
        try:
            return fn(*args, **kwargs)
        finally:
            leave_session(token)

    return call


class _Submitted(Job):
    """A job with a future. It ends when all callbacks have received its result."""

    def __init__(
        self,
        session: PatchedSession,
        lane: Lane,
        fn: Callable[..., Any],
        executor: ThreadPoolExecutor,
    ) -> None:
        self._executor = executor
        self.is_of_loop = False
        """True if an asyncio loop submitted the job: no callback runs in its lane after its end."""
        super().__init__(session, lane, fn)
        self._queue = executor._work_queue
        self._attached = threading.Lock()
        self._attached.acquire()
        self._is_told = self._is_received = False

    def _spawn(self) -> Turn | None:
        """Jobs that begin at once begin one after the other, as threads do: else it would be a
        matter of chance which of two that compute is done first."""
        if not _has_free_worker(self._executor):
            return super()._spawn()
        return self.session.scheduler.job_takes_turn(self)

    def attach(self, future: Any) -> None:
        """Attach the new ``future`` of this job, before any other code can see it."""
        future.job = self
        future.__class__ = _JobFuture
        self._attached.release()
        if future.cancelled():
            self.drop()

    def _done(self) -> None:
        self._attached.acquire()  # the worker must not tell the result before the future is ours

    def tell(self, fn: Callable[[Any], Any], future: Any) -> None:
        """Call ``fn``, which wants to know the result, in the lane of the job, wherever that is."""
        if not self.begun:
            fn(future)
            return
        with result_callback(), self.inside():
            fn(future)

    def told(self) -> None:
        """Note that all callbacks have run, or that there will be none."""
        if self.begun:
            self._leave()
            scheduler = self.session.scheduler
            with scheduler.lock:
                self._is_told = True
                if self.is_of_loop or self._is_received:
                    scheduler.lane_ends(self.lane)
            scheduler.job_ends(goes_on=not self._queue.empty())
        else:
            self.drop()

    def received(self) -> None:
        """The program has its result. It could still add a callback, but does not: so a replay that
        fails without a call does not rely on this."""
        scheduler = self.session.scheduler
        with scheduler.lock:
            if self._is_received or scheduler.fails_without_calls:
                return
            self._is_received = True
            if self._is_told:
                scheduler.lane_ends(self.lane)
                scheduler.advance()

    def forgotten(self) -> None:
        """Note that the program has no reference to its future, so no callback can be added.

        Called by the garbage collector in any state of the scheduler, so it changes one dictionary
        only.
        """
        ended = self.session.scheduler.ended_lanes
        if ended is not None:
            ended.add(self.lane)


def _has_free_worker(executor: Any) -> bool:
    """Will the next job be taken at once, by a worker that idles or one that is hired for it?"""
    idle = getattr(getattr(executor, "_idle_semaphore", None), "_value", 0)
    return idle > 0 or len(executor._threads) < executor._max_workers


class _JobFuture(Future[Any]):
    """A future whose callbacks run in the lane of its job, also when they come too late for it.
    Sets of them iterate by lane."""

    job: _Submitted

    def __hash__(self) -> int:
        return lane_hash(self.job.lane.name)

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        job = self.job  # not ourselves: that would be a circle
        super().add_done_callback(lambda future: job.tell(fn, future))

    def result(self, timeout: float | None = None) -> Any:
        try:
            return super().result(timeout)
        finally:
            if self.done():
                self.job.received()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            return super().exception(timeout)
        finally:
            if self.done():
                self.job.received()

    def __del__(self) -> None:
        self.job.forgotten()

    def _invoke_callbacks(self) -> None:
        try:
            super()._invoke_callbacks()  # type: ignore[misc]
        finally:
            self.job.told()


_JobFuture.__name__ = _JobFuture.__qualname__ = "Future"  # as people see it in a repr


# Processes


def thread_executor_patches(module: ModuleType) -> list[Patch]:
    """Return the patches of ``concurrent.futures.thread``."""
    return [Patch(module.ThreadPoolExecutor, "submit", submit)]


def process_patches(module: ModuleType) -> list[Patch]:
    """The patches of ``concurrent.futures.process``."""
    executor, manager = module.ProcessPoolExecutor, module._ExecutorManagerThread
    return [
        Patch(executor, "__init__", pool_constructor),
        Patch(executor, "_spawn_process", _hire),
        Patch(executor, "submit", _submit_elsewhere),
        Patch(manager, "process_result_item", _take_result),
    ]


def _hire(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def spawn_process(self: Any) -> None:
        with worker_start(self):
            original(self)

    return spawn_process


def _submit_elsewhere(original: Callable[..., Any]) -> Callable[..., Any]:
    """A job in another process is in no lane of this one; its end wakes who waits for it."""

    @wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        session = active_session()
        if session is None:
            return original(self, fn, *args, **kwargs)
        given = SubmittedJobs(session)
        scheduler = session.scheduler
        future = original(self, RemoteJob(given.lane, fn, given.arrival), *args, **kwargs)
        scheduler.helper_comes()
        future.add_done_callback(lambda _: scheduler.helper_goes())
        future.lane = given.lane
        future.__class__ = _FarFuture
        return future

    return submit


def _take_result(original: Callable[..., None]) -> Callable[..., None]:
    """A result has come, in the thread that manages the pool."""

    @wraps(original)
    def process_result_item(self: Any, result_item: Any) -> None:
        work = self.pending_work_items.get(getattr(result_item, "work_id", None))
        arrival = getattr(getattr(work, "fn", None), "arrival", None)
        if arrival is None:
            original(self, result_item)
            return

        def later() -> None:
            original(self, result_item)
            with self.shutdown_lock:
                self.thread_wakeup.wakeup()  # it waits for the last one

        arrival.take(lambda: original(self, result_item), later)

    return process_result_item


class _FarFuture(Future[Any]):
    """A future of a job elsewhere. Each callback has a lane of its own, wherever it is called; sets
    of them iterate by lane."""

    lane: str

    def __hash__(self) -> int:
        return lane_hash(self.lane)

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        session = current()
        if session is None:
            super().add_done_callback(fn)
            return
        lane = session.lanes.spawn()

        def tell(future: Any) -> None:
            with result_callback(), inside_lane(session, lane):
                fn(future)

        super().add_done_callback(tell)


_FarFuture.__name__ = _FarFuture.__qualname__ = "Future"
