"""Jobs of executors, and with them of ``asyncio.to_thread`` and ``run_in_executor``.

Loaded when the program imports ``concurrent.futures``, and not before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING, Any

from reenact.engine.current import OUTSIDE, VARIABLE, current, enter, leave
from reenact.engine.jobs import Job, called_back
from reenact.engine.lanes import Lane, lane_hash

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from reenact.engine.session import Session

__all__ = ["submit", "submit_to_processes"]


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


class _Submitted(Job):
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
        with called_back(), self.inside():
            fn(future)

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


def submit_to_processes(original: Callable[..., Any]) -> Callable[..., Any]:
    """``ProcessPoolExecutor.submit``: a job in another process is in no lane of ours; its end wakes
    who waits for it."""

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
