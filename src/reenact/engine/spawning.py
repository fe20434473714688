"""Giving every task, thread and job its lane when it is spawned.

Wrapped are the places where all of them pass: ``BaseEventLoop.create_task``, ``Thread.start``,
``ThreadPoolExecutor.submit`` and anyio's worker threads. Threads that are plumbing (the workers of
an executor, asyncio's own helpers) take no number: how many there are depends on timing.
"""

from __future__ import annotations

import threading
from asyncio import BaseEventLoop, Runner, Task, isfuture
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context
from functools import wraps
from typing import TYPE_CHECKING, Any

from reenact.engine import loops
from reenact.engine.current import OUTSIDE, VARIABLE, current, enter, leave
from reenact.engine.lanes import Lane
from reenact.engine.patches import LatePatch, Patch
from reenact.engine.tasks import hash_future, make_task

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["spawn_patches", "telling"]

_PLUMBING = ("asyncio", "concurrent.futures", "multiprocessing", "anyio", "logging", "reenact")

_main = threading.local()
"""``asyncio.run`` is about to make its main task, which stays in its caller's lane."""


def spawn_patches() -> list[Patch | LatePatch]:
    """The patches of this module."""
    return [
        Patch(BaseEventLoop, "create_task", _create_task),
        Patch(BaseEventLoop, "run_until_complete", _run_until_complete),
        Patch(Runner, "run", _run),
        Patch(threading.Thread, "start", _start),
        Patch(ThreadPoolExecutor, "submit", _submit),
        LatePatch(
            "anyio._backends._asyncio",
            lambda module: module.AsyncIOBackend,
            "run_sync_in_worker_thread",
            _anyio_worker,
        ),
    ]


# Tasks


def _create_task(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def create_task(self: Any, coro: Any, *, context: Context | None = None, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return original(self, coro, context=context, **kwargs)
        factory = self.get_task_factory()
        make = make_task if factory is None else _made_by(original)
        return _in_own_lane(session, make, self, coro, context, kwargs)

    return create_task


def _made_by(original: Callable[..., Any]) -> Callable[..., Any]:
    """The user's own task factory makes the task."""
    return lambda loop, coro, _, **kwargs: original(loop, coro, **kwargs)


def _in_own_lane(
    session: Session,
    make: Callable[..., Any],
    loop: Any,
    coro: Any,
    context: Context | None,
    kwargs: dict[str, Any],
) -> Any:
    if context is not None:
        _carry(session, context)
    lanes = session.lanes
    if getattr(_main, "adopts", False):
        _main.adopts = False
        lane = lanes.current()
    else:
        lane = lanes.spawn()
    with lanes.spawning(lane):
        task = make(loop, coro, lane.name, context=context, **kwargs)
    lanes.bind_task(task, lane)
    return task


def _foreign_factory(loop: Any, coro: Any, *, context: Context | None = None, **kwargs: Any) -> Any:
    """For a loop whose methods cannot be wrapped."""
    session = current()
    if session is None:
        return Task(coro, loop=loop, context=context, **kwargs)
    return _in_own_lane(session, make_task, loop, coro, context, kwargs)


def _carry(session: Session, context: Context) -> None:
    """A task with a context of its own is in the session all the same."""
    if context.get(VARIABLE) is not session:
        try:
            context.run(VARIABLE.set, session)
        except RuntimeError:
            pass  # it is entered right now, by somebody who is in no session


def _run(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def run(self: Any, coro: Any, *, context: Context | None = None) -> Any:
        session = current()
        if session is None:
            return original(self, coro, context=context)
        # A runner has a context of its own, made before the session was opened.
        _carry(session, context if context is not None else _own_context(self))
        loop = self.get_loop()
        if not loops.is_ours(loop) and loop.get_task_factory() is None:
            loop.set_task_factory(_foreign_factory)
        _main.adopts = True
        try:
            return original(self, coro, context=context)
        finally:
            _main.adopts = False

    return run


def _own_context(runner: Any) -> Context:
    runner._lazy_init()
    context: Context = runner._context
    return context


def _run_until_complete(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def run_until_complete(self: Any, future: Any) -> Any:
        if current() is None or isfuture(future):
            return original(self, future)
        _main.adopts = True
        try:
            return original(self, future)
        finally:
            _main.adopts = False

    return run_until_complete


# Threads


def _start(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def start(self: Any) -> None:
        session = current()
        if session is None:
            if VARIABLE.get() is OUTSIDE:
                self.run = _bound(self.run, OUTSIDE)
        elif _is_plumbing(self):
            self.run = _bound(self.run, OUTSIDE)
        else:
            self.run = _in_lane(self.run, session, session.lanes.spawn())
        original(self)

    return start


def _is_plumbing(thread: Any) -> bool:
    target = getattr(thread, "_target", None)
    modules = (type(thread).__module__, getattr(target, "__module__", None) or "")
    return any(
        module == name or module.startswith(f"{name}.") for module in modules for name in _PLUMBING
    )


def _bound(run: Callable[[], None], value: Any) -> Callable[[], None]:
    def bound_run() -> None:
        VARIABLE.set(value)
        run()

    return bound_run


def _in_lane(run: Callable[[], None], session: Session, lane: Lane) -> Callable[[], None]:
    conductor = session.conductor
    conductor.job_waits()

    def run_in_lane() -> None:
        conductor.job_begins()
        VARIABLE.set(session)
        try:
            with session.lanes.inside(lane):
                run()
        finally:
            conductor.job_ends()

    return run_in_lane


# Jobs of an executor


def _submit(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            if VARIABLE.get() is OUTSIDE:
                fn = _called_outside(fn)
            return original(self, fn, *args, **kwargs)
        job = _Job(session, session.lanes.spawn(), fn)
        try:
            future = original(self, job, *args, **kwargs)
        except BaseException:
            job.drop()
            raise
        hash_future(future, job.lane.name)
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


class _Job:
    """A job in its lane, from its first line until everybody has been told its result."""

    def __init__(self, session: Session, lane: Lane, fn: Callable[..., Any]) -> None:
        self._session = session
        self.lane = lane
        self._fn = fn
        self._attached = threading.Lock()
        self._attached.acquire()
        self._begun = False
        session.conductor.job_waits()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._begun = True
        self._session.conductor.job_begins()
        token = enter(self._session)
        try:
            with self._session.lanes.inside(self.lane):
                return self._fn(*args, **kwargs)
        finally:
            leave(token)
            self._attached.acquire()  # the worker must not tell the result before it is ours

    def attach(self, future: Any) -> None:
        """Be there when the result is told: that still happens in the job's lane."""
        tell = future._invoke_callbacks

        def invoke_callbacks() -> None:
            if not self._begun:
                self._session.conductor.job_dropped()
                tell()
                return
            token = enter(self._session)
            try:
                with self._session.lanes.inside(self.lane):
                    tell()
            finally:
                leave(token)
                self._session.conductor.job_ends()

        if future.cancelled():
            self._session.conductor.job_dropped()
        else:
            future._invoke_callbacks = invoke_callbacks
        self._attached.release()

    def drop(self) -> None:
        """It will never run."""
        self._session.conductor.job_dropped()


_telling = threading.local()
"""anyio's worker tells the result of a job after the job, in no context of ours."""


@contextmanager
def telling() -> Iterator[Session | None]:
    """The session of the job whose result this thread is about to tell, in its lane."""
    job: tuple[Session, Lane] | None = getattr(_telling, "job", None)
    if job is None:
        yield None
        return
    _telling.job = None
    session, lane = job
    try:
        with session.lanes.inside(lane):
            yield session
    finally:
        session.conductor.job_ends()


def _anyio_worker(original: Callable[..., Any]) -> Any:
    @wraps(original)
    async def run_sync_in_worker_thread(
        func: Callable[..., Any], args: tuple[Any, ...], *rest: Any, **kwargs: Any
    ) -> Any:
        session = current()
        if session is None:
            return await original(func, args, *rest, **kwargs)
        in_lane = _called_in_lane(func, session, session.lanes.spawn())
        return await original(in_lane, args, *rest, **kwargs)

    return staticmethod(run_sync_in_worker_thread)


def _called_in_lane(fn: Callable[..., Any], session: Session, lane: Lane) -> Callable[..., Any]:
    session.conductor.job_waits()

    def call(*args: Any) -> Any:
        session.conductor.job_begins()
        token = enter(session)
        try:
            with session.lanes.inside(lane):
                return fn(*args)
        finally:
            leave(token)
            _telling.job = session, lane

    return call
