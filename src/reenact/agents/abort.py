"""Stopping a run: somebody outside decides it, so it is recorded, and replayed as recorded."""

from __future__ import annotations

from typing import Protocol

from reenact.engine.call import Call
from reenact.engine.codecs import PLAIN_CODEC
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.engine.session.settings import READING_MODES
from reenact.format.event import Data

__all__ = ["Abort", "Signal"]


class Signal(Protocol):
    """A ``threading.Event``, an ``asyncio.Event``, or anything that says whether it is set."""

    def is_set(self) -> bool: ...


class Abort:
    """Says whether the run is to stop. Asked between two steps, and after each piece of a stream."""

    def __init__(self, signal: Signal | None) -> None:
        self._signal = signal
        self._steps = 0

    def __call__(self, pieces: int | None = None) -> bool:
        """Has somebody asked for it, or, in a replay, had somebody when the run had come as far?
        ``pieces`` is how many of a stream have come; None between two steps."""
        if self._signal is None:
            return False
        self._steps += pieces is None
        session = current()
        if session is None or not session.is_active:
            return self._signal.is_set()
        call = _call({"step": self._steps, "pieces": pieces})
        if not (self._was_recorded(session, call) or self._signal.is_set()):
            return False
        session.gateway.call(call, lambda: True, PLAIN_CODEC)
        return True

    def _was_recorded(self, session: Session, call: Call) -> bool:
        return session.mode in READING_MODES and session.decisions.is_next(call)


def _call(place: Data) -> Call:
    return Call(
        type="nondeterministic",
        capability="llm.call",
        operation="stop",
        request=place,
        source="abort",
        instant=True,
        observed=True,
    )
