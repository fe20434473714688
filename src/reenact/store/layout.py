"""The names inside a capture directory, and which of them may be there."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "BLOBS",
    "EVENTS",
    "MANIFEST",
    "MERGED",
    "OPEN",
    "SEALED",
    "SEALED_MERGED",
    "SEGMENTS",
    "SIGNATURE",
    "TORN",
    "foreign_entries",
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
SEGMENTS = "segments"
MERGED = "merged.jsonl"
"""A complete merge that has not taken the place of ``events.jsonl`` yet."""

SEALED_MERGED = "sealed.merged"

_FINISHED = frozenset({MANIFEST, EVENTS, BLOBS, SEALED, SIGNATURE, TORN})
_UNFINISHED = frozenset({OPEN, SEGMENTS, MERGED, SEALED_MERGED})


def segment_files(folder: Path) -> list[Path]:
    """The logs of the other processes, in a stable order."""
    return sorted((folder / SEGMENTS).glob("*.jsonl"))


def looks_recorded(folder: Path) -> bool:
    """Is this a recording, finished or not, and nothing else?"""
    names = {entry.name.removesuffix(".tmp") for entry in folder.iterdir()}
    return bool(names & {MANIFEST, OPEN, EVENTS}) and names <= _FINISHED | _UNFINISHED


def foreign_entries(folder: Path) -> list[Path]:
    """What does not belong into a finished capture directory."""
    return sorted(entry for entry in folder.iterdir() if entry.name not in _FINISHED)
