"""Where a run is forked: what is recorded of the order ends, and from there on it is recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from reenact.engine.deliveries import Deliveries, Stalled
from reenact.engine.order import Order
from reenact.engine.progress import Progress

__all__ = ["GoingLive"]


class GoingLive(Deliveries):
    """The third layer of a conductor: from a recorded order to a live one, and who waits for that.

    ``patience`` is how many seconds a replay may stand still.
    """

    def __init__(
        self,
        lock: Any,
        order: Order | None,
        stalled: Stalled,
        grace: float,
        patience: float,
        opener: int,
    ) -> None:
        super().__init__(lock, order, stalled, grace, opener)
        self.patience = patience
        self.expects_point: Callable[[], bool] = lambda: False
        """Has the call not been made yet at which the run is forked?"""
        self._until_live: list[Any] = []

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
            self._stalled(self.order.head(), self.waiters.first())
            self.go_live()

    def go_live(self) -> None:
        """What is recorded of the order has been enacted: from here on it is recorded. Locked."""
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
        for desk in self.rest.desks:
            desk.post_from_anywhere()

    def _release_the_live(self) -> None:
        gates, self._until_live = self._until_live, []
        for gate in gates:
            gate.release()

    def _is_asked_for(self) -> bool:
        """Does somebody wait for the head who can take it? A loop that does not run cannot."""
        waiter = self.next_waiter()
        if waiter is None or isinstance(waiter.runner, int) or waiter.fire is None:
            return waiter is not None
        running: bool = waiter.runner.loop.is_running()
        return running

    def give_up(self, make: Callable[[], BaseException]) -> None:
        super().give_up(make)
        self._release_the_live()
