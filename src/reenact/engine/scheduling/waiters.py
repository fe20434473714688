"""Waiters for a delivery, and their registry by delivery token.

A waiter is a thread that blocks at its gate (a lock), or a callback in a loop. The session's lock
covers every change of a waiter and every use of the registry.

Life of a waiter::

    new ──expect──> by_token ──deliver──> delivered
                    late     ──deliver──> delivered   (the order has passed its token)
                    never    ──stall────> error       (the recorded call has no result)
        any of them ──forget──> removed, and ──go_live──> live (a forked run continues live)

Invariants: a waiter is in exactly one of the three tables of the registry. A gate is released at
most once before it is acquired again, which ``nudged`` ensures.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine.scheduling.delivery_order import DeliveryToken

if TYPE_CHECKING:
    from reenact.engine.request import ObservedRequest

__all__ = [
    "LoopRunner",
    "Runner",
    "Waiter",
    "WaiterRegistry",
]


class LoopRunner(Protocol):
    """A loop that receives deliveries, see :mod:`.loop_scheduler`."""

    loop: Any
    ident: int

    def post_from_anywhere(self) -> None: ...
    def post_later(self, seconds: float) -> None: ...
    def run_in_loop(self, callback: Callable[..., Any], *args: Any) -> None: ...


Runner = int | LoopRunner
"""Receiver of deliveries: a thread, by its ident, or a loop."""

_allocate = threading.Lock
_ident = threading.get_ident


class Waiter:
    """A thread or loop callback that waits for a delivery.

    ``token`` is None for a call without a recorded result. ``describe`` returns the call for a
    diagnosis. ``fire`` delivers to a loop and returns False if the delivery is no longer wanted; a
    thread has none and waits at its gate. ``real`` makes a timer follow the clock at the end of the
    recording. The session's lock covers every change.
    """

    __slots__ = (
        "delivered",
        "describe",
        "error",
        "fire",
        "free",
        "gate",
        "ident",
        "lane",
        "live",
        "nudged",
        "polls",
        "real",
        "runner",
        "token",
    )

    def __init__(
        self,
        token: DeliveryToken | None,
        lane: str,
        runner: Runner,
        *,
        fire: Callable[[], bool] | None = None,
        describe: Callable[[], ObservedRequest] | None = None,
        real: Callable[[], None] | None = None,
    ) -> None:
        self.token = token
        self.lane = lane
        self.runner = runner
        self.fire = fire
        self.describe = describe
        self.real = real
        self.error: BaseException | None = None
        self.gate: Any = None
        self.ident = 0 if fire is not None else _ident()
        """The thread that is blocked, 0 for none."""
        self.polls = False
        """Polls every few milliseconds, because its gate can also be opened by the program."""
        self.free = False
        """The waiter no longer depends on the order of deliveries."""
        self.delivered = False
        self.live = False
        """The recorded order ended while it waited, and the forked run continues live."""
        self.nudged = False

    def prepare(self) -> Any:
        """Create and return the closed gate at which a thread waits."""
        self.gate = _allocate()
        self.gate.acquire()
        return self.gate

    def hand_over(self) -> bool:
        """Deliver; return False if the delivery is no longer wanted."""
        if self.fire is not None:
            return self.fire()
        self.delivered = True
        # A nudge has opened the gate already, and a lock must not be released twice.
        if not self.nudged:
            self.gate.release()
        return True

    def nudge(self) -> None:
        """Let the thread check again how long it has to wait. Locked.

        Not for the calling thread, which is awake, nor for one that polls.
        """
        if not (self.nudged or self.polls or self.ident == _ident()):
            self.nudged = True
            self.gate.release()


class WaiterRegistry:
    """Waiters by the delivery that they wait for. The session's lock covers every use.

    ``by_token`` wait for a delivery that is ahead in the order, ``late`` for one that the order has
    passed, and ``never`` for the result of a recorded call without a result.
    """

    def __init__(self) -> None:
        self.by_token: dict[DeliveryToken, Waiter] = {}
        self.never: dict[Waiter, None] = {}
        self.late: deque[Waiter] = deque()

    def add(self, waiter: Waiter, *, late: bool) -> None:
        """Add ``waiter``. With ``late``, the order has already passed its delivery."""
        if waiter.token is None:
            self.never[waiter] = None
        elif late:
            self.late.append(waiter)
        else:
            self.by_token[waiter.token] = waiter

    def remove(self, waiter: Waiter) -> None:
        """Remove ``waiter`` if it is registered."""
        self.never.pop(waiter, None)
        if waiter.token is not None and self.by_token.get(waiter.token) is waiter:
            del self.by_token[waiter.token]
        elif waiter in self.late:
            self.late.remove(waiter)

    def all(self) -> list[Waiter]:
        """Return all waiters, in the order of their recorded results."""
        waiters = [*self.by_token.values(), *self.late, *self.never]
        return sorted(waiters, key=_place)

    def __bool__(self) -> bool:
        return bool(self.by_token or self.never or self.late)

    def first(self) -> Waiter | None:
        """Return the waiting call with the lowest seq, else one that never gets a result."""
        calls = [token for token, one in self.by_token.items() if one.describe is not None]
        answers = [token for token in calls if isinstance(token, int)]
        if answers:
            return self.by_token[min(answers)]
        if calls:
            return self.by_token[calls[0]]
        return next(iter(self.never), None)

    def clear(self) -> None:
        """Remove all waiters."""
        self.by_token.clear()
        self.never.clear()
        self.late.clear()


def _place(waiter: Waiter) -> float:
    return waiter.token if isinstance(waiter.token, int) else inf
