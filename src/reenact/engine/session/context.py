"""Context variables: the current session, and the attempt number of model calls.

The session in the context variable takes precedence over the session of the whole process. Live
calls and Reenact's own callbacks run in a context that is explicitly outside every session.

Sessions are opaque here. :mod:`.current` has the typed functions for code above the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token, copy_context
from typing import Any, Final

__all__ = [
    "OUTSIDE",
    "VARIABLE",
    "attempt",
    "context_outside_sessions",
    "current",
    "current_attempt",
    "enter_session",
    "leave_session",
    "session_in_context",
    "set_process_session",
]


class _Outside:
    """Marker for code in no session, even if the process has one."""

    def __repr__(self) -> str:
        return "<outside any session>"


OUTSIDE: Final = _Outside()

VARIABLE: Final[ContextVar[Any]] = ContextVar("reenact", default=None)

_get = VARIABLE.get
_process: Any = None


def current() -> Any:
    """Return the innermost open session here, or None."""
    found = _get()
    if found is None:
        return _process
    return None if found is OUTSIDE else found


def session_in_context(context: Context) -> Any:
    """Return the session of code that runs in ``context``, or None."""
    found = context.get(VARIABLE)
    if found is None:
        return _process
    return None if found is OUTSIDE else found


def context_outside_sessions() -> Context:
    """Return a copy of this context that is in no session."""
    context = copy_context()
    context.run(VARIABLE.set, OUTSIDE)
    return context


def enter_session(session: Any) -> Token[Any]:
    """Make ``session`` the current one until :func:`leave_session`."""
    return VARIABLE.set(session)


def leave_session(token: Token[Any]) -> None:
    """Restore the session that was current before :func:`enter_session`."""
    VARIABLE.reset(token)


def set_process_session(session: Any) -> Any:
    """Set the session of the whole process; return the previous one."""
    global _process
    before, _process = _process, session
    return before


_ATTEMPT: ContextVar[int] = ContextVar("reenact-attempt", default=0)


@contextmanager
def attempt(number: int) -> Iterator[None]:
    """Assign model calls in the block to attempt ``number``, counted from 0."""
    token = _ATTEMPT.set(number)
    try:
        yield
    finally:
        _ATTEMPT.reset(token)


def current_attempt() -> int:
    """Return the current attempt number, 0 by default."""
    return _ATTEMPT.get()
