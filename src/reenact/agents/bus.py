"""What goes on in a run, told to whoever listens.

Events are ``{runId, seq, ts, stream, data, sessionKey}``; ``seq`` counts from 1 in each run. The
streams are ``lifecycle assistant thinking tool compaction error``, and any that a program adds.
Observers get a copy, in a thread of their own: they cannot change, block or break a run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from reenact._system import Now, entropy, start_clock
from reenact.agents.observers import LIMIT, Observed, Watch, drained
from reenact.errors import UsageError
from reenact.format.canonical import decode, exact, plain
from reenact.format.event import Data

__all__ = ["STREAMS", "Bus", "BusEvent", "Channel", "emit"]

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
        """The JSON form."""
        found: Data = msgspec.to_builtins(self)
        return found


Subscriber = Callable[[BusEvent], Any]
Bridge = Callable[[BusEvent], None]
"""Told of each event at once, where it is emitted: the mapping to capture events."""

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
        """In the block :func:`emit` and :meth:`Bus.emit` emit in this run."""
        token = _CHANNEL.set(self)
        try:
            yield self
        finally:
            _CHANNEL.reset(token)


class Bus:
    """Where runs emit and observers listen. One may serve any number of runs.

    An observer that is behind by ``limit`` events misses the next ones; how many is counted.
    """

    def __init__(self, *, limit: int = LIMIT, now: Now | None = None) -> None:
        self.now: Now = start_clock() if now is None else now
        self._limit = limit
        self._lock = threading.Lock()
        self._watches: tuple[Watch[BusEvent], ...] = ()
        self._own = Channel(self, f"run_{entropy(8).hex()}", "", None)

    def subscribe(self, observer: Subscriber) -> Callable[[], None]:
        """``observer`` is called with every event from now on, one after another, in a thread of
        its own that is in no session. Returns the function that ends it; events that it has been
        given are still seen."""
        watch: Watch[BusEvent] = Watch(observer, self._limit)
        with self._lock:
            self._watches = (*self._watches, watch)

        def unsubscribe() -> None:
            with self._lock:
                self._watches = tuple(one for one in self._watches if one is not watch)
            watch.end()

        return unsubscribe

    def open(self, run_id: str, session_key: str = "", bridge: Bridge | None = None) -> Channel:
        """The channel of a run. ``bridge`` is called with each of its events, where it is emitted,
        and may raise."""
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
        """The same in small pieces: each is a short wait, which the caller does."""
        return drained(self._watches, grace)

    def observed(self) -> Observed:
        """How the observers have fared so far."""
        return Observed.of(self._watches)


def emit(stream: str, data: Data | None = None) -> BusEvent | None:
    """Emit in the run that is under way here: for tools and models. None where there is no run."""
    channel = _CHANNEL.get()
    return None if channel is None else channel.emit(stream, data)
