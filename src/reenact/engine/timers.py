"""Timers of a loop, and what other threads post to it: deliveries that no boundary makes.

Each has a number in its lane. While recording, what fires waits for the loop to be at rest and is
written down; in a replay it fires when its turn comes in the recorded order, not by the clock, and
one that never fired in the recording never does. At the end of the recording the clock takes over.
"""

from __future__ import annotations

import threading
from asyncio import BaseEventLoop, Handle, TimerHandle, current_task
from collections.abc import Callable
from contextvars import Context
from functools import wraps
from typing import TYPE_CHECKING, Any

from reenact.engine import loops
from reenact.engine.current import current
from reenact.engine.desk import Desk
from reenact.engine.jobs import is_telling, telling
from reenact.engine.patches import Patch
from reenact.engine.waiter import Waiter

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["timer_patches"]

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
        if session is None or not session.paces or _is_at_its_end(self):
            return original(self, when, callback, *args, context=context)
        desk = session.desk(self)
        handle = _Timer(when, callback, args, self, context)
        handle.arm(session, desk)
        return handle

    return call_at


def _is_at_its_end(loop: Any) -> bool:
    """Does the loop wait for its executor, at its end? From Python 3.12 on it does so for a time, and
    that is no timer of the program: what one version has recorded another one replays."""
    task = current_task(loop)
    return task is not None and getattr(task.get_coro(), "cr_code", None) is _ENDING


class _Timer(TimerHandle):
    """A timer of the program. The loop does not know it until it fires."""

    __slots__ = ("_conductor", "_outer", "_waiter")

    _outer: Any
    _waiter: Waiter | None
    _when: float

    def arm(self, session: Session, desk: Desk) -> None:
        self._outer = self._waiter = None
        self._conductor = session.conductor
        lane = session.lanes.current()
        lane.timers += 1
        name = f"timer:{lane.timers}"
        if session.conductor.order is None:
            self._arm_recording(session, desk, lane.name, name)
        else:
            self._arm_replay(session, desk, lane.name, name)

    def _arm_recording(self, session: Session, desk: Desk, lane: str, name: str) -> None:
        def fire() -> bool:
            if self.cancelled():
                return False
            session.record_delivery(lane, name)
            self._run_now(desk)
            return True

        self._outer = loops.call_at(
            desk.loop, self._when, desk.submit, fire, context=desk.own_context
        )

    def _arm_replay(self, session: Session, desk: Desk, lane: str, name: str) -> None:
        def fire() -> bool:
            if self.cancelled():
                return False
            desk.skip_to(self._when)
            self._run_now(desk)
            return True

        def by_the_clock() -> None:
            desk.run_in_loop(self._schedule, session, desk, lane, name)

        self._waiter = Waiter((lane, name), lane, desk, fire=fire, real=by_the_clock)
        desk.expect(self._waiter)

    def _schedule(self, session: Session, desk: Desk, lane: str, name: str) -> None:
        if self.cancelled():
            return
        if session.conductor.order is None:  # the run was forked, and is recorded
            self._arm_recording(session, desk, lane, name)
        else:
            self._outer = loops.call_at(
                desk.loop, self._when, self._run_now, desk, context=desk.own_context
            )

    def _run_now(self, desk: Desk) -> None:
        self._outer = self._waiter = None
        desk.run_now(self)

    def cancel(self) -> None:
        if self._outer is not None:
            self._outer.cancel()
        if self._waiter is not None:
            self._conductor.forget(self._waiter)
        self._outer = self._waiter = None
        super().cancel()


# What another thread posts to a loop: the result of a job, first of all


def _call_soon_threadsafe(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def call_soon_threadsafe(
        self: Any, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        session = current()
        if session is not None:
            return _post(session, self, original, callback, args, context)
        with telling() as session:
            if session is None:
                return original(self, callback, *args, context=context)
            return _post(session, self, original, callback, args, context)

    return call_soon_threadsafe


def _post(
    session: Session,
    loop: Any,
    original: Callable[..., Any],
    callback: Callable[..., Any],
    args: tuple[Any, ...],
    context: Context | None,
) -> Any:
    if not session.paces or (loop._thread_id == _ident() and not is_telling()):
        return original(loop, callback, *args, context=context)
    loop._check_closed()
    desk = session.desk(loop)
    lane = session.lanes.current()
    lane.posts += 1
    name = f"post:{lane.posts}"
    handle = Handle(callback, args, loop, context)

    def fire() -> bool:
        if handle.cancelled():
            return False
        if session.conductor.order is None:
            session.record_delivery(lane.name, name)
        desk.run_now(handle)
        return True

    if session.conductor.order is None:
        original(loop, desk.submit, fire, context=desk.own_context)
    else:

        def by_itself() -> None:
            recorded = session.conductor.order is None  # the run was forked
            desk.run_in_loop(*((desk.submit, fire) if recorded else (fire,)))

        waiter = Waiter((lane.name, name), lane.name, desk, fire=fire, real=by_itself)
        with session.conductor.lock:
            session.conductor.expect(waiter)
            session.conductor.advance()
        desk.post_from_anywhere()
    return handle
