"""Which attempt at the same thing this is: model calls are recorded with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["attempt", "current_attempt"]

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
