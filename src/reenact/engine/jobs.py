"""Jobs of executors: each in a lane of its own, taken when it is submitted.

Covered are ``ThreadPoolExecutor`` (and with it ``to_thread`` and ``run_in_executor``), anyio's
worker threads and ``multiprocessing.pool.ThreadPool``. Their workers are plumbing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from reenact.engine.current import OUTSIDE, VARIABLE, current, enter, leave
from reenact.engine.lanes import Lane
from reenact.engine.patches import LatePatch, Patch
from reenact.engine.tasks import lane_hash
from reenact.format.schedule import DROPPED

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["is_telling", "job_patches", "telling"]

_local = threading.local()
"""``tells``: a callback of a job's future runs here. ``told``: anyio's worker is about to tell the
result of this job, in no context of ours."""


def job_patches() -> list[Patch | LatePatch]:
    """The patches of this module."""
    anyio = "anyio._backends._asyncio"
    return [
        Patch(ThreadPoolExecutor, "submit", _submit),
        LatePatch(
            "concurrent.futures.process",
            lambda module: module.ProcessPoolExecutor,
            "submit",
            _submit_to_processes,
        ),
        LatePatch(
            anyio, lambda module: module.AsyncIOBackend, "run_sync_in_worker_thread", _anyio_worker
        ),
        *(
            LatePatch("multiprocessing.pool", lambda module: module.ThreadPool, name, wrap)
            for name, wrap in _POOL.items()
        ),
    ]


class _Job:
    """``fn`` in a lane of its own. It is known from when it is spawned until it has ended."""

    def __init__(self, session: Session, lane: Lane, fn: Callable[..., Any]) -> None:
        self.session = session
        self.lane = lane
        self.begun = False
        self._fn = fn
        self._settled = False
        session.conductor.job_waits(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._begin()
        try:
            with self.inside():
                return self._fn(*args, **kwargs)
        finally:
            self._done()

    def _begin(self) -> None:
        self.begun = True
        if not self._settle():  # given up, and begun all the same
            self.session.conductor.job_waits(self)
        self.session.conductor.job_begins(self)

    def _settle(self) -> bool:
        with self.session.lock:
            first, self._settled = not self._settled, True
        return first

    def drop(self) -> None:
        """It will not begin any more, if it has not begun."""
        if self._settle():
            if self.session.writes:
                self.session.record_delivery(self.lane.name, DROPPED)
            self.session.conductor.job_dropped(self)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What runs here belongs to the job."""
        token = enter(self.session)
        try:
            with self.session.lanes.inside(self.lane):
                yield
        finally:
            leave(token)

    def _done(self) -> None:
        # Its result takes a way that is not seen: the worker is not at rest at once.
        self.session.conductor.job_ends(goes_on=True)


# ThreadPoolExecutor


def _submit(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            if VARIABLE.get() is OUTSIDE:
                fn = _called_outside(fn)
            return original(self, fn, *args, **kwargs)
        job = _Submitted(session, session.lanes.spawn(), fn, self)
        try:
            future = original(self, job, *args, **kwargs)
        except BaseException:
            job.drop()
            raise
        job.attach(future)
        return future

    return submit


def _called_outside(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        token = enter(OUTSIDE)
        try:
            return fn(*args, **kwargs)
        finally:
            leave(token)

    return call


class _Submitted(_Job):
    """A job with a future. It has ended when everybody has been told its result."""

    def __init__(
        self, session: Session, lane: Lane, fn: Callable[..., Any], executor: ThreadPoolExecutor
    ) -> None:
        super().__init__(session, lane, fn)
        self._queue = executor._work_queue
        self._attached = threading.Lock()
        self._attached.acquire()

    def attach(self, future: Any) -> None:
        """``future`` is this job's. Nobody else has seen it yet."""
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
        before = is_telling()
        _local.tells = True
        try:
            with self.inside():
                fn(future)
        finally:
            _local.tells = before

    def told(self) -> None:
        """Everybody knows the result, or that there will be none."""
        if self.begun:
            self.session.conductor.job_ends(goes_on=not self._queue.empty())
        else:
            self.drop()


class _JobFuture(Future[Any]):
    """A future whose callbacks run in the lane of its job, also when they come too late for it.
    Sets of them iterate by lane."""

    job: _Submitted

    def __hash__(self) -> int:
        return lane_hash(self.job.lane.name)

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        job = self.job  # not ourselves: that would be a circle
        super().add_done_callback(lambda future: job.tell(fn, future))

    def _invoke_callbacks(self) -> None:
        try:
            super()._invoke_callbacks()  # type: ignore[misc]
        finally:
            self.job.told()


_JobFuture.__name__ = _JobFuture.__qualname__ = "Future"  # as people see it in a repr


def is_telling() -> bool:
    """Is this a callback of a job's future? What it posts to a loop comes from the job."""
    return getattr(_local, "tells", False)


def _submit_to_processes(original: Callable[..., Any]) -> Callable[..., Any]:
    """A job in another process is in no lane of ours; its end wakes who waits for it."""

    @wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future = original(self, fn, *args, **kwargs)
        session = current()
        if session is not None:
            conductor = session.conductor
            conductor.helper_comes()
            future.add_done_callback(lambda _: conductor.helper_goes())
        return future

    return submit


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


class _Told(_Job):
    """A job whose result is told right after it, by the same thread."""

    def _done(self) -> None:
        _local.told = self


@contextmanager
def telling() -> Iterator[Session | None]:
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
        job.session.conductor.job_ends()


# ThreadPool


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
        job = _Job(session, lane, func)
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


def _given(*jobs: _Job, put: Callable[[], Any]) -> Any:
    """Give ``jobs`` to the pool, which may be closed."""
    try:
        return put()
    except BaseException:
        for job in jobs:
            job.drop()
        raise


def _called_back(session: Session, lane: Lane, fn: Callable[..., Any] | None) -> Any:
    """``fn`` is called in a thread of the pool, and belongs to the job all the same."""
    if fn is None:
        return None

    def call(result: Any) -> None:
        token = enter(session)
        try:
            with session.lanes.inside(lane):
                fn(result)
        finally:
            leave(token)

    return call


def _work_of(
    session: Session, lane: Lane, func: Callable[..., Any], iterable: Iterable[Any]
) -> Iterator[tuple[_Job, Any]]:
    for item in iterable:
        yield _Job(session, lane.child(), func), item


def _run(work: tuple[_Job, Any]) -> Any:
    job, item = work
    return job(item)


def _run_starred(work: tuple[_Job, Any]) -> Any:
    job, items = work
    return job(*items)


def _mapped(batch: tuple[Callable[..., Any], Iterable[Any]]) -> list[Any]:
    return list(map(*batch))
