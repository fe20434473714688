"""The session that is in force here: one context variable, over one for the whole process."""

from __future__ import annotations

from contextvars import Context, ContextVar, Token, copy_context
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = [
    "OUTSIDE",
    "VARIABLE",
    "current",
    "enter",
    "in_context",
    "leave",
    "outside",
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


def in_context(context: Context) -> Session | None:
    """The same for code that runs in ``context``."""
    found = context.get(VARIABLE)
    if found is None:
        return _process
    return None if found is OUTSIDE else found  # type: ignore[return-value]


def outside() -> Context:
    """A copy of this context that is in no session: for live calls, and for our own callbacks."""
    context = copy_context()
    context.run(VARIABLE.set, OUTSIDE)
    return context


def enter(session: Session | _Outside) -> Token[Session | _Outside | None]:
    """``session`` is in force here until :func:`leave`."""
    return VARIABLE.set(session)


def leave(token: Token[Session | _Outside | None]) -> None:
    """Back to what was in force before."""
    VARIABLE.reset(token)


def set_process_session(session: Session | None) -> Session | None:
    """The session of the whole process, for a program that runs under Reenact. Returns the last."""
    global _process
    before, _process = _process, session
    return before
