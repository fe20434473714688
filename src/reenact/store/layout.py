"""The names inside a capture directory, and which of them may be there."""

from __future__ import annotations

import contextlib
from pathlib import Path

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
    "drop_empty_segments",
    "drop_marks",
    "foreign_entries",
    "is_closing",
    "looks_recorded",
    "segment_files",
]

MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
BLOBS = "blobs"
SEALED = "sealed"
SIGNATURE = "manifest.sig"
TORN = "torn"
"""What recovery cut off: not part of the recording, kept so that nothing is lost."""

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
    """The manifest is there: nobody writes any more."""
    for name in _MARKS:
        (folder / name).unlink(missing_ok=True)


def drop_empty_segments(folder: Path) -> None:
    """The folder of a process that ended before it had a segment."""
    with contextlib.suppress(OSError):
        (folder / SEGMENTS).rmdir()


def foreign_entries(folder: Path) -> list[Path]:
    """What does not belong into a finished capture directory.

    A directory with a valid manifest is complete: a kill right behind it leaves the marks of the
    writer, which say nothing and which recovering removes.
    """
    known = _FINISHED.union(_MARKS)
    return sorted(entry for entry in folder.iterdir() if entry.name not in known)
