"""Somebody who waits for a delivery: a thread at its gate, or a callback in a loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reenact.engine.order import Token

if TYPE_CHECKING:
    from reenact.engine.desk import Desk
    from reenact.engine.requests import Ask

__all__ = ["Runner", "Waiter"]

Runner = "int | Desk"
"""Who gets deliveries: a thread (its ident) or a loop."""

_allocate = threading.Lock
_ident = threading.get_ident


class Waiter:
    """``token`` is None for what was never answered. ``ask`` describes the call for a diagnosis.

    ``fire`` hands over to a loop and returns False if nobody wants it any more; a thread has none
    and waits at its gate. ``real``: a timer that goes by the clock when the recording is at its
    end. The session's lock covers every change.
    """

    __slots__ = (
        "ask",
        "delivered",
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
        token: Token | None,
        lane: str,
        runner: int | Desk,
        *,
        fire: Callable[[], bool] | None = None,
        ask: Callable[[], Ask] | None = None,
        real: Callable[[], None] | None = None,
    ) -> None:
        self.token = token
        self.lane = lane
        self.runner = runner
        self.fire = fire
        self.ask = ask
        self.real = real
        self.error: BaseException | None = None
        self.gate: Any = None
        self.ident = 0 if fire is not None else _ident()
        """The thread that is blocked, 0 for none."""
        self.polls = False
        """Looks again by itself every few milliseconds: its gate is not ours alone."""
        self.free = False
        """The order of deliveries does not matter for it any more."""
        self.delivered = False
        self.live = False
        """What is recorded of the order ended while it waited: a run that was forked goes on live."""
        self.nudged = False

    def prepare(self) -> Any:
        """The gate behind which a thread waits."""
        self.gate = _allocate()
        self.gate.acquire()
        return self.gate

    def hand_over(self) -> bool:
        """False if nobody wants it any more."""
        if self.fire is not None:
            return self.fire()
        self.delivered = True
        if not self.nudged:  # else the gate is open already
            self.gate.release()
        return True

    def nudge(self) -> None:
        """Let the thread look again how long it has to wait."""
        if not (self.nudged or self.polls or self.ident == _ident()):
            self.nudged = True
            self.gate.release()
