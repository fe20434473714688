"""Timers, posts from other threads, and timed waits: deliveries that no boundary makes.

Each has a number in its lane. While recording, what fires waits for the loop to be at rest and is
written down; in a replay it fires when its turn comes in the recorded order, not by the clock, and
one that never fired in the recording never does. At the end of the recording the clock takes over.
"""

from __future__ import annotations

import queue
import threading
from asyncio import BaseEventLoop, Handle, TimerHandle
from collections.abc import Callable
from contextvars import Context
from functools import wraps
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic
from reenact.engine import loops
from reenact.engine.current import current
from reenact.engine.desk import Desk
from reenact.engine.patches import LatePatch, Patch
from reenact.engine.spawning import telling
from reenact.engine.waiter import Waiter

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["timer_patches"]

_ident = threading.get_ident
_skew = threading.local()
"""Seconds by which timed waits of this thread ended early, in a replay."""


def timer_patches() -> list[Patch | LatePatch]:
    """The patches of this module."""
    return [
        Patch(BaseEventLoop, "call_at", _call_at),
        Patch(BaseEventLoop, "call_soon_threadsafe", _call_soon_threadsafe),
        Patch(threading.Condition, "wait", _wait),
        # They compute what is left of a time-out; after a wait that ended early nothing is.
        Patch(threading, "_time", _thread_time),
        Patch(queue, "time", _thread_time),
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
        if session is None or not session.paces:
            return original(self, when, callback, *args, context=context)
        desk = session.desk(self)
        handle = _Timer(when, callback, args, self, context)
        handle.arm(session, desk)
        return handle

    return call_at


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
            self._arm_replay(desk, lane.name, name)

    def _arm_recording(self, session: Session, desk: Desk, lane: str, name: str) -> None:
        def fire() -> bool:
            if self.cancelled():
                return False
            session.record_delivery(lane, name)
            desk.run_now(self)
            return True

        self._outer = loops.call_at(
            desk.loop, self._when, desk.submit, fire, context=desk.own_context
        )

    def _arm_replay(self, desk: Desk, lane: str, name: str) -> None:
        def fire() -> bool:
            if self.cancelled():
                return False
            desk.skip_to(self._when)
            desk.run_now(self)
            return True

        def by_the_clock() -> None:
            desk.run_in_loop(self._schedule, desk)

        self._waiter = Waiter((lane, name), lane, desk, fire=fire, real=by_the_clock)
        desk.expect(self._waiter)

    def _schedule(self, desk: Desk) -> None:
        if not self.cancelled():
            self._outer = loops.call_at(
                desk.loop, self._when, desk.run_now, self, context=desk.own_context
            )

    def cancel(self) -> None:
        if self._outer is not None:
            self._outer.cancel()
        if self._waiter is not None:
            self._conductor.forget(self._waiter)
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
    if not session.paces or loop._thread_id in (None, _ident()):
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
        waiter = Waiter(
            (lane.name, name), lane.name, desk, fire=fire, real=lambda: desk.run_in_loop(fire)
        )
        with session.conductor.lock:
            session.conductor.expect(waiter)
            session.conductor.advance()
        desk.post_from_anywhere()
    return handle


# Timed waits of threads


def _thread_time(original: Callable[[], float]) -> Callable[[], float]:
    def time() -> float:
        skew: float = getattr(_skew, "seconds", 0.0)
        return original() + skew

    return time


def _wait(original: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(original)
    def wait(self: Any, timeout: float | None = None) -> bool:
        if timeout is None or timeout <= 0:
            return original(self, timeout)
        session = current()
        if session is None or not session.paces:
            return original(self, timeout)
        waiter = _TimedWait(session, timeout)
        if not waiter.wait_for(self):
            return original(self, waiter.left())
        return not waiter.in_vain

    return wait


class _TimedWait(Waiter):
    """A thread in a timed wait. The program wakes it by notifying; in vain it waits until its time
    is up, while recording, or until its turn, in a replay."""

    __slots__ = ("_deadline", "_lane", "_session", "by_the_clock", "in_vain")

    def __init__(self, session: Session, timeout: float) -> None:
        self._session = session
        self._lane = session.lanes.current()
        self._deadline = monotonic() + timeout
        token = (self._lane.name, f"wait:{self._lane.waits + 1}")
        super().__init__(token, self._lane.name, session.runner(), real=self._go_by_the_clock)
        self.polls = True
        self.in_vain = False
        self.by_the_clock = False

    def left(self) -> float:
        """Seconds until its time is up."""
        return max(0.0, self._deadline - monotonic())

    def wait_for(self, condition: Any) -> bool:
        """As ``Condition.wait`` does it, with a gate that can be opened by others, too.

        False when the recording has nothing to say about this wait.
        """
        conductor = self._session.conductor
        replays = conductor.order is not None
        with conductor.lock:
            conductor.arrive(self.runner)
            if conductor.is_exhausted():
                return False
        condition._waiters.append(self.prepare())
        saved = condition._release_save()
        try:
            if replays:
                conductor.block(self)
            elif not self.gate.acquire(timeout=self.left()):
                # Others may still be busy with what they got: perhaps they notify us yet.
                conductor.hand_over(self.runner, self._give_up)
        finally:
            condition._acquire_restore(saved)
            if (self.in_vain or self.by_the_clock) and self.gate in condition._waiters:
                condition._waiters.remove(self.gate)
        if self.in_vain:
            self._lane.waits += 1
            if replays:
                _skew.seconds = getattr(_skew, "seconds", 0.0) + self.left()
        return not self.by_the_clock

    def _give_up(self) -> None:
        if not self.gate.acquire(blocking=False):
            self.in_vain = True
            self._session.record_delivery(self.lane, f"wait:{self._lane.waits + 1}")

    def hand_over(self) -> bool:
        """Its turn to have waited in vain, in a replay."""
        try:
            self.gate.release()
        except RuntimeError:
            return False  # the program was quicker; its next wait may be the one that is in vain
        self.delivered = self.in_vain = True
        return True

    def _go_by_the_clock(self) -> None:
        try:
            self.gate.release()
        except RuntimeError:
            return  # notified in the meantime
        self.delivered = self.by_the_clock = True
