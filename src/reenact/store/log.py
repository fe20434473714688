"""The event log of a recording: an append-only file of complete lines, and random access to them.

The writer keeps the sums that prove a log complete. The reader indexes a log only as far as it has
been read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
from array import array
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Literal
from weakref import WeakSet

import msgspec

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.event import ROOT_LANE, VERSION, Envelope, Event, Head, check_lane
from reenact.format.manifest import Checkpoints
from reenact.store.blobs import Blobs
from reenact.store.files import (
    close_descriptor,
    forget_descriptor,
    hold_descriptor,
    open_regular,
    sync_file,
    write_whole,
)
from reenact.store.payload_decoder import PayloadDecoder, ReadLimits, limits_from

__all__ = [
    "Durability",
    "Log",
    "LogReader",
    "Syncer",
    "Tally",
    "forget_syncers",
    "pause_syncers",
    "whole_lines",
    "whole_size",
]

Durability = Literal["none", "interval", "event"]

_CHUNK = 1 << 20


class Tally:
    """Count, size and running hash of lines, with checkpoints that tell *where* a log differs.

    Checkpoints start at every line; when there are too many, every second one is dropped.
    """

    MOST_CHECKPOINTS = 256

    __slots__ = ("_checkpoints", "_every", "_hash", "lines", "size")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._every = 1
        self._checkpoints: list[str] = []
        self.lines = 0
        self.size = 0

    def add(self, line: bytes) -> None:
        self._hash.update(line)
        self.size += len(line)
        self.lines += 1
        if self.lines % self._every == 0:
            self._checkpoints.append(self.short_digest())
            if len(self._checkpoints) > self.MOST_CHECKPOINTS:
                self._every *= 2
                self._checkpoints = self._checkpoints[1::2]

    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def short_digest(self) -> str:
        """The form in which checkpoints are kept."""
        return self._hash.hexdigest()[:8]

    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self._every, " ".join(self._checkpoints))


class Log:
    """Append-only file of complete lines. ``append`` writes one line at once; the caller holds the
    lock.

    A failed or short write is truncated, so the file only contains complete lines. A kill can still
    tear the last line; readers drop such a tail.
    """

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = hold_descriptor(fd)
        self.path = path
        self.tally = Tally()

    def append(self, line: bytes) -> None:
        write_whole(self.fd, line, self.tally.size)
        self.tally.add(line)

    def cut_tail(self) -> None:
        """Cut off an unterminated last line."""
        os.ftruncate(self.fd, whole_size(self.path))

    def close(self) -> None:
        if self.fd >= 0:
            close_descriptor(self.fd)
            self.fd = -1


_join = threading.Thread.join  # before a session makes it a wait of the program


class _Syncing(threading.Thread):
    """One of ours, not of the program: so it is in no session."""


class Syncer:
    """Group commit: a background thread that makes written data durable every ``interval`` seconds.

    ``touch`` costs one attribute lookup while a commit is due. Sessions pause the thread around a
    fork, because Python 3.12 and later warn about a fork in a process with several threads.
    """

    def __init__(self, fd: int, files: list[Path], *, interval: float = 0.1) -> None:
        self._fd = fd
        self._files = files
        self._interval = interval
        self._lock = threading.RLock()
        self._due = threading.Event()
        self._stop = threading.Event()
        self._pending = False
        self._thread: threading.Thread | None = None

    def touch(self) -> None:
        if self._pending:
            return
        with self._lock:
            self._pending = True
            if self._thread is None and not self._start():
                self._pending = False
                self.commit()
                return
            self._due.set()

    def _start(self) -> bool:
        """Start the thread. False where Python starts none any more, because it is ending."""
        thread = _Syncing(target=self._run, name="reenact-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        _syncers.add(self)
        self._thread = thread
        return True

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._stop.wait(self._interval)
            self._due.clear()
            self._pending = False
            self.commit()
            # Checked after the commit: a stop request during the wait above had its event cleared.
            if self._stop.is_set():
                return

    def commit(self) -> None:
        """Make everything written so far durable, as far as the disk lets us."""
        while self._files:
            with contextlib.suppress(OSError):
                sync_file(self._files.pop())
        with contextlib.suppress(OSError):
            os.fdatasync(self._fd)

    def pause(self) -> None:
        """Make everything durable and end the thread; the next ``touch`` starts another."""
        with self._lock:
            if self._thread is None or self._stop.is_set():
                return
            self._end()
            self._thread = None
            self._stop.clear()
            self._due.clear()
            if self._pending:  # since its last commit
                self._pending = False
                self.commit()

    def close(self) -> None:
        """Stop the thread; returns when it no longer touches the file."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._stop.set()
        self._due.set()
        if self._thread is not None:
            _join(self._thread)


_syncers: WeakSet[Syncer] = WeakSet()


def pause_syncers() -> None:
    """For who is about to fork: end our threads. Nothing must be written until that is done."""
    for syncer in list(_syncers):
        syncer.pause()


def forget_syncers() -> None:
    """Drop all syncers in a forked child, where their threads do not exist and locks can stay held."""
    _syncers.clear()


def whole_size(path: Path) -> int:
    """Return the number of bytes of ``path`` that are complete lines."""
    with open_regular(path) as file:
        place = file.seek(0, os.SEEK_END)
        while place > 0:
            start = max(0, place - _CHUNK)
            file.seek(start)
            newline = file.read(place - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            place = start
    return 0


def whole_lines(path: Path, size: int | None = None) -> Iterator[bytes]:
    """The complete lines in the first ``size`` bytes; an unterminated tail is left out."""
    left = size if size is not None else sys.maxsize
    with open_regular(path, _CHUNK) as file:
        for line in file:
            left -= len(line)
            if left >= 0 and line.endswith(b"\n"):
                yield line


class _TapeHead(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a tape up to its data, without the fields that the header defines."""

    ts: int
    type: str
    seq: int | None = None
    """Older tapes say it; else the place of the line does."""
    lane: str = ROOT_LANE
    parent: int | None = None
    """Negative: the distance in lines to the enclosing event."""


class _TapeLine(_TapeHead, frozen=True, kw_only=True):
    """The whole line."""

    data: msgspec.Raw


_full = msgspec.json.Decoder(Envelope)
_head = msgspec.json.Decoder(Head)
_short = msgspec.json.Decoder(_TapeLine)
_short_head = msgspec.json.Decoder(_TapeHead)

_BATCH = 1 << 16

_NO_DATA = msgspec.Raw()


def _long(
    ids: tuple[str, str], seq: int, short: _TapeHead, data: msgspec.Raw = _NO_DATA
) -> Envelope:
    """Expand line ``seq`` of a tape with the common fields of its header."""
    parent = short.parent
    return Envelope(
        version=VERSION,
        capture_id=ids[0],
        run_id=ids[1],
        seq=seq if short.seq is None else short.seq,
        ts=short.ts,
        type=short.type,
        data=data,
        lane=short.lane,
        parent=parent + seq if parent is not None and parent < 0 else parent,
    )


class LogReader:
    """Event lines of one file, from ``start`` to ``stop``; with ``ids`` (captureId, runId) the
    lines are a tape's. Not thread-safe: each reader opens its own.

    The index costs 8 bytes per event that has been passed, nothing per event that has not.
    """

    def __init__(
        self,
        path: Path,
        blobs: Blobs,
        *,
        start: int = 0,
        stop: int | None = None,
        ids: tuple[str, str] | None = None,
        limits: ReadLimits | None = None,
    ) -> None:
        self.name = path.name
        self.blobs = blobs
        self._path = path
        self._file = open_regular(path, _BATCH)
        hold_descriptor(self._file.fileno())
        self._is = os.fstat(self._file.fileno())
        self._file.seek(start)
        self._ends = array("Q", [start])
        self._batch: list[bytes] = []
        self._first = 1
        self._stop = stop
        self._ids = ids
        self._limits = limits or limits_from()
        self._header_lines = 1 if ids else 0
        self._whole = PayloadDecoder(
            blobs, self._stored, shown=ids is not None, limits=self._limits
        ).whole

    def close(self) -> None:
        if not self._file.closed:
            forget_descriptor(self._file.fileno())
        self._file.close()

    def reopen(self) -> LogReader:
        """A second reader of the same file, from its first event, with a descriptor of its own.

        Raises :class:`RecordingDamaged` when the file has gone or another has taken its place.
        """
        place = f"file {self.name}"
        try:
            other = LogReader(
                self._path,
                self.blobs,
                start=self._ends[0],
                stop=self._stop,
                ids=self._ids,
                limits=self._limits,
            )
        except OSError as error:
            raise RecordingDamaged(
                f"{self.name} cannot be opened again: {error.strerror}", place=place
            ) from None
        if not os.path.samestat(other._is, self._is):
            other.close()
            raise RecordingDamaged(
                f"{self.name} has been replaced since it was verified",
                place=place,
                hint="open the recording again",
            )
        return other

    def line(self, seq: int) -> bytes | None:
        """The whole line of event ``seq``, or None behind the last complete one."""
        ends = self._ends
        while len(ends) <= seq:
            if not self._read_on():
                return None
        place = seq - self._first
        if 0 <= place < len(self._batch):
            return self._batch[place]
        return os.pread(self._file.fileno(), ends[seq] - ends[seq - 1], ends[seq - 1])

    def _read_on(self) -> bool:
        """Index the next lines. Return False at the end of the complete lines."""
        ends = self._ends
        end = ends[-1]
        batch = self._file.readlines(_BATCH) if end != self._stop else []
        while batch and self._stop is not None and end + sum(map(len, batch)) > self._stop:
            batch.pop()
        if batch and not batch[-1].endswith(b"\n"):
            batch.pop()  # a torn tail, or a line that is still being written
            self._file.seek(end + sum(map(len, batch)))
        if not batch:
            return False
        self._first, self._batch = len(ends), batch
        ends.pop()
        ends.extend(accumulate(map(len, batch), initial=end))
        return True

    def end(self, seq: int) -> int:
        """The offset behind event ``seq``, which must have been read."""
        return self._ends[seq]

    def envelope(self, seq: int) -> Envelope | None:
        """Event ``seq`` with its data as stored. Raises :class:`RecordingDamaged`."""
        line = self.line(seq)
        return None if line is None else self.parse(line, seq)

    def parse(self, line: bytes, seq: int) -> Envelope:
        """Read a line that must hold event ``seq``."""
        try:
            found = self._decode(line, seq)
            check_lane(found.lane)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueRefused) as error:
            place = self.place(seq)
            raise RecordingDamaged(f"{place} is not an event: {error}", place=place) from None
        if found.seq != seq or found.version != VERSION:
            place = self.place(seq)
            raise RecordingDamaged(
                f"{place} is event {found.seq} of version {found.version}, "
                f"expected event {seq} of version {VERSION}",
                place=f"{place}, field seq" if found.seq != seq else f"{place}, field version",
            )
        return found

    def place(self, seq: int) -> str:
        """Describe the location of event ``seq`` for a message."""
        return f"{self.name} line {seq + self._header_lines}"

    def _decode(self, line: bytes, seq: int) -> Envelope:
        if self._ids is None:
            return _full.decode(line)
        short = _short.decode(line)
        return _long(self._ids, seq, short, short.data)

    def _decode_head(self, start: bytes, seq: int) -> Head:
        if self._ids is None:
            return _head.decode(start)
        return _long(self._ids, seq, _short_head.decode(start))

    def event(self, found: Envelope) -> Event:
        """The event of an envelope of this log; its payload is loaded when it is looked at."""
        return Event(found, bytes(found.data), self._whole)

    def verified_event(self, seq: int) -> Event | None:
        """Event ``seq`` of a log whose hash has been checked: its data is not even skimmed.

        None behind the last one. Raises :class:`RecordingDamaged`.
        """
        line = self.line(seq)
        return None if line is None else self._verified(line, seq)

    def verified_events(self) -> Iterator[Event]:
        """Yield every verified event from the first to the last."""
        seq = 1
        while (line := self.line(seq)) is not None:
            place = seq - self._first
            # A separate list, because other callers can read a different position meanwhile.
            batch = self._batch[place:] if 0 <= place < len(self._batch) else [line]
            for one in batch:
                yield self._verified(one, seq)
                seq += 1

    def _verified(self, line: bytes, seq: int) -> Event:
        if line.endswith(b"}}\n"):
            # ``data`` comes last, and cut anywhere else the head would not be JSON.
            start, _, data = line.partition(b',"data":')
            try:
                head = self._decode_head(start + b"}", seq)
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass  # parse() reports what is wrong with it
            else:
                if head.seq == seq and head.version == VERSION and head.lane == ROOT_LANE:
                    return Event(head, data[:-2], self._whole)
        return self.event(self.parse(line, seq))

    def payload(self, found: Envelope) -> bytes:
        """The whole payload, every reference resolved and verified."""
        return self._whole(found.seq, bytes(found.data))

    def _stored(self, seq: int) -> bytes:
        found = self.envelope(seq)
        if found is None:
            raise RecordingDamaged(f"event {seq} is not there", place=self.place(seq))
        return bytes(found.data)
