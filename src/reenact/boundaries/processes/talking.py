"""``Popen.communicate``: telling a process something and hearing all that it says, in time or not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

from reenact._system import monotonic
from reenact.boundaries.processes.account import NAMES
from reenact.boundaries.processes.relay import Relay
from reenact.boundaries.processes.timing import InVain, was_in_vain
from reenact.boundaries.processes.waiting import asking, unwaited
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.session import Session

__all__ = ["communicate", "selector"]

_TALK: Final = "process communicate"
_SLICE: Final = 0.005
"""Seconds within which what is there is read."""


def communicate(original: Callable[..., Any], expired: type[Any]) -> Any:
    """``Popen._communicate``: with a time-out it is recorded whether that was over first."""

    @wraps(original)
    def _communicate(self: Any, input: Any, endtime: float | None, orig_timeout: Any) -> Any:
        relay = unwaited(self)
        session = None if relay is None else asking(relay)
        if relay is None or session is None or endtime is None:
            with _talking(relay):
                return original(self, input, endtime, orig_timeout)

        def really(until: float | None) -> Any:
            token = enter_session(OUTSIDE)
            try:
                return original(self, input, until, orig_timeout)
            finally:
                self._communication_started = True  # the next time goes on with this
                leave_session(token)

        talk = _Talk(session, relay, really, expired)
        with _talking(relay):
            return talk.replayed() if session.mode == "replay" else talk.recorded(endtime)

    return _communicate


_here = threading.local()
"""``relay``: of the process that this thread communicates with."""


@contextmanager
def _talking(relay: Relay | None) -> Iterator[None]:
    before = getattr(_here, "relay", None)
    _here.relay = relay
    try:
        yield
    finally:
        _here.relay = before


def selector(original: type[Any]) -> type[Any]:
    """``subprocess._PopenSelector``: whoever selects waits for what the process says."""

    class Selector(original):  # type: ignore[misc]
        def select(self, timeout: float | None = None) -> Any:
            relay = getattr(_here, "relay", None)
            if relay is not None:
                ready = super().select(0)
                if ready:
                    return ready
                with relay.reading(*NAMES):
                    return super().select(timeout)
            return super().select(timeout)

    return Selector


class _Talk:
    """One ``communicate`` with a time-out. ``really(until)`` goes on with it until then, and raises
    ``expired``."""

    def __init__(
        self,
        session: Session,
        relay: Relay,
        really: Callable[[float | None], Any],
        expired: type[Any],
    ) -> None:
        self._session = session
        self._relay = relay
        self._really = really
        self._expired = expired

    def recorded(self, endtime: float) -> Any:
        draw = self._session.draws.draw
        try:
            result = self._really(endtime)
        except self._expired as error:
            timeout = error.timeout
            if was_in_vain(self._session, self._is_unfinished):
                draw(_TALK, lambda: timeout)
                self._raise_again(timeout)
            result = self._really(None)
        draw(_TALK, lambda: None)
        return result

    def _is_unfinished(self) -> bool:
        """Read what had come by then, as it is read in a replay. False if that was the last."""
        try:
            self._really(monotonic() + _SLICE)
        except self._expired:
            return True
        return False

    def _raise_again(self, timeout: float) -> Any:
        """``expired``, with all that has come."""
        try:
            return self._really(monotonic() - 1)
        except self._expired as error:
            error.timeout = timeout
            raise

    def replayed(self) -> Any:
        timeout = self._session.draws.draw(_TALK, lambda: None)
        if timeout is None:
            return self._really(None)
        self._hear_until(InVain(self._session))
        return self._raise_again(timeout)

    def _hear_until(self, waiting: InVain) -> None:
        """Read what comes before the time is up, and what was there then."""
        while not waiting.is_over() and self._is_unfinished():
            if self._relay.failure is not None:
                raise self._relay.failure
        with self._session.scheduler.thread_starts(), _talking(None):
            self._is_unfinished()  # nothing comes any more while we read
