"""Patches of asyncio loops: lanes of tasks, timers, and callbacks posted by other threads.

Every task gets its lane in ``BaseEventLoop.create_task``, which all tasks pass; tasks that a loop
creates internally are handled where they are created. A task has the hash of its lane, so sets of tasks (``asyncio.wait``, ``TaskGroup``, ``as_completed``) iterate in the same order in
every run; by address the order would vary.

Timers and posts are deliveries without a boundary. Each has a number in its lane. While
recording, a timer that fires waits until the loop is quiescent and is then recorded. In a replay
it fires in its turn of the recorded order, not by the clock, and a timer that never fired in the
recording never fires. After the end of the recording, timers follow the clock. Loaded together
with ``asyncio``.

Life of a timer::

    call_at ──> armed ──recording: time is up──> wait for quiescence ──> recorded, runs
                  ├─ replay: its turn in the order ──> the loop's clock skips ahead, runs
                  ├─ cancel ──> skipped in the order
                  └─ end of the recording ──> by the clock

Invariants: a task has its lane before its first step. Reenact's own callbacks run outside every
session, so they are neither timers nor posts.

Relies on private details (CPython 3.11 to 3.14): ``BaseEventLoop._asyncgen_finalizer_hook``,
``_asyncgens``, ``_check_closed`` and ``_thread_id``, ``Runner._context``, ``TimerHandle._when``, the
name ``set`` in ``asyncio.tasks``, and the code objects of ``wait_for``, ``ensure_future`` and
``shutdown_default_executor``. Python 3.12 has no task in ``wait_for`` and a timer at the end of a
loop. ``tests/unit/engine/test_timers.py`` and ``test_tasks_and_threads.py`` notice a change.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
import threading
from asyncio import (
    BaseEventLoop,
    Handle,
    Runner,
    Task,
    TimerHandle,
    coroutines,
    current_task,
    ensure_future,
    isfuture,
    wait_for,
)
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextvars import Context
from functools import wraps
from types import FrameType
from typing import Any, ClassVar

from reenact.engine.lanes import Lane, Lanes, lane_hash, running_loop
from reenact.engine.patches import unpatched_loop
from reenact.engine.patches.patch import Patch
from reenact.engine.patches.ports import PatchedSession, current
from reenact.engine.patches.thread_pools import is_result_callback, reporting_session
from reenact.engine.patches.threads import INFRASTRUCTURE, is_within
from reenact.engine.scheduling.loop_scheduler import LoopScheduler
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.context import (
    OUTSIDE,
    VARIABLE,
    context_outside_sessions,
    enter_session,
    leave_session,
)

__all__ = [
    "OrderedCoroutines",
    "make_task",
    "run_in_caller_lane",
    "task_patches",
    "timer_patches",
]


class _Task(asyncio.Task[Any]):
    lane_hash: int

    def __hash__(self) -> int:
        return self.lane_hash


_Task.__name__ = _Task.__qualname__ = "Task"  # as people see it in a repr


def make_task(loop: Any, coro: Any, lane: str, **kwargs: Any) -> Any:
    """Return the task that ``loop.create_task`` creates without a task factory."""
    if loop.is_closed():
        raise RuntimeError("Event loop is closed")
    task = _Task.__new__(_Task)
    task.lane_hash = lane_hash(lane)  # before __init__, which needs it
    task.__init__(coro, loop=loop, **kwargs)  # type: ignore[misc]
    return task


class OrderedCoroutines:
    """``asyncio.as_completed`` makes tasks of a set of coroutines: by address, again.

    The module gets a ``set`` of its own, because a function that a program has imported by name
    could no longer be replaced.
    """

    places: ClassVar[list[str]] = ["asyncio.tasks.set"]

    def install(self) -> None:
        asyncio.tasks.set = _set  # type: ignore[attr-defined]

    def remove(self) -> None:
        del asyncio.tasks.set  # type: ignore[attr-defined]


def _set(items: Iterable[Any] = ()) -> Any:
    """A set; of coroutines in a session, something that iterates over them in their order."""
    given = list(items)
    if current() is not None and any(map(coroutines.iscoroutine, given)):
        return dict.fromkeys(given)
    return builtins.set(given)


async def _forgotten() -> AsyncGenerator[None, None]:
    yield


def _closing() -> type:
    closing: Any = _forgotten().aclose()
    closing.close()
    return type(closing)


_CLOSING = _closing()
"""Type of the coroutine that a loop runs to close a forgotten generator."""

_LIBRARIES = (
    *("httpx", "httpcore", "httpx2", "httpcore2", "aiohttp", "websockets", "anyio"),
    *INFRASTRUCTURE,
)
"""Whose asynchronous generators are not the program's own."""

_WAIT_FOR = wait_for.__code__
_ENSURE_FUTURE = ensure_future.__code__
_DEPTH = 6
"""Frames from ``wait_for`` to us, at most."""

_main = threading.local()
"""``asyncio.run`` is about to make its main task, which stays in its caller's lane."""


def task_patches() -> list[Patch]:
    """The patches of this module."""
    return [
        Patch(BaseEventLoop, "create_task", _create_task),
        Patch(BaseEventLoop, "run_until_complete", _run_until_complete),
        Patch(BaseEventLoop, "_asyncgen_finalizer_hook", _finalizer),
        Patch(BaseEventLoop, "shutdown_asyncgens", _shutdown),
        Patch(Runner, "run", _run),
    ]


# Tasks


def _create_task(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def create_task(self: Any, coro: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return original(self, coro, **kwargs)
        factory = self.get_task_factory()
        make = make_task if factory is None else _made_by(original)
        return _in_own_lane(session, make, self, coro, kwargs)

    return create_task


def _made_by(original: Callable[..., Any]) -> Callable[..., Any]:
    """The user's own task factory makes the task."""
    return lambda loop, coro, _, **kwargs: original(loop, coro, **kwargs)


def _in_own_lane(
    session: PatchedSession, make: Callable[..., Any], loop: Any, coro: Any, kwargs: dict[str, Any]
) -> Any:
    context = kwargs.get("context")
    if context is not None:
        _put(context, session)
    lanes = session.lanes
    if getattr(_main, "adopts", False):
        _main.adopts = False
        lane = lanes.current()
    elif _is_waited_for() or _stays(coro):
        lane = lanes.current()
    elif isinstance(coro, _CLOSING):
        # When a generator is found forgotten, and how long it takes to close what it had open, is
        # not the same in a replay: the numbers of the program's own tasks must not depend on it.
        lane = lanes.spawn_apart()
    else:
        lane = lanes.spawn()
    with lanes.spawning(lane):
        task = make(loop, coro, lane.name, **kwargs)
    lanes.bind_task(task, lane)
    return task


def _is_waited_for() -> bool:
    """Does ``asyncio.wait_for`` make the task? Then it stays in its caller's lane: a time-out
    does not move calls, and some versions of Python make no task there at all.

    They await what they are given themselves, so that ``wait_for`` stands above its tasks, too.
    """
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None or frame.f_back is None:
            return False
        if frame.f_back.f_code is _WAIT_FOR:
            return frame.f_code is _ENSURE_FUTURE
        frame = frame.f_back
    return False


def run_in_caller_lane(
    session: PatchedSession, function: Callable[..., Any], *args: Any
) -> Coroutine[Any, Any, Any]:
    """Return ``function(*args)`` as a coroutine in the lane of the caller.

    It stays there in any task, also in an eager one that a library creates without the loop.
    """
    return _stay(session.lanes, session.lanes.current(), function, args)


async def _stay(
    lanes: Lanes, lane: Lane, function: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    with lanes.inside(lane):
        return await function(*args)


def _stays(coro: Any) -> bool:
    return getattr(coro, "cr_code", None) is _stay.__code__


def _foreign_factory(loop: Any, coro: Any, **kwargs: Any) -> Any:
    """For a loop whose methods cannot be wrapped."""
    session = current()
    if session is None:
        return Task(coro, loop=loop, **kwargs)
    return _in_own_lane(session, make_task, loop, coro, kwargs)


def _put(context: Context, value: Any) -> None:
    """``context`` is in the session ``value``, or in none."""
    if context.get(VARIABLE) is not value:
        try:
            context.run(VARIABLE.set, value)
        except RuntimeError:
            pass  # it is entered right now, and nothing else can run in it


def _run(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def run(self: Any, coro: Any, *, context: Context | None = None) -> Any:
        session = current()
        if session is None or running_loop() is not None:
            return original(self, coro, context=context)
        loop = self.get_loop()
        if not unpatched_loop.is_standard_loop(loop) and loop.get_task_factory() is None:
            loop.set_task_factory(_foreign_factory)
        # A runner has a context of its own, made before the session was opened, and has it after.
        where: Context = self._context if context is None else context
        before = where.get(VARIABLE)
        _put(where, session)
        _main.adopts = True
        try:
            return original(self, coro, context=context)
        finally:
            _main.adopts = False
            _put(where, before)

    return run


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


def _finalizer(original: Callable[..., Any]) -> Callable[..., Any]:
    """Closing what a library left half read takes a task; a replay has less of that to close."""

    @wraps(original)
    def finalize(self: Any, generator: Any) -> None:
        if current() is None or not _is_a_librarys(generator):
            original(self, generator)
            return
        token = enter_session(OUTSIDE)
        try:
            original(self, generator)
        finally:
            leave_session(token)

    return finalize


def _shutdown(original: Callable[..., Any]) -> Callable[..., Any]:
    """Close the generators of libraries outside the session at the end of the loop."""

    @wraps(original)
    async def shutdown_asyncgens(self: Any) -> None:
        if current() is None:
            await original(self)
            return
        open_ = list(self._asyncgens)
        ended = [one for one in open_ if one.ag_frame is None]
        apart = [one for one in open_ if one.ag_frame is not None and _is_a_librarys(one)]
        self._asyncgens.difference_update([*ended, *apart])
        await original(self)
        for generator in apart:
            await _close(self, generator)

    return shutdown_asyncgens


async def _close(loop: Any, generator: Any) -> None:
    """Close a generator of a library, outside every session. Failures are reported as in asyncio."""
    try:
        await unpatched_loop.create_task(
            loop, generator.aclose(), name="close", context=context_outside_sessions()
        )
    except Exception as error:  # noqa: BLE001 - code of a library, which may fail in any way
        told = f"an error occurred during closing of asynchronous generator {generator!r}"
        loop.call_exception_handler({"message": told, "exception": error, "asyncgen": generator})


def _is_a_librarys(generator: Any) -> bool:
    frame = generator.ag_frame
    module = "" if frame is None else frame.f_globals.get("__name__", "")
    return is_within(module, _LIBRARIES)


_ident = threading.get_ident
_ENDING = BaseEventLoop.shutdown_default_executor.__code__


def timer_patches() -> list[Patch]:
    """The patches of this module."""
    return [
        Patch(BaseEventLoop, "call_at", _call_at),
        Patch(BaseEventLoop, "call_soon_threadsafe", _call_soon_threadsafe),
    ]


# Timers of a loop


def _call_at(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def call_at(
        self: Any,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        session = current()
        if session is None or not session.tracks_order or _is_at_its_end(self):
            return original(self, when, callback, *args, context=context)
        loop_scheduler = session.loop_scheduler(self)
        handle = _Timer(when, callback, args, self, context)
        handle.arm(session, loop_scheduler)
        return handle

    return call_at


def _is_at_its_end(loop: Any) -> bool:
    """Return whether the loop waits for its executor at its end.

    Since Python 3.12 that wait has a time-out, which is not a timer of the program.
    """
    task = current_task(loop)
    return task is not None and getattr(task.get_coro(), "cr_code", None) is _ENDING


class _Timer(TimerHandle):
    """A timer of the program. The loop does not know it until it fires."""

    __slots__ = ("_outer", "_scheduler", "_waiter")

    _outer: Any
    _waiter: Waiter | None
    _when: float

    def arm(self, session: PatchedSession, loop_scheduler: LoopScheduler) -> None:
        self._outer = self._waiter = None
        self._scheduler = session.scheduler
        lane = session.lanes.current()
        lane.timers += 1
        name = f"timer:{lane.timers}"
        if session.scheduler.order is None:
            self._arm_recording(session, loop_scheduler, lane.name, name)
        else:
            self._arm_replay(session, loop_scheduler, lane.name, name)

    def _arm_recording(
        self, session: PatchedSession, loop_scheduler: LoopScheduler, lane: str, name: str
    ) -> None:
        def fire() -> bool:
            if self.cancelled():
                return False
            session.in_flight.record_delivery(lane, name)
            self._run_now(loop_scheduler)
            return True

        self._outer = unpatched_loop.call_at(
            loop_scheduler.loop,
            self._when,
            loop_scheduler.submit,
            fire,
            context=loop_scheduler.own_context,
        )

    def _arm_replay(
        self, session: PatchedSession, loop_scheduler: LoopScheduler, lane: str, name: str
    ) -> None:
        def fire() -> bool:
            if self.cancelled():
                return False
            loop_scheduler.skip_to(self._when)
            self._run_now(loop_scheduler)
            return True

        def by_the_clock() -> None:
            loop_scheduler.run_in_loop(self._schedule, session, loop_scheduler, lane, name)

        self._waiter = Waiter((lane, name), lane, loop_scheduler, fire=fire, real=by_the_clock)
        loop_scheduler.expect(self._waiter)

    def _schedule(
        self, session: PatchedSession, loop_scheduler: LoopScheduler, lane: str, name: str
    ) -> None:
        if self.cancelled():
            return
        if session.scheduler.order is None:  # the run was forked, and is recorded
            self._arm_recording(session, loop_scheduler, lane, name)
        else:
            self._outer = unpatched_loop.call_at(
                loop_scheduler.loop,
                self._when,
                self._run_now,
                loop_scheduler,
                context=loop_scheduler.own_context,
            )

    def _run_now(self, loop_scheduler: LoopScheduler) -> None:
        self._outer = self._waiter = None
        loop_scheduler.run_now(self)

    def cancel(self) -> None:
        if self._outer is not None:
            self._outer.cancel()
        if self._waiter is not None:
            self._scheduler.forget(self._waiter)
        self._outer = self._waiter = None
        super().cancel()


# Posts of other threads to a loop, such as the result of a job


def _call_soon_threadsafe(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def call_soon_threadsafe(
        self: Any, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        session = current()
        if session is not None:
            return _post(session, self, original, callback, args, context)
        with reporting_session() as session:
            if session is None:
                return original(self, callback, *args, context=context)
            return _post(session, self, original, callback, args, context)

    return call_soon_threadsafe


def _post(
    session: PatchedSession,
    loop: Any,
    original: Callable[..., Any],
    callback: Callable[..., Any],
    args: tuple[Any, ...],
    context: Context | None,
) -> Any:
    if not session.tracks_order or (loop._thread_id == _ident() and not is_result_callback()):
        return original(loop, callback, *args, context=context)
    loop._check_closed()
    loop_scheduler = session.loop_scheduler(loop)
    lane = session.lanes.current()
    lane.posts += 1
    name = f"post:{lane.posts}"
    handle = Handle(callback, args, loop, context)

    def fire() -> bool:
        if handle.cancelled():
            return False
        if session.scheduler.order is None:
            session.in_flight.record_delivery(lane.name, name)
        loop_scheduler.run_now(handle)
        return True

    if session.scheduler.order is None:
        original(loop, loop_scheduler.submit, fire, context=loop_scheduler.own_context)
    else:

        def by_itself() -> None:
            recorded = session.scheduler.order is None  # the run was forked
            loop_scheduler.run_in_loop(*((loop_scheduler.submit, fire) if recorded else (fire,)))

        waiter = Waiter((lane.name, name), lane.name, loop_scheduler, fire=fire, real=by_itself)
        with session.scheduler.lock:
            session.scheduler.expect(waiter)
            session.scheduler.advance()
        loop_scheduler.post_from_anywhere()
    return handle
