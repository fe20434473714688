"""The recorded order of deliveries, enacted: one after the other, to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine.ended_lanes import EndedLanes
from reenact.engine.lanes import Lane
from reenact.engine.members import Members, thread_of
from reenact.engine.order import Delivery, Order, Token
from reenact.engine.waiter import Waiter
from reenact.engine.waiters import Waiters

if TYPE_CHECKING:
    from reenact.engine.desk import Desk

__all__ = ["Deliveries", "Stalled"]


class Stalled(Protocol):
    """Told about a stall. Returns what the waiter raises, or None to drop the head and go on."""

    def __call__(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None: ...


class Deliveries(Members):
    """The second layer of a conductor: in a replay, who waits and whose turn it is.

    A run that is forked begins with an order that ends at its limit; ``at_limit`` is called there.
    """

    def __init__(
        self, lock: Any, order: Order | None, stalled: Stalled, grace: float, opener: int
    ) -> None:
        super().__init__(lock, order, grace, opener)
        self.waiters = Waiters()
        self.ended_lanes: EndedLanes | None = None
        """Set in a replay that is not forked."""
        self.fails_without_calls = False
        """Does the replay fail when it does not make a recorded call, instead of continuing?"""
        self.at_limit: Callable[[], None] | None = None
        self._stalled = stalled
        self._closed: Callable[[], BaseException] | None = None
        self._given_up: set[Token] = set()

    def try_now(self, runner: int | Desk, token: Token | None) -> bool:
        """Is it ``token``'s turn this very moment? Then it has been handed over. Locked."""
        order = self.order
        if token is None or self.waiters.late:
            return False
        if order is None:  # of a run that was forked: it belongs before that
            return True
        head = order.head()
        if (head is None or head.token != token) and not self._is_past(token):
            return False
        thread = thread_of(runner)
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

    def expect(self, waiter: Waiter) -> None:
        """``waiter`` waits from now on. Locked."""
        self._activity += 1
        token = waiter.token
        if waiter.ident and not waiter.polls:
            self.crew.block(waiter.ident)
        self.waiters.add(waiter, late=token is not None and self._is_past(token))
        if self._closed is not None:
            self.close(self._closed)

    def forget(self, waiter: Waiter) -> None:
        """``waiter`` does not wait any more."""
        with self.lock:
            self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        self.crew.unblock(waiter.ident)
        self.waiters.remove(waiter)

    def has_waiters(self) -> bool:
        """Does anybody wait? Locked."""
        return bool(self.waiters)

    def next_waiter(self) -> Waiter | None:
        """Whose turn it is: somebody the order has gone past, else who waits for its head."""
        if self.waiters.late:
            return self.waiters.late[0]
        head = self.order.head() if self.order is not None else None
        return None if head is None else self.waiters.by_token.get(head.token)

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
        if self._is_unreachable():
            return self.skip_unreachable()
        if self.is_exhausted() and self.rest.is_complete():
            self.release_timers()
        return self.has_waiters() and self.crew.all_wait() and self.stall()

    def lane_ends(self, lane: Lane) -> None:
        """Nothing runs in ``lane`` from now on. Called before :meth:`job_ends`."""
        with self.lock:
            if self.ended_lanes is not None:
                self.ended_lanes.add(lane)

    def skip_unreachable(self) -> bool:
        """Drop the head, which no waiter requests, if nothing can request it any more. Return whether
        it was dropped. The end of the replay reports its call as missing, unless the replay fails
        without it: then that is reported now. Locked."""
        order = self.order
        head = order.head() if order is not None else None
        if order is None or head is None or not self._is_unreachable():
            return False
        if self.fails_without_calls:
            return self.stall()
        self._drop(order, head)
        return True

    def _is_unreachable(self) -> bool:
        """Can no part of the program request the head any more? Locked."""
        head = self.order.head() if self.order is not None else None
        return head is not None and (
            self.ended_lanes is not None and self.ended_lanes.is_unreachable(head)
        )

    def _drop(self, order: Order, head: Delivery) -> None:
        order.drop(head.token)
        self._given_up.add(head.token)

    def is_exhausted(self) -> bool:
        """Has everything recorded been handed over, and does nothing come after it? Locked."""
        order = self.order
        return order is not None and order.limit is None and order.head() is None

    def release_timers(self) -> None:
        """From here on timers go by the clock. Locked."""
        for waiter in list(self.waiters.by_token.values()):
            if waiter.real is not None:
                self._remove(waiter)
                waiter.real()

    def skip(self, *tokens: Token) -> None:
        """Nobody will ask for these: the order goes on without them."""
        with self.lock:
            if self.order is not None:
                for token in tokens:
                    self.order.skip(token)
                self.look_for_limit()
                self.advance()

    def look_for_limit(self) -> None:
        """Say so if all that is enacted has been handed over. Locked."""
        order = self.order
        if self.at_limit is not None and order is not None and order.head() is None:
            self.at_limit()

    def give_up(self, make: Callable[[], BaseException]) -> None:
        """Nobody gets anything any more: who waits raises what ``make`` makes, and so does who
        begins to wait only now. Timers that were to fire do; others go by the clock. Locked."""
        self._closed = make
        self.rest.free()
        for waiter in self.waiters.all():
            if waiter.real is None or self._is_to_come(waiter):
                waiter.error = make()
                self._interrupt(waiter)
            else:
                self._remove(waiter)
                waiter.real()

    def _is_to_come(self, waiter: Waiter) -> bool:
        order, token = self.order, waiter.token
        return order is not None and token is not None and order.is_to_come(token)

    def close(self, make: Callable[[], BaseException]) -> None:
        """The session ends: the same, but all timers go by the clock. Locked."""
        self._closed = make
        self.release_timers()
        self.give_up(make)

    def after_fork(self) -> None:
        super().after_fork()
        self.waiters.clear()

    # Stalls

    def is_stuck(self, desk: Desk) -> bool:
        """Is an idle ``desk`` all there is? Then nobody will ever ask for the head. Locked."""
        return self.next_waiter() is None and self.crew.all_wait(desk)

    def stall(self) -> bool:
        """Nobody will ask for the head. True when it was dropped, to go on with the next. Locked."""
        head = self.order.head() if self.order is not None else None
        waiter = self.waiters.first()
        if head is None and waiter is None:
            return False
        error = self._stalled(head, waiter)
        if self._closed is not None:  # a strict replay has told everybody
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
        """Let ``waiter`` go on, in whichever thread it is."""
        if waiter.fire is None or isinstance(waiter.runner, int):
            self.deliver(waiter)
        else:
            self._remove(waiter)
            waiter.runner.run_in_loop(waiter.fire)
