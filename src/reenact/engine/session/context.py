"""Context variables: the current session, and the attempt number of model calls.

The session in the context variable takes precedence over the session of the whole process. Live
calls and Reenact's own callbacks run in a context that is explicitly outside every session.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token, copy_context
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reenact.engine.session.session import Session

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
    """Stands for: no session, whatever the process has. Live calls run in it."""

    def __repr__(self) -> str:
        return "<outside any session>"


OUTSIDE: Final = _Outside()

VARIABLE: Final[ContextVar[Session | _Outside | None]] = ContextVar("reenact", default=None)

_get = VARIABLE.get
_process: Session | None = None


def current() -> Session | None:
    """The innermost open session here, or None."""
    found = _get()
    if found is None:
        return _process
    return None if found is OUTSIDE else found  # type: ignore[return-value]


def session_in_context(context: Context) -> Session | None:
    """The same for code that runs in ``context``."""
    found = context.get(VARIABLE)
    if found is None:
        return _process
    return None if found is OUTSIDE else found  # type: ignore[return-value]


def context_outside_sessions() -> Context:
    """A copy of this context that is in no session: for live calls, and for our own callbacks."""
    context = copy_context()
    context.run(VARIABLE.set, OUTSIDE)
    return context


def enter_session(session: Session | _Outside) -> Token[Session | _Outside | None]:
    """``session`` is in force here until :func:`leave`."""
    return VARIABLE.set(session)


def leave_session(token: Token[Session | _Outside | None]) -> None:
    """Back to what was in force before."""
    VARIABLE.reset(token)


def set_process_session(session: Session | None) -> Session | None:
    """The session of the whole process, for a program that runs under Reenact. Returns the last."""
    global _process
    before, _process = _process, session
    return before


_ATTEMPT: ContextVar[int] = ContextVar("reenact-attempt", default=0)


@contextmanager
def attempt(number: int) -> Iterator[None]:
    """Model calls made in here belong to attempt ``number``, counted from 0."""
    token = _ATTEMPT.set(number)
    try:
        yield
    finally:
        _ATTEMPT.reset(token)


def current_attempt() -> int:
    """The attempt that is under way here; 0 where nobody counts them."""
    return _ATTEMPT.get()
