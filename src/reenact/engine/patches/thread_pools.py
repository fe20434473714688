"""Jobs of thread pools: each gets a lane of its own when it is submitted.

Covered are ``ThreadPoolExecutor`` (patched in :mod:`reenact.engine.patches.executors`), anyio's
worker threads, and ``multiprocessing.pool.ThreadPool``. Worker threads are infrastructure and
have no lane.

::

    spawned ──> begun ──> done
       └─ dropped (recorded, so that a replay does not wait for it)

Invariant: ``_settle`` succeeds once per job, so it is counted as begun or dropped, never both.

Relies on private details: ``AsyncIOBackend.run_sync_in_worker_thread`` of anyio 4, and
``ThreadPool._map_async``. ``tests/unit/engine/test_thread_pools.py`` notices a change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from reenact.engine.lanes import Lane
from reenact.engine.patches.patch import DeferredPatch
from reenact.engine.patches.ports import PatchedSession, current
from reenact.engine.patches.processes import DivergedJob
from reenact.engine.session.context import enter_session, leave_session
from reenact.errors import DivergenceError
from reenact.format.event import DROPPED

if TYPE_CHECKING:
    from reenact.engine.scheduling.quiescence import Turn

__all__ = [
    "Job",
    "is_result_callback",
    "is_worker_leaving",
    "job_patches",
    "reporting_session",
    "result_callback",
]

_local = threading.local()
"""``tells``: a callback of a job's future runs here. ``told``: anyio's worker is about to tell the
result of this job, in no context of ours."""


_working: set[int] = set()
"""The threads that have a job, also one whose turn has not come."""


def job_patches() -> list[DeferredPatch]:
    """The patches of this module."""
    anyio = "anyio._backends._asyncio"
    return [
        DeferredPatch(
            anyio, lambda module: module.AsyncIOBackend, "run_sync_in_worker_thread", _anyio_worker
        ),
        *(
            DeferredPatch("multiprocessing.pool", lambda module: module.ThreadPool, name, wrap)
            for name, wrap in _POOL.items()
        ),
    ]


class Job:
    """``fn`` in a lane of its own. It is known from when it is spawned until it has ended."""

    def __init__(self, session: PatchedSession, lane: Lane, fn: Callable[..., Any]) -> None:
        self.session = session
        self.lane = lane
        self.begun = False
        self._fn = fn
        self._settled = False
        self._turn = self._spawn()

    def _spawn(self) -> Turn | None:
        """Make it known. When it may begin, if not at once."""
        self.session.scheduler.job_waits(self)
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _working.add(threading.get_ident())
        self._begin()
        try:
            with self.inside():
                return self._fn(*args, **kwargs)
        finally:
            self._done()

    def _begin(self) -> None:
        self.begun = True
        if not self._settle():  # given up, and begun all the same
            self.session.scheduler.job_waits(self)
        elif self._turn is not None:
            self._turn.wait()
        self._turn = None  # it refers to its job, which would never be freed
        self.session.scheduler.job_begins(self)

    def _settle(self) -> bool:
        with self.session.lock:
            first, self._settled = not self._settled, True
        return first

    def drop(self) -> None:
        """It will not begin any more, if it has not begun."""
        if self._settle():
            if self.session.writes:
                self.session.in_flight.record_delivery(self.lane.name, DROPPED)
            self.session.scheduler.job_dropped(self)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run the block in the session and lane of the job."""
        token = enter_session(self.session)
        try:
            with self.session.lanes.inside(self.lane):
                yield
        finally:
            leave_session(token)

    def _leave(self) -> None:
        """Its thread is free for another one."""
        _working.discard(threading.get_ident())

    def _done(self) -> None:
        self._leave()
        # Its result takes a way that is not seen: the worker is not at rest at once.
        self.session.scheduler.job_ends(goes_on=True)


def is_worker_leaving(thread: Any) -> bool:
    """Return whether ``thread`` is a worker of an executor that was shut down and has no job left."""
    worker: Any = getattr(thread, "_target", None)
    args: Any = getattr(thread, "_args", ())
    if getattr(worker, "__module__", "") != "concurrent.futures.thread" or len(args) < 2:
        return False
    left = getattr(args[1], "qsize", None)
    return left is not None and left() <= 1 and thread.ident not in _working


def is_result_callback() -> bool:
    """Is this a callback of a job's future? What it posts to a loop comes from the job."""
    return getattr(_local, "tells", False)


@contextmanager
def result_callback() -> Iterator[None]:
    """A callback of a job's future runs here."""
    before = is_result_callback()
    _local.tells = True
    try:
        yield
    finally:
        _local.tells = before


# anyio


def _anyio_worker(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def run_sync_in_worker_thread(
        func: Callable[..., Any], args: tuple[Any, ...], *rest: Any, **kwargs: Any
    ) -> Any:
        session = current()
        if session is None:
            return await original(func, args, *rest, **kwargs)
        job = _Told(session, session.lanes.spawn(), func)
        try:
            return await original(job, args, *rest, **kwargs)
        finally:
            job.drop()

    return run_sync_in_worker_thread


class _Told(Job):
    """A job whose result is reported right after it, by the same thread."""

    def _done(self) -> None:
        self._leave()
        _local.told = self


@contextmanager
def reporting_session() -> Iterator[PatchedSession | None]:
    """The session of the job whose result this thread is about to tell, in its lane."""
    job: _Told | None = getattr(_local, "told", None)
    if job is None:
        yield None
        return
    _local.told = None
    try:
        with job.inside():
            yield job.session
    finally:
        job.session.scheduler.lane_ends(job.lane)
        job.session.scheduler.job_ends()


# ThreadPool


class _Pooled(Job):
    """A job of a pool whose worker ends with anything but an ordinary exception: then it would lose
    the job, and the caller would wait for its result permanently."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except DivergenceError as error:
            raise DivergedJob(error) from None


def _apply_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def apply_async(
        self: Any,
        func: Callable[..., Any],
        args: Any = (),
        kwds: Any = None,
        callback: Any = None,
        error_callback: Any = None,
    ) -> Any:
        session = current()
        kwds = {} if kwds is None else kwds
        if session is None:
            return original(self, func, args, kwds, callback, error_callback)
        lane = session.lanes.spawn()
        job = _Pooled(session, lane, func)
        told = [_called_back(session, lane, fn) for fn in (callback, error_callback)]
        return _given(job, put=lambda: original(self, job, args, kwds, *told))

    return apply_async


def _map_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def map_async(
        self: Any,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        mapper: Callable[..., Any],
        chunksize: int | None = None,
        callback: Any = None,
        error_callback: Any = None,
    ) -> Any:
        session = current()
        if session is None:
            return original(self, func, iterable, mapper, chunksize, callback, error_callback)
        lane = session.lanes.current()
        work = list(_work_of(session, lane, func, iterable))
        told = [
            _called_back(session, lane.child(), fn) if fn is not None else None
            for fn in (callback, error_callback)
        ]
        run = _run_starred if mapper.__name__ == "starmapstar" else _run
        jobs = [job for job, _ in work]
        return _given(*jobs, put=lambda: original(self, run, work, _mapped, chunksize, *told))

    return map_async


def _imap(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def imap(self: Any, func: Any, iterable: Any, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return original(self, func, iterable, *args, **kwargs)
        # The iterable is drawn from in a thread of the pool: it has a lane of its own.
        work = _work_of(session, session.lanes.spawn(), func, iterable)
        return original(self, _run, work, *args, **kwargs)

    return imap


_POOL = {
    "apply_async": _apply_async,
    "_map_async": _map_async,
    "imap": _imap,
    "imap_unordered": _imap,
}


def _given(*jobs: Job, put: Callable[[], Any]) -> Any:
    """Give ``jobs`` to the pool, which may be closed."""
    try:
        return put()
    except BaseException:
        for job in jobs:
            job.drop()
        raise


def _called_back(session: PatchedSession, lane: Lane, fn: Callable[..., Any] | None) -> Any:
    """``fn`` is called in a thread of the pool, and belongs to the job all the same."""
    if fn is None:
        return None

    def call(result: Any) -> None:
        token = enter_session(session)
        try:
            with session.lanes.inside(lane):
                fn(result)
        finally:
            leave_session(token)

    return call


def _work_of(
    session: PatchedSession, lane: Lane, func: Callable[..., Any], iterable: Iterable[Any]
) -> Iterator[tuple[Job, Any]]:
    for item in iterable:
        yield _Pooled(session, lane.child(), func), item


def _run(work: tuple[Job, Any]) -> Any:
    job, item = work
    return job(item)


def _run_starred(work: tuple[Job, Any]) -> Any:
    job, items = work
    return job(*items)


def _mapped(batch: tuple[Callable[..., Any], Iterable[Any]]) -> list[Any]:
    return list(map(*batch))
