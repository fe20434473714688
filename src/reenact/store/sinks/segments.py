"""Segments: the logs of further processes that join a capture, and their merge into one log.

All processes of a capture use one system-wide clock for timestamps, so the merged order is the order
of events to the millisecond. Within each process the order is exact. A kill between two steps of the
merge is repaired by repeating it:

1. ``merged.jsonl`` is written to a temporary file and renamed. It is authoritative from then on.
2. The segments and their sealed values, which are merged in the same way, are removed.
3. ``merged.jsonl`` replaces ``events.jsonl``.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import orjson

from reenact._system import Clock
from reenact.errors import SinkError
from reenact.format.decoders import build_decoders
from reenact.format.event import Draft, Envelope, Prefix, lane_order
from reenact.format.manifest import Flag, Manifest, Seed
from reenact.policy.redaction.redactor import Mark
from reenact.store.blobs import Blobs
from reenact.store.files import (
    BLOBS,
    EVENTS,
    MERGED,
    OPEN,
    SEALED,
    SEALED_MERGED,
    SEGMENTS,
    create_locked,
    create_private,
    folder_lock,
    is_closing,
    make_private_folder,
    read_regular,
    remove_tree,
    segment_files,
    sync_file,
    unwritable,
    write_private,
)
from reenact.store.integrity import LogTotals, scan, set_orphans_aside, set_tail_aside
from reenact.store.log import Log, LogReader
from reenact.store.payload_decoder import BESIDE, is_delta
from reenact.store.seal import SealedValues, read_sealed
from reenact.store.sinks.base import Options, Status, Writer, watch_forks
from reenact.store.stream_journal import Note

__all__ = [
    "OpenRecording",
    "SegmentSink",
    "finish_merge",
    "join_directory",
    "merge",
    "new_writer",
    "read_open",
]


class OpenRecording(msgspec.Struct, frozen=True, rename="camel"):
    """Content of ``open.json``: enough to recover the recording, and for other processes to join
    it.
    """

    seed: Seed
    pid: int
    clock: Clock


build_decoders(OpenRecording)


def new_writer(log: Path, folder: Path, seed: Seed, options: Options) -> Writer:
    """The one who writes ``log`` of the capture in ``folder``, and holds its lock."""
    fd = create_locked(log)
    sealed = None
    if options.seal is not None:
        name = SEALED if log.parent == folder else f"{SEGMENTS}/{log.stem}.{SEALED}"
        sealed = SealedValues(folder / name, options.seal, seed.capture_id)
    blobs = Blobs(folder / BLOBS)
    return Writer(
        Log(fd, log),
        Prefix(seed.capture_id, seed.run_id),
        blobs,
        sealed,
        options,
        lambda: _scan(log, blobs),
    )


def _scan(log: Path, blobs: Blobs) -> LogTotals:
    lines = LogReader(log, blobs)
    try:
        return scan(lines)
    finally:
        lines.close()


def join_directory(folder: Path, name: str, options: Options) -> Writer:
    """Another process's end of a capture that is being written: its own segment and lock.

    ``name`` is a wish (a lane, a pid); a number is added when it is taken.
    """
    begun = read_open(folder)
    try:
        if begun is not None:
            with folder_lock(folder, shared=True):
                if not is_closing(folder):
                    return _new_segment(folder, name, begun.seed, options)
    except OSError as error:
        raise unwritable(folder / SEGMENTS, error) from None
    raise SinkError(
        f"{folder} is not being recorded",
        hint="join a capture between its start and its finalisation",
    )


def _new_segment(folder: Path, name: str, seed: Seed, options: Options) -> Writer:
    segments = folder / SEGMENTS
    make_private_folder(segments)
    for number in range(1_000_000):
        wish = f"{name}-{number}" if number else name
        with contextlib.suppress(FileExistsError):
            return new_writer(segments / f"{wish}.jsonl", folder, seed, options)
    raise SinkError(f"no free segment name for {name} in {segments}")


def read_open(folder: Path) -> OpenRecording | None:
    """The contents of ``open.json``, or None when it is missing or was never written whole."""
    try:
        return msgspec.json.decode(read_regular(folder / OPEN), type=OpenRecording)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


class SegmentSink:
    """Sink of a process that joins the capture in ``folder`` with its first event.

    A process without events leaves no trace. ``flags`` are passed to the process that closes the
    capture, because the log does not contain them.
    """

    def __init__(self, folder: Path, options: Options) -> None:
        self.flags: set[Flag] = set()
        self._folder = folder
        self._options = options
        self._writer: Writer | None = None
        self._shut_out = False
        self._joining = threading.Lock()

    def start(self, seed: Seed) -> None:
        watch_forks(self)

    def append(self, event: Draft) -> int:
        writer = self._writer or self._join()
        return 0 if writer is None else writer.append(event)

    def append_copy(self, event: Draft, received: tuple[Mark, ...]) -> int:
        writer = self._writer or self._join()
        return 0 if writer is None else writer.append(event, received)

    def begin(self, event: Draft, position: int) -> Note | None:
        writer = self._writer or self._join()
        return None if writer is None else writer.begin(event, position)

    def _join(self) -> Writer | None:
        """None when there is no more to join, which must not stop the program."""
        with self._joining:
            if self._writer is None and not self._shut_out:
                try:
                    self._writer = join_directory(self._folder, f"p{os.getpid()}", self._options)
                except SinkError as error:
                    self._shut_out = True
                    self._options.warn(
                        f"{error.message}; the program continues, but this process is not recorded"
                    )
            return self._writer

    def flag(self, flag: Flag) -> None:
        self.flags.add(flag)

    def after_fork(self) -> None:
        """In a forked child: the segment is our parent's, ours is still to come."""
        self._joining = threading.Lock()
        if self._writer is not None:
            self._writer.release()
            self._writer = None

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        self.leave()
        raise SinkError("a process that joined a capture does not close it")

    def leave(self) -> None:
        """This process has no more to add."""
        if self._writer is not None:
            self._writer.close()
            self._writer.release()
            self._writer = None

    def discard(self) -> None:
        self.leave()


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_Item = tuple[int, tuple[int, ...], int, bytes, Envelope]


def merge(folder: Path) -> LogTotals:
    """Merge all segments into ``events.jsonl`` and compute the checksums of the result.

    Half-written lines of killed processes are moved to ``torn/``.
    """
    if not (folder / MERGED).exists():
        for segment in segment_files(folder):
            set_tail_aside(segment, folder)
        _write_merged(folder)
    sums = finish_merge(folder)
    set_orphans_aside(folder)
    return sums


def finish_merge(folder: Path) -> LogTotals:
    """Steps 2 and 3, for a merge whose first step is done; then the sums over ``events.jsonl``."""
    if (folder / MERGED).exists():
        remove_tree(folder / SEGMENTS)
        if (folder / SEALED_MERGED).exists():
            (folder / SEALED_MERGED).replace(folder / SEALED)
        (folder / MERGED).replace(folder / EVENTS)
        sync_file(folder)
    lines = LogReader(folder / EVENTS, Blobs(folder / BLOBS))
    try:
        sums = scan(lines)
    finally:
        lines.close()
    for line in read_sealed(folder / SEALED, skip_damage=True):  # the events matter more
        sums.flags.add(Flag.SEALED)
        sums.sealed_key = line.key
    return sums


def _write_merged(folder: Path) -> None:
    logs = [folder / EVENTS, *segment_files(folder)]
    blobs = Blobs(folder / BLOBS)
    opened = [LogReader(log, blobs) for log in logs]
    numbers: list[dict[int, int]] = [{} for _ in logs]
    beside = folder / f"{MERGED}.tmp"
    with open(create_private(beside), "wb") as out:
        streams = [_items(lines, index) for index, lines in enumerate(opened)]
        for seq, (_, _, index, line, found) in enumerate(heapq.merge(*streams, key=_place), 1):
            numbers[index][found.seq] = seq
            out.write(_renumbered(line, found, seq, numbers[index]))
        out.flush()
        os.fsync(out.fileno())
    for lines in opened:
        lines.close()
    _merge_sealed(folder, logs, numbers)
    beside.replace(folder / MERGED)
    sync_file(folder)


def _items(lines: LogReader, index: int) -> Iterator[_Item]:
    seq = 1
    while (line := lines.line(seq)) is not None:
        found = lines.parse(line, seq)
        yield found.ts, lane_order(found.lane), index, line, found
        seq += 1


def _place(item: _Item) -> tuple[int, tuple[int, ...], int]:
    return item[:3]


def _renumbered(line: bytes, found: Envelope, seq: int, numbers: dict[int, int]) -> bytes:
    """The line with its new place. ``data`` comes last, so the first match is the envelope's."""
    line = line.replace(b'"seq":%d,' % found.seq, b'"seq":%d,' % seq, 1)
    if found.parent is not None:
        parent = numbers.get(found.parent, found.parent)
        line = line.replace(b'"parent":%d,' % found.parent, b'"parent":%d,' % parent, 1)
    data = bytes(found.data)
    if is_delta(data):
        members = _members.decode(data)  # the fields next to the delta stay unchanged
        step = msgspec.json.decode(members["$delta"])
        step["of"] = [
            base if base == BESIDE else numbers[base] if base > 0 else -numbers[-base]
            for base in step["of"]
        ]
        encoded = orjson.dumps(step, option=orjson.OPT_SORT_KEYS)
        again = msgspec.json.encode({**members, "$delta": msgspec.Raw(encoded)})
        line = line[: line.index(data)] + again + b"}\n"
    return line


def _merge_sealed(folder: Path, logs: list[Path], numbers: list[dict[int, int]]) -> None:
    merged: list[bytes] = []
    for log, known in zip(logs, numbers, strict=True):
        sealed = folder / SEALED if log.parent == folder else log.with_suffix(f".{SEALED}")
        for line in read_sealed(sealed, skip_damage=True):
            if line.seq in known:  # else its event was never completed
                moved = msgspec.structs.replace(line, seq=known[line.seq])
                merged.append(msgspec.json.encode(moved) + b"\n")
    if merged:
        beside = folder / SEALED_MERGED
        beside.touch(mode=0o600)
        write_private(beside, b"".join(merged))
