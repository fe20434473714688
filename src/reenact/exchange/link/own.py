"""What the link does is no part of the program: threads and calls outside any session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from reenact.engine.session.context import context_outside_sessions

__all__ = ["OwnThread", "apart"]

P = ParamSpec("P")
T = TypeVar("T")

_join = threading.Thread.join  # before a session makes it a wait of the program


class OwnThread(threading.Thread):
    """A daemon of ours: a session numbers it not, and what it does is recorded nowhere."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=f"reenact-{name}", daemon=True)
        self._work = work

    def run(self) -> None:
        context_outside_sessions().run(self._work)

    def ended(self, seconds: float) -> bool:
        """Wait until it has ended, at most so long. Did it?"""
        if self.ident is not None and self is not threading.current_thread():
            _join(self, max(0.0, seconds))
        return not self.is_alive()


def apart(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``work(…)`` as if no session were open, whoever calls."""
    return context_outside_sessions().run(work, *args, **kwargs)
