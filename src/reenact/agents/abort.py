"""Abort signal of a run. The request to stop comes from outside, so it is recorded and replayed."""

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
    """Object with an ``is_set()`` method, such as ``threading.Event`` or ``asyncio.Event``."""

    def is_set(self) -> bool: ...


class Abort:
    """Callable that checks whether the run has to stop.

    It is called between two steps and after each piece of a stream.
    """

    def __init__(self, signal: Signal | None) -> None:
        self._signal = signal
        self._steps = 0

    def __call__(self, pieces: int | None = None) -> bool:
        """Return whether the run has to stop here.

        A replay also stops where the recorded run was stopped. ``pieces`` is the number of received
        pieces of a stream, or None between two steps.
        """
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
