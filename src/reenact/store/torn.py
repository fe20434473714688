"""``torn/``: what a kill left half-written, moved out of the recording and kept.

Nothing in it was ever acknowledged to the program.
"""

from __future__ import annotations

import os
from pathlib import Path

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.store.blobs import Blobs
from reenact.store.file_access import create_private, make_private_folder, open_regular
from reenact.store.layout import BLOBS, EVENTS, TORN
from reenact.store.lines import Lines
from reenact.store.log import whole_size
from reenact.store.resolving import blob_references

__all__ = ["referenced_blobs", "set_orphans_aside", "set_tail_aside"]


def set_tail_aside(log: Path, folder: Path, *, keep: int | None = None) -> int:
    """Move what stands behind the last whole line (or behind ``keep`` bytes) to ``torn/``.

    Returns how many bytes that was. The copy is durable before the log is cut.
    """
    size = whole_size(log) if keep is None else keep
    with open_regular(log) as file:
        file.seek(size)
        tail = file.read()
    if tail:
        aside = _free_name(folder, f"{log.name}.tail")
        with open(create_private(aside), "wb") as file:
            file.write(tail)
            file.flush()
            os.fsync(file.fileno())
        os.truncate(log, size)
    return len(tail)


def set_orphans_aside(folder: Path) -> list[str]:
    """Move blobs that no event refers to, and half-written ones, to ``torn/``. Returns names."""
    blobs = Blobs(folder / BLOBS)
    present = list(blobs.files())
    if not present:
        return []
    lines = Lines(folder / EVENTS, blobs)
    try:
        known = {blobs.path(digest) for digest in referenced_blobs(lines, blobs)}
    finally:
        lines.close()
    orphans = [file for file in present if file not in known]
    for file in orphans:
        file.replace(_free_name(folder, file.name))
    return [file.name for file in orphans]


def referenced_blobs(lines: Lines, blobs: Blobs) -> dict[str, int]:
    """Every blob that the events of a log refer to: digest → size."""
    found: dict[str, int] = {}
    seq = 1
    while (envelope := lines.envelope(seq)) is not None:
        try:
            found.update(blob_references(bytes(envelope.data), blobs))
        except ValueRefused as error:
            place = lines.place(seq)
            raise RecordingDamaged(f"{place}: {error.message}", place=place) from None
        seq += 1
    return found


def _free_name(folder: Path, name: str) -> Path:
    torn = folder / TORN
    make_private_folder(torn)
    number = 0
    while (path := torn / (f"{name}.{number}" if number else name)).exists():
        number += 1
    return path
