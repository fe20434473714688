"""One delivery at a time, each when the program is at rest after the one before.

While recording this makes the order that is written the order that the program saw; in a replay
the same order is enacted again. What gets a delivery is a thread, or a loop with all its tasks
(:class:`reenact.engine.desk.Desk`). A thread is at rest when it makes its next call, ends, or has
had a few milliseconds; a loop when nothing of the session is ready to run in it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from reenact._system import cpu_seconds, monotonic
from reenact.engine.order import Delivery, Order, Token
from reenact.engine.waiter import Waiter

if TYPE_CHECKING:
    from reenact.engine.desk import Desk

__all__ = ["GRACE", "PATIENCE", "Conductor", "Progress", "Stalled"]

GRACE = 0.005
"""Seconds after which a thread that got something counts as at rest."""

PATIENCE = 5.0
"""Seconds without any progress after which a replay with threads is stalled."""

Progress = tuple[int, float]
"""What has happened so far, and the processor time it took."""

_IDLE_CPU = 0.05
_SOON = 0.0005
_ident = threading.get_ident


class Stalled(Protocol):
    """Told about a stall. Returns what the waiter raises, or None to drop the head and go on."""

    def __call__(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None: ...


class Conductor:
    """The order of deliveries of one session.

    ``lock`` is the session's own; "locked" below means that the caller holds it. ``order`` is the
    recorded one in a replay, None while recording.
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
        self.grace = grace
        self.patience = patience
        self._stalled = stalled
        self._threads = {_ident()}
        self._jobs = 0
        self._activity = 0
        self._busy: int | Desk | None = None
        self._since = 0.0
        self._waiting: dict[Token, Waiter] = {}
        self._never: dict[Waiter, None] = {}
        self._late: deque[Waiter] = deque()
        self._blocked: set[int] = set()
        self._sleepers: list[Any] = []
        self._desks: set[Desk] = set()
        self._known_desks: WeakSet[Desk] = WeakSet()

    # Rest

    def arrive(self, runner: int | Desk) -> None:
        """``runner`` makes its next call, or has ended: it is at rest."""
        with self.lock:
            self._activity += 1
            if self._busy is not None and self._busy == runner:
                self.come_to_rest()
                if self.order is not None:
                    self.advance()

    def come_to_rest(self) -> None:
        """Whoever had the last delivery is done with it. Locked."""
        self._busy = None
        sleepers, self._sleepers = self._sleepers, []
        for gate in sleepers:
            gate.release()
        desks, self._desks = self._desks, set()
        for desk in desks:
            desk.post_from_anywhere()

    def is_busy_with(self, runner: int | Desk) -> bool:
        """Did ``runner`` get the last delivery, and is not known to be at rest? Locked."""
        return self._busy == runner

    def is_resting(self, runner: int | Desk) -> bool:
        """May ``runner`` be given something? Locked."""
        if self._busy is None or self._busy == runner:
            return True
        if self.grace_left() > 0:
            return False
        self.come_to_rest()
        return True

    def grace_left(self) -> float:
        """Seconds until whoever had the last delivery counts as at rest."""
        return self._since + self.grace - monotonic()

    def given(self, runner: int | Desk) -> None:
        """``runner`` has just been given something. Locked."""
        self._activity += 1
        self._busy = runner
        self._since = monotonic()

    def await_rest_for(self, desk: Desk) -> None:
        """Look at ``desk`` again when the other one is at rest. Locked, in the loop's thread."""
        self._desks.add(desk)
        self._prod()
        desk.post_later(max(0.0, self.grace_left()))

    def _prod(self) -> None:
        """If a loop is busy, let it look whether it still is."""
        if self._busy is not None and not isinstance(self._busy, int):
            self._busy.post_from_anywhere()

    def hand_over(self, runner: int | Desk, act: Callable[[], Any]) -> Any:
        """While recording: do ``act`` (which writes the event) when it is ``runner``'s turn."""
        with self.lock:
            while not self.is_resting(runner):
                self._sleep(max(0.0, self.grace_left()))
            result = act()
            self.given(runner)
            return result

    def _sleep(self, seconds: float) -> None:
        """Give the lock up until somebody comes to rest, or ``seconds`` have passed."""
        gate = threading.Lock()
        gate.acquire()
        self._sleepers.append(gate)
        self._prod()
        self.lock.release()
        try:
            gate.acquire(timeout=seconds)
        finally:
            self.lock.acquire()

    # Who takes part

    def add_desk(self, desk: Desk) -> None:
        """``desk`` takes part from now on."""
        with self.lock:
            self._known_desks.add(desk)

    def job_waits(self) -> None:
        """A thread or job has been spawned and has not begun."""
        with self.lock:
            self._activity += 1
            self._jobs += 1

    def job_begins(self) -> None:
        """It has begun, in this thread."""
        with self.lock:
            self._activity += 1
            self._jobs -= 1
            self._threads.add(_ident())

    def job_dropped(self) -> None:
        """It will never begin."""
        with self.lock:
            self._jobs -= 1
            self._somebody_ended()

    def job_ends(self) -> None:
        """What ran in this thread has ended: at rest for good."""
        with self.lock:
            self._threads.discard(_ident())
            self.arrive(_ident())
            self._somebody_ended()

    def _somebody_ended(self) -> None:
        """Perhaps nobody is left who could ask for the head."""
        self._activity += 1
        if self.order is not None:
            self.advance()
            for desk in self._known_desks:
                desk.post_from_anywhere()

    def after_fork(self) -> None:
        """In a forked child there is one thread, and nobody waits."""
        self._threads = {_ident()}
        self._jobs = 0
        self._busy = None
        self._waiting.clear()
        self._never.clear()
        self._late.clear()
        self._blocked.clear()
        self._sleepers.clear()
        self._desks.clear()
        self._known_desks.clear()

    # Replay

    def try_now(self, runner: int | Desk, token: Token | None) -> bool:
        """Is it ``token``'s turn this very moment? Then it has been handed over. Locked."""
        order = self.order
        if token is None or order is None:
            return False
        if order.is_ahead(token):
            head = order.head()
            if head is None or head.token != token:
                return False
        elif not isinstance(token, int):
            return False  # it may not have been read yet
        if self._late or not self.is_resting(runner):
            return False
        order.drop(token)
        self.given(runner)
        return True

    def wait(self, waiter: Waiter) -> None:
        """Block this thread until ``waiter``'s turn. Raises what a stall raises."""
        waiter.prepare()
        self.block(waiter)
        if waiter.error is not None:
            raise waiter.error

    def block(self, waiter: Waiter) -> None:
        """Wait at the gate of ``waiter`` until it is opened."""
        with self.lock:
            self.expect(waiter)
            self.advance()
        before = self.progress()
        try:
            while not self._passes(waiter):
                with self.lock:
                    self.advance()
                    before = self._look_for_stall(before)
        finally:
            self.forget(waiter)

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
                return max(_SOON, self.grace_left())
        return self.grace if waiter.polls else self.patience

    def skip(self, *tokens: Token) -> None:
        """Nobody will ask for these: the order goes on without them."""
        with self.lock:
            if self.order is not None:
                for token in tokens:
                    self.order.skip(token)
                self.advance()

    def expect(self, waiter: Waiter) -> None:
        """``waiter`` waits from now on. Locked."""
        self._activity += 1
        token = waiter.token
        if waiter.ident:
            self._blocked.add(waiter.ident)
        if token is None:
            self._never[waiter] = None
        elif isinstance(token, int) and self.order is not None and not self.order.is_ahead(token):
            self._late.append(waiter)
        else:
            self._waiting[token] = waiter

    def forget(self, waiter: Waiter) -> None:
        """``waiter`` does not wait any more."""
        with self.lock:
            self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        self._blocked.discard(waiter.ident)
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
        while self._step():
            pass

    def _step(self) -> bool:
        """True when the head was dropped, so that there is another one to look at."""
        waiter = self.next_waiter()
        if waiter is None:
            return self._nobody_asks()
        if waiter.fire is not None:
            if not isinstance(waiter.runner, int):
                waiter.runner.post_from_anywhere()
        elif self.is_resting(waiter.runner):
            self.deliver(waiter)
        else:
            self._prod()
            waiter.nudge()
        return False

    def deliver(self, waiter: Waiter) -> bool:
        """Hand over to ``waiter``; False if nobody wanted it any more. Locked."""
        self._remove(waiter)
        taken = waiter.hand_over()
        if waiter.token is not None and self.order is not None and (taken or not waiter.polls):
            self.order.drop(waiter.token)
        if not taken:
            return False
        self.given(waiter.runner)
        return True

    def _nobody_asks(self) -> bool:
        """The head is not asked for. At the end of the recording timers go by the clock; if every
        thread of the session waits here, nobody will ever ask."""
        if self.is_exhausted():
            self.release_timers()
        return self._every_thread_waits(None) and self.stall()

    def is_exhausted(self) -> bool:
        """Has everything recorded been handed over? Locked."""
        return self.order is not None and self.order.head() is None

    def release_timers(self) -> None:
        """From here on timers go by the clock. Locked."""
        for waiter in list(self._waiting.values()):
            if waiter.real is not None:
                self._remove(waiter)
                waiter.real()

    # Stalls

    def progress(self) -> Progress:
        """What has happened so far."""
        return self._activity, cpu_seconds()

    def is_quiet_since(self, before: Progress) -> bool:
        """Has nothing happened and nothing been computed since?"""
        now = self.progress()
        return now[0] == before[0] and now[1] - before[1] < _IDLE_CPU

    def _look_for_stall(self, before: Progress) -> Progress:
        """Locked, by a thread that has waited for long."""
        if not self.is_quiet_since(before):
            return self.progress()
        if self.next_waiter() is None and self._has_waited() and self.stall():
            self.advance()
        return before

    def _has_waited(self) -> bool:
        """Is the last delivery long ago? Locked."""
        return monotonic() - self._since >= self.patience

    def _every_thread_waits(self, desk: Desk | None) -> bool:
        if self._jobs:
            return False
        awake = self._threads - self._blocked
        return not awake or (desk is not None and awake == {desk.ident})

    def is_stuck(self, desk: Desk) -> bool:
        """Is an idle ``desk`` all there is? Then nobody will ever ask for the head. Locked."""
        return self.next_waiter() is None and self._every_thread_waits(desk)

    def stall(self) -> bool:
        """Nobody will ask for the head. True when it was dropped, to go on with the next. Locked."""
        head = self.order.head() if self.order is not None else None
        waiter = self._first_waiter()
        if head is None and waiter is None:
            return False
        error = self._stalled(head, waiter)
        if error is not None and waiter is not None:
            waiter.error = error
            self.deliver(waiter)
            return False
        if head is None or self.order is None:
            return False
        self.order.drop(head.token)
        return True

    def _first_waiter(self) -> Waiter | None:
        """The call that waits with the lowest seq, else one that is never answered."""
        calls = [token for token, one in self._waiting.items() if one.ask is not None]
        answers = [token for token in calls if isinstance(token, int)]
        if answers:
            return self._waiting[min(answers)]
        if calls:
            return self._waiting[calls[0]]
        return next(iter(self._never), None)
