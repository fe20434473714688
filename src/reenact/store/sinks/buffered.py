"""A recording that is held in memory while it is small, and becomes a capture directory when it grows.

Opening and closing a capture directory takes about ten file system calls. An app that records every
request makes none: the recording of a request with few calls is handed over as bytes.

    in memory --(larger than the limit, or another process joins)--> capture directory
        |                                                                  |
        +------------------------- finalize ------------------------------+
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from reenact._system import Clock
from reenact.errors import SinkError, UsageError
from reenact.format.event import VERSION, Draft, Event, Head, Prefix
from reenact.format.manifest import BlobTotals, Flag, Manifest, Seed
from reenact.policy.redaction.redactor import Mark, Redactor
from reenact.store.integrity import LogTotals, close_manifest_json, encode_json
from reenact.store.payload_encoder import Prepared, prepare
from reenact.store.sinks.base import Options, Status, watch_forks
from reenact.store.sinks.directory import DirectorySink
from reenact.store.stream_journal import Note

__all__ = ["LARGEST", "BufferedSink", "Contents", "PreparedCache"]

LARGEST = 256 * 1024
"""Bytes of events that stay in memory."""

_AS_IS: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_MOST_KNOWN: Final = 256
_LONGEST_KNOWN: Final = 4096
"""Bytes of an event that is remembered: a megabyte at most, together."""


class _BufferedEvent(NamedTuple):
    """An event in memory. Of ``draft`` only the envelope is used: its data is not redacted."""

    draft: Draft
    payload: bytes
    line: bytes
    varies: bool


class Contents:
    """A finished recording in memory: the bytes of the two files of a capture directory."""

    __slots__ = ("events", "manifest", "stated")

    def __init__(self, stated: Manifest, manifest: bytes, events: bytes) -> None:
        self.stated = stated
        self.manifest = manifest
        self.events = events

    @property
    def size(self) -> int:
        """Bytes of both files."""
        return len(self.manifest) + len(self.events)


class PreparedCache:
    """The prepared forms of events that come again and again: an app reads the same environment
    variables in every request. All sinks that share one have the same redactor."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._known: dict[bytes, Prepared] = {}

    def prepare(self, event: Draft) -> Prepared:
        """:func:`reenact.store.payload_encoder.prepare`, which depends on nothing but type and data."""
        if event.type != "state_mutation" or event.data.get("type") != "env_read":
            return prepare(event, self._redactor)
        try:
            encoded = orjson.dumps(event.data, option=_AS_IS)
        except TypeError:  # bytes, which have to be written in another form
            return prepare(event, self._redactor)
        found = self._known.get(encoded)
        if found is None:
            found = prepare(event, self._redactor)
            if len(encoded) <= _LONGEST_KNOWN and not found.warning:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[encoded] = found
        return found


class BufferedSink:
    """Records to memory, then to the directory ``path``. See :class:`reenact.store.sinks.base.Sink`.

    Nothing survives a kill before the caller has stored :attr:`contents`. Values are never sealed.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        options: Options,
        largest: int = LARGEST,
        prepared_cache: PreparedCache | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._options = options
        self._largest = largest
        self._prepare = (prepared_cache or PreparedCache(options.redactor)).prepare
        self._lock = threading.Lock()  # covers what follows
        self._seed: Seed | None = None
        self._prefix: Prefix | None = None
        self._flags: set[Flag] = set()
        self._size = 0
        # One append to this list is the whole effect of an event: a signal handler that raises
        # between two instructions leaves nothing half counted.
        self._kept: list[_BufferedEvent] = []
        self._directory: DirectorySink | None = None
        self._failure: SinkError | None = None
        self._manifest: Manifest | None = None
        self._is_over = False
        self.contents: Contents | None = None
        """After the end: the recording, unless it is a directory."""

    def start(self, seed: Seed) -> None:
        if self._seed is not None:
            raise UsageError("this sink has been started already")
        self._seed = seed
        self._prefix = Prefix(seed.capture_id, seed.run_id)
        watch_forks(self)

    def append(self, event: Draft) -> int:
        return self.append_copy(event, ())

    def append_copy(self, event: Draft, received: tuple[Mark, ...]) -> int:
        """Append a copied event. Values are never sealed here, so ``received`` is dropped."""
        directory = self._directory
        if directory is not None:
            return directory.append(event)
        prepared = self._prepare(event)
        if prepared.warning:
            self._options.warn(prepared.warning)
        payload = prepared.payload
        with self._lock:
            if self._prefix is None:
                raise UsageError("start the sink before appending to it")
            if self._is_over:
                raise SinkError("this recording is closed", hint="append before finalize")
            if self._failure is not None:
                return 0
            self._size += len(payload)
            if self._directory is None and self._size > self._largest:
                self._move_to_disk()
            if self._directory is not None:
                return self._directory.append(event)
            if self._failure is not None:
                return 0
            seq = len(self._kept) + 1
            line = self._prefix.line(seq, event, payload)  # refuses a bad envelope
            self._kept.append(_BufferedEvent(event, payload, line, prepared.varies))
            return seq

    def move_to_disk(self) -> None:
        """Become a capture directory, because another process is about to join.

        If that is impossible, nothing more is recorded, and :meth:`finalize` raises the reason.
        """
        with self._lock:
            is_here = self._directory is None and self._failure is None
            if is_here and not self._is_over and self._seed is not None:
                self._move_to_disk()

    def _move_to_disk(self) -> None:
        assert self._seed is not None
        directory = DirectorySink(self._path, clock=self._clock, options=self._options)
        try:
            directory.start(self._seed)
        except SinkError as error:
            self._failure = error
            self._kept.clear()
            return
        for number, kept in enumerate(self._kept, 1):
            directory.append(self._redacted(number, kept.draft, kept.payload))
        for flag in self._flags:
            directory.flag(flag)
        self._directory = directory
        self._kept.clear()

    def _redacted(self, seq: int, draft: Draft, payload: bytes) -> Draft:
        """``draft`` with its redacted payload. Nothing is taken from its own data."""
        assert self._seed is not None
        head = Head(
            version=VERSION,
            capture_id=self._seed.capture_id,
            run_id=self._seed.run_id,
            seq=seq,
            ts=draft.ts,
            type=draft.type,
            lane=draft.lane,
            parent=draft.parent,
        )
        data = Event(head, payload, lambda _seq, stored: stored).data
        return Draft(
            type=draft.type,
            data=data,
            ts=draft.ts,
            lane=draft.lane,
            parent=draft.parent,
            op=draft.op,
            extra=draft.extra,
        )

    def begin(self, event: Draft, position: int) -> Note | None:
        """Open a note in the directory. A recording in memory has none, because it does not survive
        a kill.
        """
        directory = self._directory
        return None if directory is None else directory.begin(event, position)

    def flag(self, flag: Flag) -> None:
        with self._lock:
            if self._directory is not None:
                self._directory.flag(flag)
            else:
                self._flags.add(flag)

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        with self._lock:
            if self._manifest is None:
                self._manifest = self._close(status, error)
            return self._manifest

    def _close(self, status: Status, error: str | None) -> Manifest:
        if self._seed is None:
            raise UsageError("start the sink before finalising it")
        if self._failure is not None:
            raise self._failure
        if self._directory is not None:
            self._is_over = True
            return self._directory.finalize(status, error)
        if self._is_over:
            raise SinkError("this recording was given up", hint="start a new one")
        self._is_over = True
        manifest, raw = close_manifest_json(
            self._seed,
            self._sums(),
            blobs=BlobTotals(0, 0),
            completed_at=self._clock(),
            status=status,
            error=None if error is None else self._options.redactor.text(error),
        )
        events = b"".join([kept.line for kept in self._kept])
        self.contents = Contents(manifest, encode_json(raw), events)
        self._kept.clear()
        return manifest

    def _sums(self) -> LogTotals:
        sums = LogTotals(flags=self._flags)
        for draft, payload, line, is_varying in self._kept:
            digest = b"" if is_varying else hashlib.sha256(payload).digest()
            sums.tally.add(line)
            sums.add(draft.lane, draft.type, payload, digest, varies=is_varying)
        return sums

    def leave(self) -> None:
        if self._directory is not None:
            self._directory.leave()

    def discard(self) -> None:
        """Discard the recording, in memory or on disk."""
        with self._lock:
            if self._directory is not None:
                self._directory.discard()
            elif self._manifest is None:
                self._is_over = True
                self._kept.clear()

    def after_fork(self) -> None:
        """In a forked child that does not take part: its parent's recording is not its own."""
        self._lock = threading.Lock()
        if self._directory is None:
            self._is_over = True
