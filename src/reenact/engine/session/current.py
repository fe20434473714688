"""Current session of the calling thread or task, typed for code above the engine.

The engine itself uses :mod:`.context` and a small Protocol, so that it does not import
:class:`Session`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from reenact.engine.session import context

if TYPE_CHECKING:
    from reenact.engine.session.session import Session

__all__ = ["current", "session_in_context"]

current: Callable[[], Session | None] = context.current
"""Return the innermost open session here, or None."""

session_in_context: Callable[[Context], Session | None] = context.session_in_context
"""Return the session of code that runs in a given context, or None."""
