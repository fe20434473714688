"""Sleep calls: recorded as deliveries, and not waited for in a replay.

A sleep carries no information, so it is never a divergence. A program that sleeps where it did
not sleep before really sleeps, and a recorded sleep that is not requested is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reenact.engine.call import SLEEP, Call
from reenact.engine.codecs import PLAIN_CODEC

if TYPE_CHECKING:
    from reenact.engine.execution.gateway import GatewaySession

__all__ = ["sleep"]

_KEY = "time.sleep"


def sleep(session: GatewaySession, seconds: float, really: Callable[[float], None]) -> None:
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
    elif session.mode == "replay" and not session.decisions.is_next(call):
        with session.waiting_elsewhere():
            really(seconds)
    else:

        def live() -> float:
            really(seconds)
            return seconds

        session.gateway.call(call, live, PLAIN_CODEC)
