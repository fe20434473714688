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
    """Daemon thread outside sessions: it is not numbered, and its calls are not recorded."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=f"reenact-{name}", daemon=True)
        self._work = work

    def run(self) -> None:
        context_outside_sessions().run(self._work)

    def ended(self, seconds: float) -> bool:
        """Wait for the end, at most ``seconds``. Returns whether the thread has ended."""
        if self.ident is not None and self is not threading.current_thread():
            _join(self, max(0.0, seconds))
        return not self.is_alive()


def run_outside_sessions(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return ``work(…)``, run outside the caller's session."""
    return context_outside_sessions().run(work, *args, **kwargs)


class Notices:
    """Warnings by topic. Each is printed once until its topic is cleared. Thread-safe."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._lock = threading.Lock()
        self._open: dict[str, str] = {}

    @property
    def last(self) -> str:
        with self._lock:
            return next(reversed(self._open.values()), "")

    def note(self, topic: str, text: str) -> None:
        """Store a problem without a warning."""
        with self._lock:
            self._open.pop(topic, None)
            self._open[topic] = text

    def warn(self, topic: str, text: str) -> None:
        """Store a problem, and warn if its topic is new."""
        with self._lock:
            known = topic in self._open
            self._open.pop(topic, None)
            self._open[topic] = text
        if not known:
            self._warn(text)

    def well(self, topic: str) -> None:
        """Clear a topic."""
        with self._lock:
            self._open.pop(topic, None)


RandomFraction = Callable[[], float]
"""Returns a number from 0 to below 1."""

_MOST_ASKED = 3_600.0
"""Maximum number of seconds that ``Retry-After`` can request."""


def random_fraction() -> float:
    """Return a random number that is not one of the program's."""
    return int.from_bytes(entropy(4), "big") / 2**32


class BackOff:
    """Delays between tries: doubled each time, minus a random part of up to a half. For one thread."""

    def __init__(self, limits: Limits, chance: RandomFraction = random_fraction) -> None:
        self._limits = limits
        self._draw = chance
        self._failures = 0

    def succeeded(self) -> None:
        """Reset the delay."""
        self._failures = 0

    def failed(self, retry_after: float | None = None) -> float:
        """Return the seconds to wait, at least ``retry_after``."""
        limits = self._limits
        usual = min(limits.retry_most, limits.retry_first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        if retry_after is not None:
            return min(max(retry_after, 0.0), _MOST_ASKED) + usual * self._draw() / 2
        return usual * (1 - self._draw() / 2)

    def refused(self) -> float:
        """Return the seconds to wait after a refusal that only a person can resolve."""
        return self._limits.refused_seconds * (1 - self._draw() / 2)
