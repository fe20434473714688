"""Event bus of an agent run and its observers.

Events are ``{runId, seq, ts, stream, data, sessionKey}``; ``seq`` counts from 1 in each run. The
streams are ``lifecycle assistant thinking tool compaction error`` and any that a program adds.
Each observer has a bounded queue and a thread outside every session, and receives copies, so it
cannot change, block or break a run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

import msgspec

from reenact._system import Now, entropy, monotonic, pause, start_clock
from reenact.engine.session.context import OUTSIDE, enter_session
from reenact.errors import UsageError
from reenact.format.canonical import decode, exact, plain
from reenact.format.event import Data

__all__ = [
    "LIMIT",
    "STREAMS",
    "Bus",
    "BusEvent",
    "Channel",
    "Observed",
    "Watch",
    "drained",
    "emit",
]

LIMIT: Final = 10_000
"""Maximum number of events that an observer can be behind."""

_KEPT = 20
"""Failures that are kept in words; later ones are counted."""

_STEP = 0.005
"""Seconds of one short wait for an observer."""

E = TypeVar("E")


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of observers.

    ``dropped`` counts events that an observer missed because it was too far behind. ``pending``
    counts events that it has not processed yet. ``failed`` counts its exceptions, and ``failures``
    describes them.
    """

    dropped: int = 0
    pending: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()

    @classmethod
    def of(cls, watches: Sequence[Watch[Any]]) -> Observed:
        """Return the sum over ``watches``."""
        return cls(
            dropped=sum(one.dropped for one in watches),
            pending=sum(one.pending for one in watches),
            failed=sum(one.failed for one in watches),
            failures=tuple(text for one in watches for text in one.failures)[:_KEPT],
        )

    def since(self, before: Observed) -> Observed:
        """Return the difference from the earlier statistics ``before``."""
        return Observed(
            dropped=self.dropped - before.dropped,
            pending=self.pending,
            failed=self.failed - before.failed,
            failures=self.failures[len(before.failures) :],
        )


class _Observing(threading.Thread):
    """Thread of an observer."""

    def __init__(self, watch: Watch[Any]) -> None:
        super().__init__(target=_work, args=(watch,), name="reenact-observer", daemon=True)
        self._watch = watch

    def idles(self) -> bool:
        """Return whether the thread has nothing to do.

        Only an event gives it work, and the emitting thread is busy then.
        """
        return self._watch.pending == 0


class Watch(Generic[E]):
    """Queue and thread of one observer.

    The thread starts with the first event. It is a daemon, so it does not keep the process alive.
    """

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
        """Number of events that the observer has not finished."""
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
        """Stop the thread after the events in the queue."""
        self._queue.put(None)

    def take(self) -> bool:
        """Call the observer with the next event. Return False if there are no more events."""
        make = self._queue.get()
        if make is None:
            return False
        try:
            self._observer(make())
        except BaseException as error:  # noqa: BLE001 - no error of an observer ends the run
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
    """Yield short waits until nothing is pending or ``grace`` seconds have passed."""
    end = monotonic() + grace
    while any(one.pending for one in watches) and monotonic() < end:
        yield partial(pause, _STEP)


def _work(watch: Watch[Any]) -> None:
    enter_session(OUTSIDE)
    while watch.take():
        pass


STREAMS: Final = ("lifecycle", "assistant", "thinking", "tool", "compaction", "error")
"""The streams that a run itself emits on."""


class BusEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """``ts`` is milliseconds since the epoch, in real time also in a replay."""

    run_id: str
    seq: int
    ts: int
    stream: str
    data: Data
    session_key: str = ""

    def to_json(self) -> Data:
        """Return the JSON form."""
        found: Data = msgspec.to_builtins(self)
        return found


Subscriber = Callable[[BusEvent], Any]
Bridge = Callable[[BusEvent], None]
"""Callback that receives each event immediately, in the emitting thread.

It maps bus events to capture events.
"""

_CHANNEL: ContextVar[Channel | None] = ContextVar("reenact-channel", default=None)


class Channel:
    """The events of one run. Safe to use from threads and tasks."""

    def __init__(self, bus: Bus, run_id: str, session_key: str, bridge: Bridge | None) -> None:
        self.run_id = run_id
        self.session_key = session_key
        self._bus = bus
        self._bridge = bridge
        self._seq = 0
        self._lock = threading.Lock()

    def emit(self, stream: str, data: Data | None = None) -> BusEvent:
        """Tell everybody. ``data`` holds JSON values (and bytes), and is copied.

        Raises :class:`ValueRefused` for anything else, and :class:`UsageError` without a stream.
        """
        if not str(stream).strip():
            raise UsageError(
                "an event needs a stream", hint=f"one of {', '.join(STREAMS)}, or yours"
            )
        encoded = exact({} if data is None else data)
        with self._lock:
            self._seq += 1
            event = BusEvent(
                run_id=self.run_id,
                seq=self._seq,
                ts=self._bus.now(),
                stream=stream,
                data=plain(decode(encoded)),
                session_key=self.session_key,
            )
            self._bus.tell(event, encoded)
        if self._bridge is not None:
            self._bridge(event)
        return event

    @contextmanager
    def here(self) -> Iterator[Channel]:
        """Direct :func:`emit` and :meth:`Bus.emit` to this run during the block."""
        token = _CHANNEL.set(self)
        try:
            yield self
        finally:
            _CHANNEL.reset(token)


class Bus:
    """Event bus between runs and observers. One bus can serve any number of runs.

    An observer that is behind by ``limit`` events misses the next ones. The bus counts the missed
    events.
    """

    def __init__(self, *, limit: int = LIMIT, now: Now | None = None) -> None:
        self.now: Now = start_clock() if now is None else now
        self._limit = limit
        self._lock = threading.Lock()
        self._watches: tuple[Watch[BusEvent], ...] = ()
        self._own = Channel(self, f"run_{entropy(8).hex()}", "", None)

    def subscribe(self, observer: Subscriber) -> Callable[[], None]:
        """Call ``observer`` with every further event, in order, in a separate thread outside
        sessions.

        Returns a function that unsubscribes it. Events that are already queued are still delivered.
        """
        watch: Watch[BusEvent] = Watch(observer, self._limit)
        with self._lock:
            self._watches = (*self._watches, watch)

        def unsubscribe() -> None:
            with self._lock:
                self._watches = tuple(one for one in self._watches if one is not watch)
            watch.end()

        return unsubscribe

    def open(self, run_id: str, session_key: str = "", bridge: Bridge | None = None) -> Channel:
        """Open the channel of a run.

        ``bridge`` is called with each event in the emitting thread and is allowed to raise.
        """
        return Channel(self, run_id, session_key, bridge)

    def emit(self, stream: str, data: Data | None = None) -> BusEvent:
        """Emit in the run that is under way here; where there is none, in one of the bus's own."""
        return (_CHANNEL.get() or self._own).emit(stream, data)

    def tell(self, event: BusEvent, encoded: bytes) -> None:
        """Put a copy of ``event``, whose data are ``encoded``, before every observer."""
        for watch in self._watches:
            watch.put(lambda: msgspec.structs.replace(event, data=plain(decode(encoded))))

    def flush(self, grace: float) -> None:
        """Wait until the observers have seen everything, at most ``grace`` seconds."""
        for wait in self.waiting(grace):
            wait()

    def waiting(self, grace: float) -> Iterator[Callable[[], None]]:
        """Split :meth:`flush` into short waits, which the caller performs one by one."""
        return drained(self._watches, grace)

    def observed(self) -> Observed:
        """Return the statistics of all observers."""
        return Observed.of(self._watches)


def emit(stream: str, data: Data | None = None) -> BusEvent | None:
    """Emit an event in the current run, from a tool or a model. Return None outside a run."""
    channel = _CHANNEL.get()
    return None if channel is None else channel.emit(stream, data)
