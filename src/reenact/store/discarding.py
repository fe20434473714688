"""Removing a recording that its own writer gives up, and nothing beside it.

The caller holds the lock until the last step. The steps are such that a kill between any two of
them leaves what can be recovered, or what holds no event any more and can be overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from reenact.errors import SinkUnwritable
from reenact.store.layout import (
    BLOBS,
    CLOSING,
    EVENTS,
    MANIFEST,
    MERGED,
    OPEN,
    SEALED,
    SEALED_MERGED,
    SEGMENTS,
    STREAMS,
    TORN,
)

__all__ = ["drop_capture", "drop_folder", "is_open_as", "not_removed"]

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
    """Is ``path`` the very file that is open as ``fd``? A negative number is no file."""
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
