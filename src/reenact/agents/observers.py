"""Observers: each has a queue with an end, and a thread of its own that is in no session."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

import msgspec

from reenact._system import monotonic, pause
from reenact.engine.session.context import OUTSIDE, enter_session

__all__ = ["LIMIT", "Observed", "Watch", "drained"]

LIMIT: Final = 10_000
"""Events that an observer may be behind."""

_KEPT = 20
"""Failures that are kept in words; later ones are counted."""

_STEP = 0.005
"""Seconds of one short wait for an observer."""

E = TypeVar("E")


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """How observers fared: events they ``dropped`` because they were too far behind, that are
    ``pending`` because they have not come to them yet, and what they ``failed`` with."""

    dropped: int = 0
    pending: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()

    @classmethod
    def of(cls, watches: Sequence[Watch[Any]]) -> Observed:
        """The sum over ``watches``."""
        return cls(
            dropped=sum(one.dropped for one in watches),
            pending=sum(one.pending for one in watches),
            failed=sum(one.failed for one in watches),
            failures=tuple(text for one in watches for text in one.failures)[:_KEPT],
        )

    def since(self, before: Observed) -> Observed:
        """What came after ``before``."""
        return Observed(
            dropped=self.dropped - before.dropped,
            pending=self.pending,
            failed=self.failed - before.failed,
            failures=self.failures[len(before.failures) :],
        )


class _Observing(threading.Thread):
    """The thread of an observer."""

    def __init__(self, watch: Watch[Any]) -> None:
        super().__init__(target=_work, args=(watch,), name="reenact-observer", daemon=True)
        self._watch = watch

    def idles(self) -> bool:
        """Has it nothing to do? Only an event gives it something, and who emits one is awake."""
        return self._watch.pending == 0


class Watch(Generic[E]):
    """One observer at work. Its thread starts with the first event, and is no reason for the
    process to stay."""

    def __init__(self, observer: Callable[[E], Any], limit: int) -> None:
        self.dropped = 0
        self.failed = 0
        self.failures: list[str] = []
        self._observer = observer
        self._limit = limit
        self._queue: SimpleQueue[Callable[[], E] | None] = SimpleQueue()
        self._given = 0
        self._seen = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def pending(self) -> int:
        """How many events it has been given and not seen to the end."""
        return self._given - self._seen

    def put(self, make: Callable[[], E]) -> None:
        """Give it an event, which ``make`` makes in its thread; drop it if it is too far behind."""
        with self._lock:
            if self.pending >= self._limit:
                self.dropped += 1
                return
            self._given += 1
            if self._thread is None or not self._thread.is_alive():  # a fork has taken it away
                self._thread = _Observing(self)
                self._thread.start()
        self._queue.put(make)

    def end(self) -> None:
        """No more events come."""
        self._queue.put(None)

    def take(self) -> bool:
        """Call the observer with the next event; False when there are no more."""
        make = self._queue.get()
        if make is None:
            return False
        try:
            self._observer(make())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run goes on
            self._note(error)
        self._seen += 1
        return True

    def _note(self, error: BaseException) -> None:
        name = getattr(self._observer, "__qualname__", type(self._observer).__qualname__)
        text = f"{name} failed: {type(error).__name__}: {error}"
        self.failed += 1
        if len(self.failures) < _KEPT:
            self.failures.append(text)
        if self.failed == 1 and sys.stderr is not None:
            print(f"reenact: warning: the observer {text}", file=sys.stderr)


def drained(watches: Sequence[Watch[Any]], grace: float) -> Iterator[Callable[[], None]]:
    """Short waits, until nothing is pending or ``grace`` seconds have passed."""
    end = monotonic() + grace
    while any(one.pending for one in watches) and monotonic() < end:
        yield partial(pause, _STEP)


def _work(watch: Watch[Any]) -> None:
    enter_session(OUTSIDE)
    while watch.take():
        pass
