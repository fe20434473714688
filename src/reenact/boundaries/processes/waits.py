"""``Popen.wait``, ``poll`` and ``communicate``, and their time-outs, which are deliveries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

from reenact._system import monotonic
from reenact.boundaries.processes.relay import NAMES, Relay, relay_of
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = [
    "InVain",
    "asking",
    "communicate",
    "has_ended",
    "poll",
    "selector",
    "unwaited",
    "wait",
    "wait_in_vain",
    "was_in_vain",
]


def _next(session: Session) -> tuple[str, str]:
    lane = session.lanes.current()
    return lane.name, f"wait:{lane.waits + 1}"


def was_in_vain(session: Session, still: Callable[[], bool]) -> bool:
    """Record a timeout of this thread when the program is quiescent, if ``still()`` returns true
    then. Return that value."""
    found: list[bool] = []

    def give_up() -> None:
        found.append(still())
        if found[0]:
            session.in_flight.record_delivery(*_next(session))
            session.lanes.current().waits += 1

    if session.tracks_order:
        session.scheduler.hand_over(session.runner(), give_up)
    else:
        give_up()
    return found[0]


def wait_in_vain(session: Session) -> None:
    """Wait in a replay until the recorded timeout is the next delivery.

    Raises the error of a stall.
    """
    if session.tracks_order:
        token = _next(session)
        session.scheduler.wait(Waiter(token, token[0], session.runner()))
        session.lanes.current().waits += 1


class InVain:
    """Recorded timeout, for a thread that polls it while it does other work."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._token = _next(session)
        self._before = session.scheduler.progress()

    def is_over(self) -> bool:
        """Return whether the timeout is the next delivery, and deliver it then."""
        session, scheduler = self._session, self._session.scheduler
        if not session.tracks_order:
            return True
        with session.lock:
            if scheduler.try_now(session.runner(), self._token):
                session.lanes.current().waits += 1
                return True
            self._before = scheduler.look_for_stall(self._before)
            return scheduler.is_exhausted()


_POLL: Final = "process poll"
_WAIT: Final = "process wait"
_SLICE: Final = 0.01


def unwaited(process: Any) -> Relay | None:
    """Return the relay of a process that has not been reaped yet."""
    pid = getattr(process, "pid", None)
    if pid is None or process.returncode is not None:
        return None
    return relay_of(pid)


def asking(relay: Relay) -> Session | None:
    """Return the session if the program itself makes the call, or None inside a longer operation."""
    session = current()
    return session if session is relay.session and session.is_active else None


def has_ended(relay: Relay) -> bool:
    """Return whether the process has ended.

    The result is recorded, and an ended process is waited for.
    """
    session = asking(relay)
    if session is None:
        ended = relay.ended.is_open
    else:
        ended = session.draws.draw(_POLL, lambda: relay.ended.is_open)
    return bool(ended) and relay.wait()


def poll(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace ``Popen.poll``."""

    @wraps(original)
    def poll(self: Any) -> Any:
        relay = unwaited(self)
        if relay is None:
            return original(self)
        return _reap(relay, lambda: original(self)) if has_ended(relay) else None

    return poll


def _reap(relay: Relay, really: Callable[[], Any]) -> Any:
    """Reap a process that has ended or ends soon."""
    code = really()
    while code is None:
        relay.reaped.wait(_SLICE)
        code = really()
    relay.forget()
    return code


def wait(original: Callable[..., Any], expired: Callable[..., BaseException]) -> Any:
    """Replace ``Popen._wait``. With a timeout, it is recorded whether the timeout came first."""

    @wraps(original)
    def _wait(self: Any, timeout: float | None) -> Any:
        relay = unwaited(self)
        if relay is None:
            return original(self, timeout)
        try:
            ended = _has_ended_in_time(relay, timeout)
        except BaseException:
            if relay.failure is not None:
                original(self, None)  # reap the killed process or stand-in
                relay.forget()
            raise
        if not ended:
            raise expired(self.args, timeout)
        code = original(self, None)
        relay.forget()
        return code

    return _wait


def _has_ended_in_time(relay: Relay, timeout: float | None) -> bool:
    session = asking(relay)
    if timeout is None or session is None:
        return relay.wait(None if timeout is None else max(0.0, timeout))
    if session.mode != "replay":
        ended = relay.wait(max(0.0, timeout)) or not was_in_vain(session, _not(relay))
        session.draws.draw(_WAIT, lambda: ended)
        return ended
    if session.draws.draw(_WAIT, lambda: relay.wait(max(0.0, timeout))):
        return relay.wait()
    wait_in_vain(session)
    return False


def _not(relay: Relay) -> Callable[[], bool]:
    return lambda: not relay.ended.is_open


_TALK: Final = "process communicate"
_COMMUNICATE_SLICE: Final = 0.005
"""Seconds within which what is there is read."""


def communicate(original: Callable[..., Any], expired: type[Any]) -> Any:
    """Replace ``Popen._communicate``.

    With a timeout, it is recorded whether the timeout came first.
    """

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
                self._communication_started = True  # the next call continues this one
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
    """Return a ``subprocess._PopenSelector`` that marks its wait as waiting for output."""

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
    """One ``communicate`` call with a timeout.

    ``really(until)`` continues it until then and raises ``expired``.
    """

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
        """Read the output so far, as a replay does. Return False if it was the last."""
        try:
            self._really(monotonic() + _COMMUNICATE_SLICE)
        except self._expired:
            return True
        return False

    def _raise_again(self, timeout: float) -> Any:
        """Raise ``expired`` with the output so far."""
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
        """Read the output until the timeout."""
        while not waiting.is_over() and self._is_unfinished():
            if self._relay.failure is not None:
                raise self._relay.failure
        with self._session.scheduler.thread_starts(), _talking(None):
            self._is_unfinished()  # no further output arrives meanwhile
