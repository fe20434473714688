"""Reading a tape: a recording in one readable file, made to be reviewed and checked in.

A header line (what is known at the start), one line per event, a closing line (the sums).
Payloads stand inline; only what is above the threshold goes to ``NAME.blobs/``. A tape is written
as ``NAME.part`` and renamed when it is complete, so a file under its own name is whole.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from reenact.errors import RecordingDamaged, RecordingMissing, RecordingUnfinished
from reenact.format.manifest import Manifest, Seed, check_version, parse
from reenact.store.files import is_locked, open_regular
from reenact.store.log.integrity import LogTotals, scan
from reenact.store.log.reader import LogReader
from reenact.store.log.writer import whole_size
from reenact.store.payloads.blobs import Blobs
from reenact.store.payloads.decoder import ReadLimits
from reenact.store.source import LogSource, check_log

__all__ = [
    "drop_closing_line",
    "first_line",
    "open_tape",
    "part_path",
    "read_header",
    "scan_tape",
    "tape_blobs",
    "tape_lines",
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
            f"{path} was never finished: there is only {part.name}",
            hint=f"reenact recover {path}",
        )
    return RecordingMissing(f"there is no recording at {path}", hint="check the path")
