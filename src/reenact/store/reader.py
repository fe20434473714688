"""Opening a recording of any kind, and following a capture while it is written.

A capture directory consists of a manifest, a log and blobs. A tape is one file that can be reviewed
and checked in: a header line (the facts known at the start), one line per event, and a closing line
(the sums). Its payloads are inline; only those above the threshold go to ``NAME.blobs/``. A tape is
written as ``NAME.part`` and renamed when it is complete, so a file with its final name is complete.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import msgspec

from reenact._system import pause
from reenact.errors import RecordingDamaged, RecordingError, RecordingMissing, RecordingUnfinished
from reenact.format.event import Event
from reenact.format.manifest import Manifest, Seed, check_version, parse
from reenact.store.blobs import Blobs
from reenact.store.files import (
    BLOBS,
    EVENTS,
    MANIFEST,
    OPEN,
    is_locked,
    open_regular,
    read_regular,
    segment_files,
)
from reenact.store.integrity import LogTotals, scan
from reenact.store.log import LogReader, whole_size
from reenact.store.payload_decoder import ReadLimits
from reenact.store.source import LogSource, check_log

__all__ = [
    "drop_closing_line",
    "first_line",
    "follow",
    "open_directory",
    "open_recording",
    "open_tape",
    "part_path",
    "read_header",
    "read_manifest",
    "scan_tape",
    "tape_blobs",
    "tape_lines",
    "unreadable",
]

_CLOSING = b'{"closed":'
_FOREIGN = frozenset({".rrbin", ".json", ".har", ".yaml", ".yml", ".mitm", ".flow", ".flows"})
"""Suffixes of files that ``reenact import`` reads."""


def part_path(tape: Path) -> Path:
    """Return the path of a tape while it is written."""
    return tape.with_name(f"{tape.name}.part")


def tape_blobs(tape: Path) -> Blobs:
    """Return the blobs of a tape."""
    return Blobs(tape.with_name(f"{tape.name}.blobs"))


def scan_tape(part: Path, blobs: Blobs) -> LogTotals:
    """The sums over an unfinished tape, header included."""
    header = first_line(part)
    lines = tape_lines(part, blobs, header, read_header(header, part.name))
    try:
        return scan(lines, header=header)
    finally:
        lines.close()


def first_line(path: Path) -> bytes:
    """The header of a tape, as it lies there."""
    with open_regular(path) as file:
        return file.readline()


def drop_closing_line(part: Path) -> None:
    """A kill between the closing line and the rename: take the line off, to be made again."""
    start = _start_of_last(part, whole_size(part))
    with part.open("rb+") as file:
        file.seek(start)
        if file.read(len(_CLOSING)) == _CLOSING:
            file.truncate(start)


def tape_lines(
    path: Path,
    blobs: Blobs,
    header: bytes,
    seed: Seed,
    stop: int | None = None,
    limits: ReadLimits | None = None,
) -> LogReader:
    """The event lines of a tape."""
    ids = (seed.capture_id, seed.run_id)
    return LogReader(path, blobs, start=len(header), stop=stop, ids=ids, limits=limits)


def read_header(line: bytes, name: str) -> Seed:
    """The seed in a tape's first line."""
    raw = parse(line, place=f"{name} line 1")
    check_version(raw, f"{name} line 1")
    try:
        return Seed.read(raw)
    except msgspec.ValidationError as error:
        raise RecordingDamaged(f"{name} line 1: {error}", place=f"{name} line 1") from None


def open_tape(path: Path, limits: ReadLimits | None = None) -> LogSource:
    """Open a tape, verified. See :func:`reenact.store.reader.open_recording`."""
    name = path.name
    if not path.exists():
        raise _no_tape(path)
    try:
        header = first_line(path)
        closing, start, lines = _last_line(path)
    except OSError as error:
        raise RecordingDamaged(
            f"{path} cannot be read: {error.strerror}", place=f"file {name}"
        ) from None
    try:
        raw = parse(header, place=f"{name} line 1")
        check_version(raw, f"{name} line 1")
    except RecordingDamaged as error:
        raise _as_foreign(path, error) from None
    closed = _closed(closing, name, lines)
    manifest = Manifest.from_json({**raw, **closed}, place=f"{name} (first and last line)")
    check_log(path, manifest, name=name, size=start, lines=manifest.event_count + 1)
    blobs = tape_blobs(path)
    lines_read = tape_lines(path, blobs, header, manifest, start, limits)
    return LogSource(path, manifest, lines_read, blobs)


def _as_foreign(path: Path, error: RecordingDamaged) -> RecordingDamaged:
    """Add the import command to ``error`` if the suffix belongs to another tool's format."""
    if path.suffix.lower() not in _FOREIGN:
        return error
    hint = f"if another tool wrote it: reenact import {path}"
    return RecordingDamaged(error.message, place=error.place, hint=hint)


def _last_line(path: Path) -> tuple[bytes, int, int]:
    """The last line, where it starts, and how many lines there are (a torn tail counts)."""
    size = path.stat().st_size
    end = whole_size(path)
    with open_regular(path) as file:
        count = sum(1 for _ in file)
        if end < size:
            return b"", end, count
        start = _start_of_last(path, end)
        file.seek(start)
        return file.read(), start, count


def _start_of_last(path: Path, end: int) -> int:
    with open_regular(path) as file:
        place = end - 1
        while place > 0:
            start = max(0, place - 65536)
            file.seek(start)
            newline = file.read(place - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            place = start
    return 0


def _closed(line: bytes, name: str, lines: int) -> dict[str, Any]:
    place = f"{name} line {lines}"
    closed = None
    with contextlib.suppress(RecordingDamaged):
        closed = parse(line, place=place).get("closed")
    if not isinstance(closed, dict):
        raise RecordingDamaged(
            f"{place}: the closing line is missing or cut short",
            place=place,
            hint="restore the tape from a copy, or record it again",
        )
    return closed


def _no_tape(path: Path) -> RecordingMissing | RecordingUnfinished:
    part = part_path(path)
    if part.exists():
        if is_locked(part):
            return RecordingUnfinished(
                f"{path} is still being recorded", hint="wait for the program to end"
            )
        return RecordingUnfinished(
            f"{path} was never finished: only {part.name} exists", hint=f"reenact recover {path}"
        )
    return RecordingMissing(f"no recording found at {path}", hint="check the path")


def open_recording(path: str | Path, *, limits: ReadLimits | None = None) -> LogSource:
    """Open a capture directory or a tape file, verified: version, count and hash.

    Raises :class:`RecordingMissing`, :class:`RecordingUnfinished`, :class:`RecordingDamaged`,
    :class:`RecordingTooNew` or :class:`RecordingOutdated`. Close it when done, or use ``with``.
    ``limits``: how much its deltas expand to at most, otherwise as the environment sets it.
    """
    place = Path(path)
    try:
        if place.is_dir():
            return open_directory(place, limits)
        return open_tape(place, limits)
    except OSError as error:
        raise unreadable(place, error) from None


def unreadable(path: Path, error: OSError) -> RecordingDamaged:
    """The error for a recording that the operating system does not let us read."""
    return RecordingDamaged(
        f"{path} cannot be read: {error.strerror or error}",
        place=f"file {path.name}",
        hint="check its permissions",
    )


def open_directory(folder: Path, limits: ReadLimits | None = None) -> LogSource:
    """Open a capture directory, verified. See :func:`open_recording`."""
    manifest = read_manifest(folder)
    check_log(folder / EVENTS, manifest, name=EVENTS, size=None, lines=manifest.event_count)
    blobs = Blobs(folder / BLOBS)
    return LogSource(folder, manifest, LogReader(folder / EVENTS, blobs, limits=limits), blobs)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a capture directory, checked against itself only."""
    try:
        content = read_regular(folder / MANIFEST)
    except FileNotFoundError:
        raise _no_manifest(folder) from None
    except OSError as error:
        raise RecordingDamaged(
            f"{folder / MANIFEST} cannot be read: {error.strerror}", place=f"file {MANIFEST}"
        ) from None
    manifest = Manifest.from_json(parse(content, place=MANIFEST), place=MANIFEST)
    if manifest.event_log_path != EVENTS:
        raise RecordingDamaged(
            f"{MANIFEST} names the log {manifest.event_log_path!r}, expected {EVENTS!r}",
            place=f"{MANIFEST}, field eventLogPath",
        )
    return manifest


def _no_manifest(folder: Path) -> RecordingError:
    if (folder / OPEN).exists() and is_locked(folder / OPEN):
        return RecordingUnfinished(
            f"{folder} is still being recorded",
            hint=f"wait for the program to end, or look at it now: reenact show --follow {folder}",
        )
    if (folder / OPEN).exists() or (folder / EVENTS).exists():
        return RecordingUnfinished(
            f"{folder} was never finished: it has events but no {MANIFEST}",
            hint=f"reenact recover {folder}",
        )
    return RecordingMissing(
        f"{folder} is a directory without a recording",
        hint="check the path with ls",
    )


def follow(
    folder: Path, *, pause: Callable[[float], None] = pause, patience: int | None = None
) -> Generator[Event, None, None]:
    """Yield every event, including future ones, until the recording is finished or its writer
    ended.

    Events of other processes have the numbers of their segment; finalising renumbers them.
    ``patience`` limits the number of consecutive polls without a new event.
    """
    if (folder / MANIFEST).exists() or not folder.is_dir():
        with open_recording(folder) as source:
            yield from source
        return
    if not (folder / EVENTS).exists():
        raise RecordingMissing(f"{folder} holds no events", hint="check the path")
    seen: Counter[str] = Counter()
    readers: dict[Path, tuple[LogReader, int]] = {}
    idle = 0
    try:
        while True:
            ended = not is_locked(folder / OPEN)  # asked first: what comes before is read below
            found = False
            for event in _new_events(folder, readers):
                found = True
                seen[event.lane] += 1
                yield event
            if ended or idle == patience:
                break
            idle = 0 if found else idle + 1
            pause(0.1)
    finally:
        for lines, _ in readers.values():
            lines.close()
    if (folder / MANIFEST).exists():
        yield from _unseen(folder, seen)


def _unseen(folder: Path, seen: Counter[str]) -> Iterator[Event]:
    """Yield events that were written and merged between two polls. The order in a lane never
    changes.
    """
    passed: Counter[str] = Counter()
    with open_recording(folder) as source:
        for event in source:
            passed[event.lane] += 1
            if passed[event.lane] > seen[event.lane]:
                yield event


def _new_events(folder: Path, readers: dict[Path, tuple[LogReader, int]]) -> Iterator[Event]:
    for log in (folder / EVENTS, *segment_files(folder)):
        if log not in readers and log.exists():
            readers[log] = LogReader(log, Blobs(folder / BLOBS)), 0
        if log not in readers:
            continue
        lines, seen = readers[log]
        while (envelope := lines.envelope(seen + 1)) is not None:
            seen += 1
            readers[log] = lines, seen
            yield lines.event(envelope)
