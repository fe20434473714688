"""Random access to the lines of a log, indexed only as far as it has been read."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import msgspec

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.event import ROOT_LANE, VERSION, Envelope, Event, Head, check_lane
from reenact.store.blobs import Blobs
from reenact.store.files import forget_descriptor, hold_descriptor, open_regular
from reenact.store.payload_decoder import PayloadDecoder, ReadLimits, limits_from

__all__ = ["LogReader"]


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
