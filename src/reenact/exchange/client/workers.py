"""Building blocks of the client's threads: threads outside sessions, warnings, back-off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from reenact._system import entropy
from reenact.engine.session.context import context_outside_sessions
from reenact.exchange.client.limits import Limits
from reenact.store.warning import Warn

__all__ = [
    "BackOff",
    "Notices",
    "RandomFraction",
    "WorkerThread",
    "random_fraction",
    "run_outside_sessions",
]

P = ParamSpec("P")
T = TypeVar("T")

_join = threading.Thread.join  # before a session makes it a wait of the program


class WorkerThread(threading.Thread):
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


def run_outside_sessions(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``work(…)`` as if no session were open, whoever calls."""
    return context_outside_sessions().run(work, *args, **kwargs)


class Notices:
    """Thread-safe. ``last`` is the last thing that is not well."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._lock = threading.Lock()
        self._open: dict[str, str] = {}

    @property
    def last(self) -> str:
        with self._lock:
            return next(reversed(self._open.values()), "")

    def note(self, topic: str, text: str) -> None:
        """Remember it for whoever asks, and say nothing."""
        with self._lock:
            self._open.pop(topic, None)
            self._open[topic] = text

    def warn(self, topic: str, text: str) -> None:
        """Say it, unless something of that topic has been said and is still so."""
        with self._lock:
            known = topic in self._open
            self._open.pop(topic, None)
            self._open[topic] = text
        if not known:
            self._warn(text)

    def well(self, topic: str) -> None:
        """It is well again."""
        with self._lock:
            self._open.pop(topic, None)


RandomFraction = Callable[[], float]
"""From 0 to below 1."""

_MOST_ASKED = 3_600.0
"""Seconds: whoever says ``Retry-After`` cannot silence an agent for longer."""


def random_fraction() -> float:
    """A number by chance, none of the program's."""
    return int.from_bytes(entropy(4), "big") / 2**32


class BackOff:
    """Of one conversation. Not shared by threads."""

    def __init__(self, limits: Limits, chance: RandomFraction = random_fraction) -> None:
        self._limits = limits
        self._draw = chance
        self._failures = 0

    def succeeded(self) -> None:
        """The next failure is the first again."""
        self._failures = 0

    def failed(self, retry_after: float | None = None) -> float:
        """Seconds to wait. What the server asks for is waited at least."""
        limits = self._limits
        usual = min(limits.retry_most, limits.retry_first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        if retry_after is not None:
            return min(max(retry_after, 0.0), _MOST_ASKED) + usual * self._draw() / 2
        return usual * (1 - self._draw() / 2)

    def refused(self) -> float:
        """Seconds to wait where asking again is in vain until a person does something."""
        return self._limits.refused_seconds * (1 - self._draw() / 2)
