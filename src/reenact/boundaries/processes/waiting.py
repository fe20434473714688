"""Waiting for a process: what the program learns of its end, and when."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from reenact.boundaries.processes.relay import Relay, relay_of
from reenact.boundaries.processes.timing import wait_in_vain, was_in_vain
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = ["asking", "has_ended", "poll", "unwaited", "wait"]

_POLL: Final = "process poll"
_WAIT: Final = "process wait"
_SLICE: Final = 0.01


def unwaited(process: Any) -> Relay | None:
    """The relay of a process that has not been waited for yet."""
    pid = getattr(process, "pid", None)
    if pid is None or process.returncode is not None:
        return None
    return relay_of(pid)


def asking(relay: Relay) -> Session | None:
    """The session that the program asks in; None in the middle of a longer question."""
    session = current()
    return session if session is relay.session and session.is_active else None


def has_ended(relay: Relay) -> bool:
    """Had the process ended when the program asked? That is recorded; if it had, it is waited
    for."""
    session = asking(relay)
    if session is None:
        ended = relay.ended.is_open
    else:
        ended = session.draws.draw(_POLL, lambda: relay.ended.is_open)
    return bool(ended) and relay.wait()


def poll(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Popen.poll``."""

    @wraps(original)
    def poll(self: Any) -> Any:
        relay = unwaited(self)
        if relay is None:
            return original(self)
        return _reap(relay, lambda: original(self)) if has_ended(relay) else None

    return poll


def _reap(relay: Relay, really: Callable[[], Any]) -> Any:
    """It has ended, or is about to: the rest takes no time."""
    code = really()
    while code is None:
        relay.reaped.wait(_SLICE)
        code = really()
    relay.forget()
    return code


def wait(original: Callable[..., Any], expired: Callable[..., BaseException]) -> Any:
    """``Popen._wait``: with a time-out it is recorded whether that was over first."""

    @wraps(original)
    def _wait(self: Any, timeout: float | None) -> Any:
        relay = unwaited(self)
        if relay is None:
            return original(self, timeout)
        try:
            ended = _has_ended_in_time(relay, timeout)
        except BaseException:
            if relay.failure is not None:
                original(self, None)  # it has been killed, or was a stand-in: nobody is left behind
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
