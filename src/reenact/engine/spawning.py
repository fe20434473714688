"""Giving every task its lane when it is spawned.

Wrapped is the place where all of them pass, ``BaseEventLoop.create_task``; and the places where a
loop makes tasks that the program has not asked for.
"""

from __future__ import annotations

import sys
import threading
from asyncio import BaseEventLoop, Runner, Task, ensure_future, isfuture, wait_for
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any

from reenact.engine import loops
from reenact.engine.current import OUTSIDE, VARIABLE, current, enter, leave, outside
from reenact.engine.lanes import Lane, Lanes, running_loop
from reenact.engine.patches import Patch
from reenact.engine.tasks import make_task
from reenact.engine.threads import PLUMBING, is_within

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["stay", "task_patches"]


async def _forgotten() -> AsyncGenerator[None, None]:
    yield


def _closing() -> type:
    closing: Any = _forgotten().aclose()
    closing.close()
    return type(closing)


_CLOSING = _closing()
"""What a loop makes a task of when a generator was forgotten."""

_LIBRARIES = (
    *("httpx", "httpcore", "httpx2", "httpcore2", "aiohttp", "websockets", "anyio"),
    *PLUMBING,
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
    session: Session, make: Callable[..., Any], loop: Any, coro: Any, kwargs: dict[str, Any]
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


def stay(session: Session, function: Callable[..., Any], *args: Any) -> Coroutine[Any, Any, Any]:
    """``await function(*args)`` in the lane of who calls this, in whatever task, however that is
    made: libraries make eager ones past their loop."""
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
        if not loops.is_ours(loop) and loop.get_task_factory() is None:
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
        token = enter(OUTSIDE)
        try:
            original(self, generator)
        finally:
            leave(token)

    return finalize


def _shutdown(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same at the end of the loop. What has run to its end needs no closing."""

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
    """Close what a library left open, in no session. A failure is told as asyncio tells it."""
    try:
        await loops.create_task(loop, generator.aclose(), name="close", context=outside())
    except Exception as error:  # noqa: BLE001 - code of a library, which may fail in any way
        told = f"an error occurred during closing of asynchronous generator {generator!r}"
        loop.call_exception_handler({"message": told, "exception": error, "asyncgen": generator})


def _is_a_librarys(generator: Any) -> bool:
    frame = generator.ag_frame
    module = "" if frame is None else frame.f_globals.get("__name__", "")
    return is_within(module, _LIBRARIES)
