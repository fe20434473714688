"""One delivery at a time, each when the program is at rest after the one before.

While recording this makes the order that is written the order that the program saw; in a replay
the same order is enacted again. What gets a delivery is a thread, or a loop with all its tasks
(:class:`reenact.engine.desk.Desk`).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic
from reenact.engine.deliveries import Stalled
from reenact.engine.going_live import GoingLive
from reenact.engine.members import thread_of
from reenact.engine.order import Order
from reenact.engine.progress import Progress
from reenact.engine.rest import GRACE
from reenact.engine.waiter import Waiter

if TYPE_CHECKING:
    from reenact.engine.desk import Desk

__all__ = ["PATIENCE", "Conductor"]

PATIENCE = 5.0
"""Seconds without any progress after which a replay with threads is stalled."""

_SOON = 0.0005
_POLL = 0.01


class Conductor(GoingLive):
    """The order of deliveries of one session. Its layers are files: ``members``, ``deliveries``,
    ``going_live``, each built on the one before.

    ``lock`` is the session's own; "locked" means that the caller holds it. ``order`` is the recorded
    one in a replay, None while recording. ``opener`` is the thread that opened the session, by
    default this one.
    """

    def __init__(
        self,
        lock: Any,
        order: Order | None,
        stalled: Stalled,
        *,
        grace: float = GRACE,
        patience: float = PATIENCE,
        opener: int | None = None,
    ) -> None:
        super().__init__(
            lock, order, stalled, grace, patience, get_ident() if opener is None else opener
        )

    # While recording

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

    # In a replay

    def wait(self, waiter: Waiter) -> None:
        """Block this thread until ``waiter``'s turn. Raises what a stall raises."""
        waiter.prepare()
        with self.lock:
            self.expect(waiter)
            self.rest.remove(thread_of(waiter.runner))
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

    def look_for_stall(self, before: Progress) -> Progress:
        """Locked, by a thread that waits. Returns what to compare with the next time."""
        if not self.is_quiet_since(before):
            return self.progress()
        if monotonic() - before.at < self.patience or self._is_asked_for():
            return before
        if self.stall():
            self.advance()
        return self.progress()
