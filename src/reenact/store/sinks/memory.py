"""Recordings in memory: the same contracts as on disk, for tests. Part of ``reenact.testing``."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from reenact.errors import SinkError, UsageError
from reenact.format.event import ROOT_LANE, VERSION, Data, Draft, Event, Head, Prefix
from reenact.format.manifest import FORMAT, BlobTotals, Flag, Manifest, Model, RedactionInfo, Seed
from reenact.policy.redaction.redactor import Mark, Profile, Redactor
from reenact.store.files import EVENTS
from reenact.store.integrity import LogTotals, close_manifest
from reenact.store.payload_encoder import Prepared, prepare
from reenact.store.seal import Restored, Seal, SealedLine, SealedValues, restore
from reenact.store.sinks.base import Options, Status, values_to_seal, watch_forks

__all__ = ["MemorySink", "MemorySource", "memory_seed", "memory_source"]

_START = 1_700_000_000_000
"""Milliseconds since the epoch: when recordings in memory are made."""


def memory_seed(profile: Profile = "none") -> Seed:
    """Return a constant seed for a :class:`MemorySink`, without properties of the machine."""
    return Seed(
        version=1,
        format=FORMAT,
        capture_id="cap_memory",
        run_id="run_memory",
        created_at=_START,
        mode="capture",
        model=Model(),
        event_log_path=EVENTS,
        redaction=RedactionInfo(enabled=profile != "none", profile=profile),
        environment={},
    )


def memory_source(*events: Draft | tuple[str, Data] | tuple[str, Data, str]) -> MemorySource:
    """A recording of these events: drafts, or (type, data) or (type, data, lane).

    Nothing is redacted. A tuple is stamped one millisecond later than the one before it; a draft
    keeps its own time.
    """
    sink = MemorySink(options=Options(redactor=Redactor("none")))
    sink.start(memory_seed())
    for number, event in enumerate(events, 1):
        sink.append(event if isinstance(event, Draft) else _draft(_START + number, *event))
    sink.finalize()
    return sink.source()


def _draft(ts: int, kind: str, data: Data, lane: str = ROOT_LANE) -> Draft:
    return Draft(type=kind, data=data, ts=ts, lane=lane)


class MemorySink:
    """Sink that stores a recording in memory.

    It redacts, seals and computes checksums like a capture directory. The completion time is the
    time of the latest event. With ``fail_after``, every append after that number fails, as on a
    full disk. With a ``failure``, which the caller has reported, it stores nothing and its manifest
    states the failure.
    """

    def __init__(
        self,
        *,
        options: Options | None = None,
        fail_after: int | None = None,
        failure: str | None = None,
    ) -> None:
        self._options = options or Options()
        self._fail_after = fail_after
        self._failure = failure
        self._seed: Seed | None = None
        self._prefix = Prefix("", "")
        self._sums = LogTotals()
        self._events: list[Event] = []
        self._extras: dict[int, dict[str, Any]] = {}
        self._sealed: _Boxes | None = None
        self._manifest: Manifest | None = None
        self._discarded = False
        self._forked = False
        self._lock = threading.Lock()

    @property
    def events(self) -> tuple[Event, ...]:
        """Events that have been appended so far."""
        return tuple(self._events)

    def source(self) -> MemorySource:
        """A reader of the finished recording."""
        if self._manifest is None:
            raise UsageError("finalise the sink before reading what it holds")
        boxes = self._sealed.lines if self._sealed is not None else ()
        return MemorySource(self._manifest, self._events, extras=self._extras, sealed=boxes)

    def start(self, seed: Seed) -> None:
        if self._seed is not None:
            raise UsageError("this sink has been started already")
        self._seed = seed
        self._prefix = Prefix(seed.capture_id, seed.run_id)
        if self._options.seal is not None:
            self._sealed = _Boxes(self._options.seal, seed.capture_id)
        watch_forks(self)

    def append(self, event: Draft) -> int:
        return self.append_copy(event, ())

    def append_copy(self, event: Draft, received: tuple[Mark, ...]) -> int:
        """Append a copied event and seal ``received``."""
        seed = self._seed
        if seed is None:
            raise UsageError("start the sink before appending to it")
        prepared = prepare(event, self._options.redactor)
        if prepared.warning:
            self._options.warn(prepared.warning)
        with self._lock:
            if self._manifest is not None or self._discarded:
                raise SinkError("this recording is closed", hint="append before finalize")
            if self._stopped():
                return 0
            return self._add(seed, event, prepared, values_to_seal(prepared, received))

    def _stopped(self) -> bool:
        count = self._sums.events
        if self._failure is None and self._forked:
            self._fail("a recording in memory holds one process: this forked child is not recorded")
        elif self._failure is None and self._fail_after is not None and count >= self._fail_after:
            self._fail(f"recording stopped after event {count}: it was configured to fail here")
        return self._failure is not None

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._options.warn(f"{reason}; the program continues")

    def _add(self, seed: Seed, event: Draft, prepared: Prepared, marks: tuple[Mark, ...]) -> int:
        payload, seq = prepared.payload, self._sums.events + 1
        digest = hashlib.sha256(payload).digest()
        line = self._prefix.line(seq, event, payload)  # refuses a bad envelope before any effect
        if self._sealed is not None and marks:
            self._sealed.add(seq, event, digest, marks)
        self._sums.tally.add(line)
        self._sums.add(event.lane, event.type, payload, digest, varies=prepared.varies)
        head = Head(
            version=VERSION,
            capture_id=seed.capture_id,
            run_id=seed.run_id,
            seq=seq,
            ts=event.ts,
            type=event.type,
            lane=event.lane,
            parent=event.parent,
        )
        self._events.append(Event(head, payload, _as_stored))
        if event.extra:
            self._extras[seq] = event.extra
        return seq

    def begin(self, event: Draft, position: int) -> None:
        """Nothing in memory survives a kill."""

    def flag(self, flag: Flag) -> None:
        if not self._forked:
            self._sums.flags.add(flag)

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        with self._lock:
            if self._manifest is None:
                self._manifest = self._close(status, error)
            return self._manifest

    def _close(self, status: Status, error: str | None) -> Manifest:
        if self._seed is None:
            raise UsageError("start the sink before finalising it")
        if self._forked:
            raise SinkError("a forked child does not finalise its parent's recording")
        if self._discarded:
            raise SinkError("this recording was given up", hint="start a new one")
        if self._failure is not None:
            status, error = "error", self._failure
        if self._sealed is not None and self._sealed.lines:
            self._sums.flags.add(Flag.SEALED)
            self._sums.sealed_key = self._sealed.key_id
        return close_manifest(
            self._seed,
            self._sums,
            blobs=BlobTotals(0, 0),
            completed_at=max((event.ts for event in self._events), default=self._seed.created_at),
            status=status,
            error=None if error is None else self._options.redactor.text(error),
        )

    def leave(self) -> None:
        """In a forked child: there is nothing to close."""

    def after_fork(self) -> None:
        """In a forked child: its parent never sees what it appends, so it appends nothing."""
        self._forked = True
        self._lock = threading.Lock()

    def discard(self) -> None:
        with self._lock:
            if self._manifest is None and not self._forked:
                self._discarded = self._seed is not None
                self._events.clear()


def _as_stored(_seq: int, stored: bytes) -> bytes:
    return stored


class _Boxes(SealedValues):
    """Sealed values that are kept here instead of in a file."""

    def __init__(self, seal: Seal, capture_id: str) -> None:
        super().__init__(Path(), seal, capture_id)
        self.lines: list[SealedLine] = []

    def add(self, seq: int, event: Draft, digest: bytes, marks: tuple[Mark, ...]) -> None:
        of = (self._capture_id, event.lane, event.ts, f"sha256:{digest.hex()}")
        for mark in marks:
            self.lines.append(msgspec.json.decode(self._line(seq, of, mark), type=SealedLine))


class MemorySource:
    """A recording in memory, read as :class:`reenact.store.source.LogSource` reads one on disk.

    ``events`` are numbered from 1 without gaps. ``extras`` are the unknown envelope fields by seq,
    ``sealed`` the sealed values.
    """

    def __init__(
        self,
        manifest: Manifest,
        events: Iterable[Event],
        *,
        extras: Mapping[int, dict[str, Any]] | None = None,
        sealed: Iterable[SealedLine] = (),
    ) -> None:
        self._manifest = manifest
        self._events = tuple(events)
        self._extras = dict(extras or {})
        self._sealed: defaultdict[int, list[SealedLine]] = defaultdict(list)
        for line in sealed:
            self._sealed[line.seq].append(line)
        self._served = 0

    def manifest(self) -> Manifest:
        return self._manifest

    def next(self, expected_type: str | None = None) -> Event | None:
        head = self.peek()
        if head is None or expected_type not in (None, head.type):
            return None
        self._served += 1
        return head

    def peek(self) -> Event | None:
        return self._events[self._served] if self.remaining() else None

    def remaining(self) -> int:
        return len(self._events) - self._served

    def at(self, seq: int) -> Event:
        """Event ``seq``, wherever the cursor is. Raises :class:`LookupError` outside 1…count."""
        if not 1 <= seq <= len(self._events):
            raise LookupError(f"event {seq} of {len(self._events)}")
        return self._events[seq - 1]

    def extra(self, seq: int) -> dict[str, Any]:
        """The envelope fields of event ``seq`` that this version does not know."""
        return self._extras.get(seq, {})

    def restored(self, event: Event, seal: Seal | None) -> Restored:
        """The data of ``event`` as the program received it, as far as the key opens it."""
        return restore(event, self._sealed.get(event.seq, ()), seal)

    def reopen(self) -> MemorySource:
        """A second reader of the same recording, with its cursor before the first event."""
        lines = (line for of_event in self._sealed.values() for line in of_event)
        return MemorySource(self._manifest, self._events, extras=self._extras, sealed=lines)

    def __iter__(self) -> Iterator[Event]:
        """All events from the first, without moving the cursor."""
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def close(self) -> None:
        """There is nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
