"""Scheduler of a session: one delivery at a time, each when the program is quiescent.

While recording, this makes the written order equal to the order that the program saw. A replay
repeats that order. A delivery goes to a thread, or to a loop with all its tasks
(:class:`~reenact.engine.scheduling.loop_scheduler.LoopScheduler`).

::

    recording:  hand_over ──> wait for quiescence ──> write event ──> runner is busy
    replay:     expect ──> head of the order? ──> quiescent? ──> deliver ──> runner is busy
                             │ no waiter requests the head
                             ├─ unreachable ──> skip, or stall if the replay must not miss calls
                             └─ all threads wait ──> stall ──> error in the waiter, or drop the head
    fork:       replay ──limit of the order──> go_live ──> recording

Invariants:

- ``lock`` is the session's lock. "Locked" in a docstring means that the caller holds it.
- ``order`` is the recorded order in a replay, and None while recording. In a fork it changes to
  None once, at the fork point.
- A delivery is dropped from the order before its runner becomes busy.
- A delivery is *unreachable* if the thread or job that received it in the recording has ended in
  the replay without requesting it, or was never started by a thread or job that has ended.
  Waiting for it is useless, so the head is skipped.
- ``lane_ends`` is called before ``job_ends``.
- After the last recorded delivery, timers follow the clock.
- A stall is reported when nothing has happened for ``STALL_SECONDS``, when every thread waits
  here or in an idle loop, or when the head is unreachable in a replay that fails without recorded
  calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from reenact._system import monotonic
from reenact.engine.lanes import Lane
from reenact.engine.scheduling.cpu_usage import Progress, progress_at
from reenact.engine.scheduling.delivery_order import Delivery, DeliveryOrder, DeliveryToken
from reenact.engine.scheduling.quiescence import GRACE_SECONDS, Quiescence, ThreadRegistry, Turn
from reenact.engine.scheduling.waiters import LoopRunner, Runner, Waiter, WaiterRegistry
from reenact.format.event import CHUNK

__all__ = [
    "STALL_SECONDS",
    "EndedLanes",
    "Scheduler",
    "StallHandler",
    "runner_thread",
]

_COUNTERS: Final[dict[str, Callable[[Lane], int]]] = {
    "post": lambda lane: lane.posts,
    "timer": lambda lane: lane.timers,
    "wait": lambda lane: lane.waits,
}
"""Families of deliveries that a lane numbers from 1, with a function for the last number used."""


class EndedLanes:
    """The ended lanes of one replay. The session's lock covers every use.

    ``is_unused`` returns whether a delivery belongs to a recorded call that the replay has not made.
    """

    def __init__(self, is_unused: Callable[[Delivery], bool]) -> None:
        self._is_unused = is_unused
        self._ended: dict[str, Lane] = {}

    def add(self, lane: Lane) -> None:
        """Mark ``lane`` as ended: nothing runs in it from now on."""
        self._ended[lane.name] = lane

    def is_unreachable(self, delivery: Delivery) -> bool:
        """Return whether no part of the program can request ``delivery`` any more.

        The caller has checked that no waiter requests it now.
        """
        if not self._ended:
            return False
        lane = self._ended.get(delivery.lane)
        return self._never_starts(delivery.lane) if lane is None else self._is_left(lane, delivery)

    def _never_starts(self, name: str) -> bool:
        """Return whether lane ``name``, or a lane it descends from, can no longer be started."""
        while name:
            parent, _, number = name.rpartition(".")
            lane = self._ended.get(parent)
            if lane is not None and number.isdecimal() and int(number) > lane.spawned:
                return True
            name = parent
        return False

    def _is_left(self, lane: Lane, delivery: Delivery) -> bool:
        """Return whether ``lane`` has ended without requesting ``delivery``."""
        token = delivery.token
        # Another lane may still read the response of a call that was made, such as a stream.
        if isinstance(token, int):
            return self._is_unused(delivery)
        family, _, number = token[1].partition(":")
        if family == CHUNK:
            return self._is_unused(delivery)
        last = _COUNTERS.get(family)
        return last is not None and number.isdecimal() and int(number) > last(lane)


_ident = threading.get_ident


def runner_thread(runner: Runner) -> int:
    """Return the ident of the thread that ``runner`` is, or that runs its loop."""
    return runner if isinstance(runner, int) else runner.ident


class StallHandler(Protocol):
    """Handler of a stall. Returns the error of the waiter, or None to drop the head."""

    def __call__(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None: ...


STALL_SECONDS = 5.0
"""Seconds without any progress after which a replay with threads is stalled."""

_SOON = 0.0005
_POLL = 0.01


class Scheduler:
    """Order of deliveries of one session.

    ``lock`` is the session's own; "locked" means that the caller holds it. ``order`` is the recorded
    one in a replay, None while recording. ``patience`` is the number of seconds that a replay can
    be idle before it counts as stalled. ``opener`` is the thread that opened the session, by
    default this one.
    """

    def __init__(
        self,
        lock: Any,
        order: DeliveryOrder | None,
        stalled: StallHandler,
        *,
        grace: float = GRACE_SECONDS,
        patience: float = STALL_SECONDS,
        opener: int | None = None,
    ) -> None:
        opener = _ident() if opener is None else opener
        self.lock = lock
        self.order = order
        self.patience = patience
        self.quiescence = Quiescence(lock, grace)
        self.threads = ThreadRegistry(opener=opener)
        self.waiters = WaiterRegistry()
        self.ended_lanes: EndedLanes | None = None
        """Set in a replay that is not forked."""
        self.fails_without_calls = False
        """The replay fails if it does not make a recorded call, instead of continuing."""
        self.at_limit: Callable[[], None] | None = None
        """Called in a forked run when everything before its fork point is delivered."""
        self.expects_point: Callable[[], bool] = lambda: False
        """Returns whether the call at the fork point is still to be made."""
        self._stalled = stalled
        self._closed: Callable[[], BaseException] | None = None
        self._given_up: set[DeliveryToken] = set()
        self._until_live: list[Any] = []
        self._activity = 0
        self.quiescence.give(opener)  # the opener continues with the program

    # Quiescence

    def arrive(self, runner: Runner) -> None:
        """Mark ``runner`` as quiescent: it makes its next call, waits, or has ended."""
        with self.lock:
            self._activity += 1
            if self.quiescence.remove(runner_thread(runner)) and self.order is not None:
                self.advance()

    def awaken(self, runner: Runner) -> None:
        """Mark ``runner`` as busy, because a part of the session has woken it."""
        with self.lock:
            self._activity += 1
            self.quiescence.add(runner_thread(runner))

    def wake(self, ident: int) -> Turn:
        """Return the turn of thread ``ident``, which this thread has woken.

        With or without the lock.
        """
        with self.lock:
            self._activity += 1
            return self.quiescence.wake(ident)

    def given(self, runner: Runner) -> None:
        """Mark ``runner`` as busy with a delivery that was just handed over. Locked."""
        self._activity += 1
        self.quiescence.give(runner_thread(runner))

    def holds_for(self, runner: Runner) -> bool:
        """Return whether ``runner`` is allowed to receive a delivery now. Locked."""
        return self.quiescence.holds_for(runner_thread(runner))

    # Who takes part

    def add_loop(self, loop_scheduler: LoopRunner) -> None:
        """Register the scheduler of a loop that the session uses."""
        with self.lock:
            self.quiescence.loops.add(loop_scheduler)

    def job_waits(self, job: Any, thread: Any = None) -> None:
        """Note that ``job``, or the thread that it is, was spawned and has not begun."""
        with self.lock:
            self._activity += 1
            self.threads.spawn(thread)
            self.quiescence.add(job)

    def thread_waits(self, lane: Any, thread: Any) -> Turn:
        """Return the turn in which ``thread``, which this thread starts, is allowed to begin."""
        with self.lock:
            self._activity += 1
            self.threads.spawn(thread)
            return self.quiescence.wake(lane)

    def job_takes_turn(self, job: Any) -> Turn:
        """Return the turn in which ``job``, given to a free worker, is allowed to begin."""
        return self.thread_waits(job, None)

    def job_begins(self, job: Any) -> None:
        """Note that ``job`` has begun in this thread."""
        with self.lock:
            self._activity += 1
            self.threads.begin()
            # The thread becomes busy before the job is removed, otherwise all would be quiescent
            # in between.
            self.quiescence.add(_ident())
            self.quiescence.remove(job)

    def job_dropped(self, job: Any, thread: Any = None) -> None:
        """Note that ``job`` will never begin."""
        with self.lock:
            self.threads.drop(thread)
            self.quiescence.drop(job)
            self._somebody_ended()

    def job_ends(self, thread: Any = None, *, goes_on: bool = False) -> None:
        """Note that the job of this thread, and perhaps the thread, has ended.

        With ``goes_on`` the thread takes its next job at once.
        """
        with self.lock:
            self.threads.end()
            # Joining threads continue, so they are busy before this thread is quiescent.
            for ident in self.threads.ended(thread):
                self.quiescence.add(ident)
            if not goes_on:
                self.quiescence.remove(_ident())
            self._somebody_ended()

    @contextmanager
    def thread_starts(self) -> Iterator[None]:
        """Mark this thread as busy while it waits for a thread to start or to end."""
        ident = _ident()
        self.quiescence.starting.add(ident)
        try:
            yield
        finally:
            self.quiescence.starting.discard(ident)

    def helper_comes(self) -> None:
        """Note a helper outside the session, which will wake it."""
        with self.lock:
            self.threads.help()

    def helper_goes(self) -> None:
        """Note that a helper has ended."""
        with self.lock:
            self.threads.helped()
            self._somebody_ended()

    @contextmanager
    def going_outside(self) -> Iterator[None]:
        """Mark a live call outside the session, so that a quiet run is not a stall."""
        threads = self.threads  # a forked child gets a registry of its own meanwhile
        with self.lock:
            threads.outside += 1
        try:
            yield
        finally:
            with self.lock:
                threads.outside -= 1
                self._activity += 1

    def thread_ended(self, thread: Any) -> None:
        """Wake the threads that join an infrastructure thread."""
        with self.lock:
            for ident in self.threads.ended(thread):
                self.quiescence.add(ident)

    def _somebody_ended(self) -> None:
        """Check the head again, because perhaps no thread is left to request it. Locked."""
        self._activity += 1
        if self.order is not None:
            self.advance()
            for loop_scheduler in self.quiescence.loops:
                loop_scheduler.post_from_anywhere()

    def after_fork(self) -> None:
        """Reset in a forked child, which has one thread and no waiters."""
        self.quiescence.after_fork()
        self.threads = ThreadRegistry()
        self.waiters.clear()

    # Progress

    def progress(self) -> Progress:
        """Return a snapshot of the activity so far."""
        return progress_at(self._activity)

    def is_quiet_since(self, before: Progress) -> bool:
        """Return whether nothing has happened, computed or run outside since ``before``."""
        return not self.threads.outside and before.is_quiet_until(self.progress())

    # Recorded order

    def try_now(self, runner: Runner, token: DeliveryToken | None) -> bool:
        """Hand over ``token`` if its turn is now; return whether it was handed over. Locked."""
        order = self.order
        # A late waiter was registered first, and its delivery is before the head.
        if token is None or self.waiters.late:
            return False
        if order is None:  # a forked run has turned live, and the token is from before that
            return True
        head = order.head()
        if (head is None or head.token != token) and not self._is_past(token):
            return False
        thread = runner_thread(runner)
        if not self.quiescence.holds_for(thread):
            return False
        order.drop(token)
        self._activity += 1
        self.quiescence.give(thread)
        self.look_for_limit()
        return True

    def _is_past(self, token: DeliveryToken) -> bool:
        """Return whether the order has passed ``token``. A token of a chunk can be unread."""
        if self.order is None or self.order.is_ahead(token):
            return False
        return isinstance(token, int) or token in self._given_up

    def expect(self, waiter: Waiter) -> None:
        """Register ``waiter``. If the session has ended, it gets its error at once. Locked."""
        self._activity += 1
        token = waiter.token
        if waiter.ident and not waiter.polls:
            self.threads.block(waiter.ident)
        self.waiters.add(waiter, late=token is not None and self._is_past(token))
        if self._closed is not None:
            self.close(self._closed)

    def forget(self, waiter: Waiter) -> None:
        """Remove ``waiter``, which does not wait any longer."""
        with self.lock:
            self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        """Remove ``waiter``; its thread counts as awake from now on. Locked."""
        self.threads.unblock(waiter.ident)
        self.waiters.remove(waiter)

    def has_waiters(self) -> bool:
        """Return whether there is a waiter. Locked."""
        return bool(self.waiters)

    def next_waiter(self) -> Waiter | None:
        """Return the next waiter: one that the order has passed, else the waiter of the head. Locked."""
        if self.waiters.late:
            return self.waiters.late[0]
        head = self.order.head() if self.order is not None else None
        return None if head is None else self.waiters.by_token.get(head.token)

    def advance(self) -> None:
        """Deliver to threads in order, until a loop has the turn or nothing is ready. Locked."""
        while self.has_waiters() and self._step():
            pass

    def _step(self) -> bool:
        """Handle the head of the order. Return whether to look at the next one. Locked."""
        waiter = self.next_waiter()
        if waiter is None:
            return self._nobody_asks()
        if waiter.fire is not None:
            # A loop delivers in its own thread, when it is quiescent.
            if not isinstance(waiter.runner, int):
                waiter.runner.post_from_anywhere()
            return False
        if self.holds_for(waiter.runner):
            return self.deliver(waiter)
        # Other threads are still busy. The waiter's thread itself checks for their quiescence from
        # now on, because a thread that blocks elsewhere never reports that it is quiescent.
        self.quiescence.prod()
        waiter.nudge()
        return False

    def deliver(self, waiter: Waiter) -> bool:
        """Deliver to ``waiter``; return False if it is no longer wanted. Locked."""
        self._remove(waiter)
        # Dropped before the runner is busy: it can request the next delivery immediately.
        if waiter.token is not None and self.order is not None:
            self.order.drop(waiter.token)
        handed = waiter.hand_over()
        if handed:
            self.given(waiter.runner)
        self.look_for_limit()
        return handed

    def _nobody_asks(self) -> bool:
        """Handle a head that no waiter requests. Return whether there is a new head. Locked.

        At the end of the recording, timers follow the clock. If every thread waits here, the head
        will never be requested.
        """
        if self._is_unreachable():
            return self.skip_unreachable()
        if self.is_exhausted() and self.quiescence.is_complete():
            self.release_timers()
        return self.has_waiters() and self.threads.all_wait() and self.stall()

    def lane_ends(self, lane: Lane) -> None:
        """Note that nothing runs in ``lane`` any more. Called before :meth:`job_ends`."""
        with self.lock:
            if self.ended_lanes is not None:
                self.ended_lanes.add(lane)

    def skip_unreachable(self) -> bool:
        """Drop the head, which no waiter requests, if it is unreachable. Return whether it was dropped.

        The end of the replay reports its call as missing. A replay that fails without recorded
        calls reports it now. Locked.
        """
        order = self.order
        head = order.head() if order is not None else None
        if order is None or head is None or not self._is_unreachable():
            return False
        if self.fails_without_calls:
            return self.stall()
        self._drop(order, head)
        return True

    def _is_unreachable(self) -> bool:
        """Return whether no part of the program can request the head any more. Locked."""
        head = self.order.head() if self.order is not None else None
        return head is not None and (
            self.ended_lanes is not None and self.ended_lanes.is_unreachable(head)
        )

    def _drop(self, order: DeliveryOrder, head: Delivery) -> None:
        order.drop(head.token)
        self._given_up.add(head.token)

    def is_exhausted(self) -> bool:
        """Return whether all recorded deliveries were handed over and none can follow. Locked."""
        order = self.order
        return order is not None and order.limit is None and order.head() is None

    def release_timers(self) -> None:
        """Let the remaining timers follow the clock. Locked."""
        for waiter in list(self.waiters.by_token.values()):
            if waiter.real is not None:
                self._remove(waiter)
                waiter.real()

    def skip(self, *tokens: DeliveryToken) -> None:
        """Skip deliveries that will never be requested."""
        with self.lock:
            if self.order is not None:
                for token in tokens:
                    self.order.skip(token)
                self.look_for_limit()
                self.advance()

    def look_for_limit(self) -> None:
        """Call ``at_limit`` if everything before the limit is delivered. Locked."""
        order = self.order
        if self.at_limit is not None and order is not None and order.head() is None:
            self.at_limit()

    def give_up(self, make: Callable[[], BaseException]) -> None:
        """Stop all deliveries: present and future waiters raise the error of ``make``.

        Timers that had a recorded turn fire. Other timers follow the clock. Locked.
        """
        self._closed = make
        self.quiescence.free()
        for waiter in self.waiters.all():
            if waiter.real is None or self._is_to_come(waiter):
                waiter.error = make()
                self._interrupt(waiter)
            else:
                self._remove(waiter)
                waiter.real()
        self._release_the_live()

    def _is_to_come(self, waiter: Waiter) -> bool:
        order, token = self.order, waiter.token
        return order is not None and token is not None and order.is_to_come(token)

    def close(self, make: Callable[[], BaseException]) -> None:
        """Stop all deliveries, because the session ends. Timers follow the clock. Locked."""
        self._closed = make
        self.release_timers()
        self.give_up(make)

    # Stalls

    def is_stuck(self, loop_scheduler: LoopRunner) -> bool:
        """Return whether the idle ``loop_scheduler`` is the last one that could request the head.

        Locked.
        """
        return self.next_waiter() is None and self.threads.all_wait(loop_scheduler)

    def stall(self) -> bool:
        """Report that the head will never be requested. Return whether it was dropped. Locked."""
        head = self.order.head() if self.order is not None else None
        waiter = self.waiters.first()
        if head is None and waiter is None:
            return False
        error = self._stalled(head, waiter)
        if self._closed is not None:  # all waiters of a strict replay have their error
            return False
        if error is not None and waiter is not None:
            waiter.error = error
            self._interrupt(waiter)
            return False
        if head is None or self.order is None:
            return False
        self._drop(self.order, head)
        return True

    def _interrupt(self, waiter: Waiter) -> None:
        """Let ``waiter`` continue, in its own thread or loop."""
        if waiter.fire is None or isinstance(waiter.runner, int):
            self.deliver(waiter)
        else:
            self._remove(waiter)
            waiter.runner.run_in_loop(waiter.fire)

    # Forked runs: from the recorded to the live order

    def _wait_until_live(self) -> None:
        """Release the lock until the recorded order ends, or for ``patience``. Locked, once."""
        if self._closed is not None:
            raise self._closed()
        gate = threading.Lock()
        gate.acquire()
        # The gate is registered before the lock is released, so that no switch to live is missed.
        self._until_live.append(gate)
        before = self.progress()
        self.lock.release()
        try:
            comes = gate.acquire(timeout=self.patience)
        finally:
            self.lock.acquire()
        if not comes:
            self.look_for_miss(before)

    def look_for_miss(self, before: Progress) -> None:
        """Check whether an idle run will ever reach its fork point.

        If not, the threads that wait for the point continue, and their next calls raise. Locked.
        """
        if self.order is None or not self.expects_point() or not self.is_quiet_since(before):
            return
        if self._is_asked_for():
            self.advance()
        else:
            self._stalled(self.order.head(), self.waiters.first())
            self.go_live()

    def go_live(self) -> None:
        """Switch from replaying the order to recording it. Locked."""
        self.order = None
        for waiter in self.waiters.all():
            waiter.live = True
            self._remove(waiter)
            if waiter.real is not None:
                waiter.real()
            elif waiter.fire is None or isinstance(waiter.runner, int):
                waiter.hand_over()
            else:
                waiter.runner.run_in_loop(waiter.fire)
        self._release_the_live()
        for loop_scheduler in self.quiescence.loops:
            loop_scheduler.post_from_anywhere()

    def _release_the_live(self) -> None:
        """Open the gates of :meth:`_wait_until_live`. Locked."""
        gates, self._until_live = self._until_live, []
        for gate in gates:
            gate.release()

    def _is_asked_for(self) -> bool:
        """Return whether a waiter can take the head. A loop that does not run cannot."""
        waiter = self.next_waiter()
        if waiter is None or isinstance(waiter.runner, int) or waiter.fire is None:
            return waiter is not None
        running: bool = waiter.runner.loop.is_running()
        return running

    # While recording

    def take_turn(self, runner: Runner) -> None:
        """Wait until something may be handed over to ``runner``, while recording.

        In a forked run, the recorded part of the order comes first. Locked, once: the lock is
        released while this waits. Before the caller releases it, it writes the event and calls
        :meth:`given`.
        """
        if self.order is not None:
            self.arrive(runner)
        while self.order is not None:
            self._wait_until_live()
        while not self.holds_for(runner):
            self.quiescence.sleep()

    def hand_over(self, runner: Runner, act: Callable[[], Any]) -> Any:
        """Perform ``act``, which writes an event, in the turn of ``runner``, while recording."""
        with self.lock:
            self.take_turn(runner)
            result = act()
            self.given(runner)
            return result

    # In a replay

    def wait(self, waiter: Waiter) -> None:
        """Block this thread until ``waiter``'s turn. Raises what a stall raises."""
        waiter.prepare()
        with self.lock:
            self.expect(waiter)
            self.quiescence.remove(runner_thread(waiter.runner))
        self.block(waiter)
        if waiter.error is not None:
            raise waiter.error

    def block(self, waiter: Waiter) -> bool:
        """Wait at the gate of an expected ``waiter``. Return False if it became free instead.

        The lock is not held at the gate. This thread itself looks for its turn and for a stall
        whenever the gate stays closed, because no other thread might be left to do so.
        """
        with self.lock:
            self.advance()
            before = self.progress()
        try:
            while not waiter.free:
                if self._passes(waiter):
                    return True
                with self.lock:
                    self.advance()
                    before = self.look_for_stall(before)
        finally:
            self.forget(waiter)
        return False

    def _passes(self, waiter: Waiter) -> bool:
        """Wait for a while. Return whether the gate was opened for a delivery, not by a nudge."""
        while waiter.gate.acquire(timeout=self._next_look(waiter)):
            with self.lock:
                if waiter.delivered or not waiter.nudged:
                    return True
                waiter.nudged = False
                self.advance()
        return False

    def _next_look(self, waiter: Waiter) -> float:
        with self.lock:
            if self.next_waiter() is waiter:
                return max(_SOON, self.quiescence.left())
        return _POLL if waiter.polls else self.patience

    def look_for_stall(self, before: Progress) -> Progress:
        """Report a stall if nothing has happened for too long since ``before``.

        Return the progress to compare with next time. Locked, by a waiting thread.
        """
        if not self.is_quiet_since(before):
            return self.progress()
        if monotonic() - before.at < self.patience or self._is_asked_for():
            return before
        if self.stall():
            self.advance()
        return self.progress()
