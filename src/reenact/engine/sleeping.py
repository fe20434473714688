"""Sleeping: a delivery like any, which a replay does not wait for.

It says nothing about the world, so it is never a divergence: a program that sleeps where it did not
sleeps, and one that does not where it did goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reenact.engine.answers import PLAIN
from reenact.engine.call import SLEEP, Call

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["sleep"]

_KEY = "time.sleep"


def sleep(session: Session, seconds: float, really: Callable[[float], None]) -> None:
    """Sleep as the recorded program did, or ``really``."""
    call = Call(
        type="nondeterministic",
        capability="time.now",
        operation="",
        request={},
        source=SLEEP,
        key=_KEY,
    )
    if not session.is_active:
        really(seconds)
    elif session.mode == "replay" and not session.is_next(call):
        with session.waiting_elsewhere():
            really(seconds)
    else:

        def live() -> float:
            really(seconds)
            return seconds

        session.gateway.call(call, live, PLAIN)
