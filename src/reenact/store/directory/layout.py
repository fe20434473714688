"""File names inside a capture directory, default capture paths, and removal of a capture.

Removal happens in steps, and the caller holds the lock until the last one. A kill between two steps
leaves either a recording that can be recovered or a directory without events that can be overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from reenact._system import entropy
from reenact.errors import SinkUnwritable
from reenact.policy.paths import FOLDER
from reenact.store.files import unwritable

__all__ = [
    "BLOBS",
    "CLOSING",
    "EVENTS",
    "MANIFEST",
    "MERGED",
    "OPEN",
    "SEALED",
    "SEALED_MERGED",
    "SEGMENTS",
    "SIGNATURE",
    "STREAMS",
    "TORN",
    "drop_capture",
    "drop_empty_segments",
    "drop_folder",
    "drop_marks",
    "foreign_entries",
    "free_sibling",
    "is_closing",
    "is_open_as",
    "looks_recorded",
    "new_capture_path",
    "not_removed",
    "runs_folder",
    "segment_files",
]

MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
BLOBS = "blobs"
SEALED = "sealed"
SIGNATURE = "manifest.sig"
TORN = "torn"
"""Bytes that recovery cut off. They are not part of the recording, but nothing is lost."""

OPEN = "open.json"
CLOSING = "closing"
"""Finalising has begun: no other process joins any more."""

SEGMENTS = "segments"
MERGED = "merged.jsonl"
"""A complete merge that has not taken the place of ``events.jsonl`` yet."""

SEALED_MERGED = "sealed.merged"

STREAMS = f"{EVENTS}.streams"
"""The journal of the first process: calls whose answer is still coming."""

_FINISHED = frozenset({MANIFEST, EVENTS, BLOBS, SEALED, SIGNATURE, TORN})
_MARKS = (CLOSING, OPEN)
_UNFINISHED = frozenset({*_MARKS, SEGMENTS, MERGED, SEALED_MERGED, STREAMS})


def segment_files(folder: Path) -> list[Path]:
    """The logs of the other processes, in a stable order."""
    segments = folder / SEGMENTS
    return sorted(segments.glob("*.jsonl")) if segments.exists() else []


def looks_recorded(folder: Path) -> bool:
    """Is this a recording, finished or not, and nothing else?"""
    names = {entry.name.removesuffix(".tmp") for entry in folder.iterdir()}
    return bool(names & {MANIFEST, OPEN, EVENTS}) and names <= _FINISHED | _UNFINISHED


def is_closing(folder: Path) -> bool:
    """Has finalising begun, or even ended?"""
    return (folder / CLOSING).exists() or (folder / MANIFEST).exists()


def drop_marks(folder: Path) -> None:
    """Remove the marks of an open recording after the manifest has been written."""
    for name in _MARKS:
        (folder / name).unlink(missing_ok=True)


def drop_empty_segments(folder: Path) -> None:
    """The folder of a process that ended before it had a segment."""
    with contextlib.suppress(OSError):
        (folder / SEGMENTS).rmdir()


def foreign_entries(folder: Path) -> list[Path]:
    """Return the entries that do not belong to a finished capture directory.

    A directory with a valid manifest is complete. A kill directly after writing it leaves the marks
    of the writer, which recovery removes.
    """
    known = _FINISHED.union(_MARKS)
    return sorted(entry for entry in folder.iterdir() if entry.name not in known)


def runs_folder(root: Path) -> Path:
    """Return the folder for captures without an explicit path."""
    return root / FOLDER / "runs"


def new_capture_path(root: Path) -> Path:
    """A capture of our own naming; names sort by time. Captures are not for a repository.

    Raises :class:`SinkUnwritable` where the folder for captures cannot be created.
    """
    folder = runs_folder(root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return folder / f"{stamp}-{entropy(2).hex()}"


def free_sibling(place: Path) -> Path:
    """``place`` if there is nothing, else the first of ``place-2``, ``place-3`` … that is free. It is
    created, so that no other process takes it.

    Raises :class:`SinkUnwritable` where it cannot be created.
    """
    try:
        if not place.exists() or (place.is_dir() and not any(place.iterdir())):
            return place
        for number in count(2):
            beside = place.with_name(f"{place.name}-{number}")
            with suppress(FileExistsError):
                beside.mkdir()
                return beside
    except OSError as error:
        raise unwritable(place, error) from None
    raise AssertionError("there is no last number")


# Blobs, half-written ones too, the logs and sealed values of processes, and what was torn off.
_OURS = re.compile(
    r"[0-9a-f]{64}(?:\..*)?|.+\.(?:jsonl|sealed)(?:\.tail(?:\.[0-9]+)?)?|.+\.streams"
)


def drop_capture(folder: Path, *, made: bool) -> None:
    """Remove an unfinished capture directory; the folder itself only when the writer ``made`` it.

    Raises OSError.
    """
    # Without its events a sealed value means nothing; without these an event is still an event.
    _drop_files(folder, SEALED, SEALED_MERGED)
    _drop_files(folder, STREAMS, f"{STREAMS}.tmp", MERGED, EVENTS)
    for name in (SEGMENTS, BLOBS, TORN):
        drop_folder(folder / name)
    _drop_files(folder, f"{MERGED}.tmp", f"{MANIFEST}.tmp", CLOSING, OPEN)
    if made:
        _drop_empty(folder)


def drop_folder(folder: Path) -> None:
    """Remove what a writer puts into a folder of a recording; anything else keeps it there."""
    for parent, _, names in os.walk(folder, topdown=False):
        _drop_files(Path(parent), *filter(_OURS.fullmatch, names))
        _drop_empty(Path(parent))


def _drop_files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _drop_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it holds something that is not ours
        folder.rmdir()


def is_open_as(path: Path, fd: int) -> bool:
    """Return whether ``path`` is the file that is open as ``fd``. A negative ``fd`` never matches."""
    try:
        return fd >= 0 and os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def not_removed(path: Path, error: OSError) -> SinkUnwritable:
    """The error for a recording that was given up and could not be removed."""
    return SinkUnwritable(
        f"the recording at {path} was given up but cannot be removed: {error.strerror or error}",
        hint="remove it by hand",
        errno=error.errno,
    )
