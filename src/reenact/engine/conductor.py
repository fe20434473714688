"""One delivery at a time, each when the program is at rest after the one before.

While recording this makes the order that is written the order that the program saw; in a replay
the same order is enacted again. What gets a delivery is a thread, or a loop with all its tasks
(:class:`reenact.engine.desk.Desk`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from reenact._system import cpu_seconds, monotonic
from reenact.engine.crew import Crew
from reenact.engine.order import Delivery, Order, Token
from reenact.engine.processor import seconds_of_children
from reenact.engine.rest import GRACE, Rest, Turn
from reenact.engine.waiter import Waiter

if TYPE_CHECKING:
    from reenact.engine.desk import Desk

__all__ = ["PATIENCE", "Conductor", "Progress", "Stalled"]

PATIENCE = 5.0
"""Seconds without any progress after which a replay with threads is stalled."""

_IDLE_SHARE = 0.05
"""Of the processor, that a standing program may use all the same."""

_SOON = 0.0005
_POLL = 0.01
_ident = threading.get_ident


def _thread(runner: int | Desk) -> int:
    """The thread that ``runner`` is, or that runs the loop."""
    return runner if isinstance(runner, int) else runner.ident


class Progress(NamedTuple):
    """What has happened so far, the processor time it took, and when that was."""

    activity: int
    cpu: float
    at: float


class Stalled(Protocol):
    """Told about a stall. Returns what the waiter raises, or None to drop the head and go on."""

    def __call__(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None: ...


class Conductor:
    """The order of deliveries of one session.

    ``lock`` is the session's own; "locked" below means that the caller holds it. ``order`` is the
    recorded one in a replay, None while recording. A run that is forked begins with one that ends
    at its limit; ``at_limit`` is called there, and may call :meth:`go_live`.
    """

    def __init__(
        self,
        lock: Any,
        order: Order | None,
        stalled: Stalled,
        *,
        grace: float = GRACE,
        patience: float = PATIENCE,
    ) -> None:
        self.lock = lock
        self.order = order
        self.patience = patience
        self.rest = Rest(lock, grace)
        self.crew = Crew()
        self._stalled = stalled
        self._closed: Callable[[], BaseException] | None = None
        self._activity = 0
        self._waiting: dict[Token, Waiter] = {}
        self._never: dict[Waiter, None] = {}
        self._late: deque[Waiter] = deque()
        self._given_up: set[Token] = set()
        self.at_limit: Callable[[], None] | None = None
        self.expects_point: Callable[[], bool] = lambda: False
        """Has the call not been made yet at which the run is forked?"""
        self._until_live: list[Any] = []
        self.rest.give(_ident())  # whoever opens the session goes on with the program

    # Rest

    def arrive(self, runner: int | Desk) -> None:
        """``runner`` makes its next call, waits for somebody, or has ended: it is at rest."""
        with self.lock:
            self._activity += 1
            if self.rest.remove(_thread(runner)) and self.order is not None:
                self.advance()

    def awaken(self, runner: int | Desk) -> None:
        """``runner`` goes on, because somebody of the session has woken it."""
        with self.lock:
            self._activity += 1
            self.rest.add(_thread(runner))

    def wake(self, ident: int) -> Turn:
        """The thread ``ident`` has been woken by this one: when it may go on. Locked or not."""
        with self.lock:
            self._activity += 1
            return self.rest.wake(ident)

    def hand_over(self, runner: int | Desk, act: Callable[[], Any]) -> Any:
        """While recording: do ``act`` (which writes the event) when it is ``runner``'s turn. What is
        recorded of the order comes first."""
        with self.lock:
            if self.order is not None:
                self.arrive(runner)
            while self.order is not None:
                self._wait_until_live()
            while not self.holds_for(runner):
                self.rest.sleep()
            result = act()
            self.given(runner)
            return result

    def _wait_until_live(self) -> None:
        """Give the lock up until the recorded order is at its end, or for as long as it may stand
        still. Locked, once."""
        if self._closed is not None:
            raise self._closed()
        gate = threading.Lock()
        gate.acquire()
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
        """The run stands still since ``before``: will it never come to the point where it is to be
        forked? Then whoever waits for that goes on, and its next call raises. Locked."""
        if self.order is None or not self.expects_point() or not self.is_quiet_since(before):
            return
        if self._is_asked_for():
            self.advance()
        else:
            self._stalled(self.order.head(), self._first_waiter())
            self.go_live()

    def go_live(self) -> None:
        """What is recorded of the order has been enacted: from here on it is recorded. Locked."""
        self.order = None
        for waiter in (*self._waiting.values(), *self._late, *self._never):
            waiter.live = True
            self._remove(waiter)
            if waiter.real is not None:
                waiter.real()
            elif waiter.fire is None or isinstance(waiter.runner, int):
                waiter.hand_over()
            else:
                waiter.runner.run_in_loop(waiter.fire)
        self._release_the_live()
        for desk in self.rest.desks:
            desk.post_from_anywhere()

    def _release_the_live(self) -> None:
        gates, self._until_live = self._until_live, []
        for gate in gates:
            gate.release()

    def look_for_limit(self) -> None:
        """Say so if all that is enacted has been handed over. Locked."""
        order = self.order
        if self.at_limit is not None and order is not None and order.head() is None:
            self.at_limit()

    def given(self, runner: int | Desk) -> None:
        """``runner`` has just been given something. Locked."""
        self._activity += 1
        self.rest.give(_thread(runner))

    def holds_for(self, runner: int | Desk) -> bool:
        """May ``runner`` be given something? Locked."""
        return self.rest.holds_for(_thread(runner))

    def close(self, make: Callable[[], BaseException]) -> None:
        """The session ends: timers go by the clock, and who still waits raises what ``make``
        makes; so does who begins to wait only now. Locked."""
        self._closed = make
        self._release_the_live()
        self.rest.free()
        self.release_timers()
        for waiter in (*self._waiting.values(), *self._never, *self._late):
            waiter.error = make()
            self._interrupt(waiter)

    # Who takes part

    def add_desk(self, desk: Desk) -> None:
        """``desk`` takes part from now on."""
        with self.lock:
            self.rest.desks.add(desk)

    def job_waits(self, job: Any, thread: Any = None) -> None:
        """``job``, or the thread that it is, has been spawned and has not begun."""
        with self.lock:
            self._activity += 1
            self.crew.spawn(thread)
            self.rest.add(job)

    def thread_waits(self, lane: Any, thread: Any) -> Turn:
        """``thread`` is about to be started by this one: when it may begin."""
        with self.lock:
            self._activity += 1
            self.crew.spawn(thread)
            return self.rest.wake(lane)

    def job_takes_turn(self, job: Any) -> Turn:
        """``job`` has been given by this thread to a worker that is free: when it may begin."""
        return self.thread_waits(job, None)

    def job_begins(self, job: Any) -> None:
        """It has begun, in this thread."""
        with self.lock:
            self._activity += 1
            self.crew.begin()
            self.rest.add(_ident())
            self.rest.remove(job)

    def job_dropped(self, job: Any, thread: Any = None) -> None:
        """It will never begin."""
        with self.lock:
            self.crew.drop(thread)
            self.rest.drop(job)
            self._somebody_ended()

    def job_ends(self, thread: Any = None, *, goes_on: bool = False) -> None:
        """What ran in this thread has ended, and perhaps the thread itself. ``goes_on``: it takes
        the next job at once."""
        with self.lock:
            self.crew.end()
            for ident in self.crew.ended(thread):
                self.rest.add(ident)
            if not goes_on:
                self.rest.remove(_ident())
            self._somebody_ended()

    @contextmanager
    def thread_starts(self) -> Iterator[None]:
        """This thread starts another one, and waits until that is there; or until one is gone that
        has nothing more to do."""
        ident = _ident()
        self.rest.starting.add(ident)
        try:
            yield
        finally:
            self.rest.starting.discard(ident)

    def helper_comes(self) -> None:
        """Somebody outside the session works for it, and will wake it."""
        with self.lock:
            self.crew.help()

    def helper_goes(self) -> None:
        """It is done."""
        with self.lock:
            self.crew.helped()
            self._somebody_ended()

    def thread_ended(self, thread: Any) -> None:
        """A thread that is plumbing has ended: who waits for that goes on."""
        with self.lock:
            for ident in self.crew.ended(thread):
                self.rest.add(ident)

    def _somebody_ended(self) -> None:
        """Perhaps nobody is left who could ask for the head."""
        self._activity += 1
        if self.order is not None:
            self.advance()
            for desk in self.rest.desks:
                desk.post_from_anywhere()

    def after_fork(self) -> None:
        """In a forked child there is one thread, and nobody waits."""
        self.rest.after_fork()
        self.crew = Crew()
        self._waiting.clear()
        self._never.clear()
        self._late.clear()

    # Replay

    def try_now(self, runner: int | Desk, token: Token | None) -> bool:
        """Is it ``token``'s turn this very moment? Then it has been handed over. Locked."""
        order = self.order
        if token is None or self._late:
            return False
        if order is None:  # of a run that was forked: it belongs before that
            return True
        head = order.head()
        if (head is None or head.token != token) and not self._is_past(token):
            return False
        thread = _thread(runner)
        if not self.rest.holds_for(thread):
            return False
        order.drop(token)
        self._activity += 1
        self.rest.give(thread)
        self.look_for_limit()
        return True

    def _is_past(self, token: Token) -> bool:
        """Has the order gone past ``token``? One that is no answer may not have been read yet."""
        if self.order is None or self.order.is_ahead(token):
            return False
        return isinstance(token, int) or token in self._given_up

    def wait(self, waiter: Waiter) -> None:
        """Block this thread until ``waiter``'s turn. Raises what a stall raises."""
        waiter.prepare()
        with self.lock:
            self.expect(waiter)
            self.rest.remove(_thread(waiter.runner))
        self.block(waiter)
        if waiter.error is not None:
            raise waiter.error

    def block(self, waiter: Waiter) -> bool:
        """Wait at the gate of ``waiter``, which is expected, until it is opened; False if that
        does not matter any more."""
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
        """Wait for a while; True when the gate was opened for good."""
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
                return max(_SOON, self.rest.left())
        return _POLL if waiter.polls else self.patience

    def skip(self, *tokens: Token) -> None:
        """Nobody will ask for these: the order goes on without them."""
        with self.lock:
            if self.order is not None:
                for token in tokens:
                    self.order.skip(token)
                self.look_for_limit()
                self.advance()

    def expect(self, waiter: Waiter) -> None:
        """``waiter`` waits from now on. Locked."""
        self._activity += 1
        token = waiter.token
        if waiter.ident and not waiter.polls:
            self.crew.block(waiter.ident)
        if token is None:
            self._never[waiter] = None
        elif self._is_past(token):
            self._late.append(waiter)
        else:
            self._waiting[token] = waiter
        if self._closed is not None:
            self.close(self._closed)

    def forget(self, waiter: Waiter) -> None:
        """``waiter`` does not wait any more."""
        with self.lock:
            self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        self.crew.unblock(waiter.ident)
        self._never.pop(waiter, None)
        if waiter.token is not None and self._waiting.get(waiter.token) is waiter:
            del self._waiting[waiter.token]
        elif waiter in self._late:
            self._late.remove(waiter)

    def has_waiters(self) -> bool:
        """Does anybody wait? Locked."""
        return bool(self._waiting or self._never or self._late)

    def next_waiter(self) -> Waiter | None:
        """Whose turn it is: somebody the order has gone past, else who waits for its head."""
        if self._late:
            return self._late[0]
        head = self.order.head() if self.order is not None else None
        return None if head is None else self._waiting.get(head.token)

    def advance(self) -> None:
        """Hand over what can be handed over to threads; tell the loop whose turn it is. Locked."""
        while self.has_waiters() and self._step():
            pass

    def _step(self) -> bool:
        """True when there is another head to look at."""
        waiter = self.next_waiter()
        if waiter is None:
            return self._nobody_asks()
        if waiter.fire is not None:
            if not isinstance(waiter.runner, int):
                waiter.runner.post_from_anywhere()
            return False
        if self.holds_for(waiter.runner):
            return self.deliver(waiter)
        self.rest.prod()
        waiter.nudge()
        return False

    def deliver(self, waiter: Waiter) -> bool:
        """Hand over to ``waiter``; False if nobody wanted it any more. Locked."""
        self._remove(waiter)
        if waiter.token is not None and self.order is not None:
            self.order.drop(waiter.token)
        handed = waiter.hand_over()
        if handed:
            self.given(waiter.runner)
        self.look_for_limit()
        return handed

    def _nobody_asks(self) -> bool:
        """The head is not asked for. At the end of the recording timers go by the clock; if every
        thread of the session waits here, nobody will ever ask."""
        if self.is_exhausted() and self.rest.is_complete():
            self.release_timers()
        return self.has_waiters() and self.crew.all_wait() and self.stall()

    def is_exhausted(self) -> bool:
        """Has everything recorded been handed over, and does nothing come after it? Locked."""
        order = self.order
        return order is not None and order.limit is None and order.head() is None

    def release_timers(self) -> None:
        """From here on timers go by the clock. Locked."""
        for waiter in list(self._waiting.values()):
            if waiter.real is not None:
                self._remove(waiter)
                waiter.real()

    # Stalls

    def progress(self) -> Progress:
        """What has happened so far."""
        return Progress(self._activity, cpu_seconds() + seconds_of_children(), monotonic())

    def is_quiet_since(self, before: Progress) -> bool:
        """Has nothing happened and nothing been computed since?"""
        now = self.progress()
        idle = now.cpu - before.cpu <= _IDLE_SHARE * (now.at - before.at)
        return now.activity == before.activity and idle

    def look_for_stall(self, before: Progress) -> Progress:
        """Locked, by a thread that waits. Returns what to compare with the next time."""
        if not self.is_quiet_since(before):
            return self.progress()
        if monotonic() - before.at < self.patience or self._is_asked_for():
            return before
        if self.stall():
            self.advance()
        return self.progress()

    def _is_asked_for(self) -> bool:
        """Does somebody wait for the head who can take it? A loop that does not run cannot."""
        waiter = self.next_waiter()
        if waiter is None or isinstance(waiter.runner, int) or waiter.fire is None:
            return waiter is not None
        running: bool = waiter.runner.loop.is_running()
        return running

    def is_stuck(self, desk: Desk) -> bool:
        """Is an idle ``desk`` all there is? Then nobody will ever ask for the head. Locked."""
        return self.next_waiter() is None and self.crew.all_wait(desk)

    def stall(self) -> bool:
        """Nobody will ask for the head. True when it was dropped, to go on with the next. Locked."""
        head = self.order.head() if self.order is not None else None
        waiter = self._first_waiter()
        if head is None and waiter is None:
            return False
        error = self._stalled(head, waiter)
        if error is not None and waiter is not None:
            waiter.error = error
            self._interrupt(waiter)
            return False
        if head is None or self.order is None:
            return False
        self.order.drop(head.token)
        self._given_up.add(head.token)
        return True

    def _interrupt(self, waiter: Waiter) -> None:
        """Let ``waiter`` go on, in whichever thread it is."""
        if waiter.fire is None or isinstance(waiter.runner, int):
            self.deliver(waiter)
        else:
            self._remove(waiter)
            waiter.runner.run_in_loop(waiter.fire)

    def _first_waiter(self) -> Waiter | None:
        """The call that waits with the lowest seq, else one that is never answered."""
        calls = [token for token, one in self._waiting.items() if one.ask is not None]
        answers = [token for token in calls if isinstance(token, int)]
        if answers:
            return self._waiting[min(answers)]
        if calls:
            return self._waiting[calls[0]]
        return next(iter(self._never), None)
