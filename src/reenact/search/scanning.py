"""The recordings and reports under folders, and whether they are what they were: stat calls only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from reenact.errors import RecordingDamaged, RecordingMissing
from reenact.store.directory.layout import EVENTS, MANIFEST, SEGMENTS
from reenact.store.files import open_regular

__all__ = ["Form", "Found", "scan"]

Form = Literal["capture", "unfinished", "lines", "report"]
"""A finished capture, one that is being made (or never was finished), a file of lines (a tape, if
it begins like one), or what a replay has reported."""

_TAPE, _PART = ".jsonl", ".jsonl.part"
_REPORTS = "reports"
_SKIPPED = (".git", "__pycache__", "node_modules")


class Found(msgspec.Struct, frozen=True):
    """``stamp`` is another one when a file of it was written, replaced or has grown."""

    path: Path
    form: Form
    stamp: str


def scan(places: Iterable[Path]) -> dict[Path, Found]:
    """What is at and under ``places``. Raises :class:`RecordingMissing` for one that is not there."""
    found: dict[Path, Found] = {}
    for place in places:
        if not place.exists():
            raise RecordingMissing(f"there is nothing at {place}", hint="check the path")
        here = _folder(place) if place.is_dir() else _file(place.parent, [place.name])
        found.update((one.path, one) for one in here)
    return found


def _folder(folder: Path) -> Iterator[Found]:
    """In the order of names. Folders that cannot be read are passed over, symlinks not followed."""
    waiting = [str(folder)]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                listed = list(entries)
        except OSError:
            continue
        names = {entry.name for entry in listed}
        if EVENTS in names or (MANIFEST in names and _claims_to_be_one(Path(here))):
            yield _capture(Path(here), names)
            continue
        waiting += sorted((one.path for one in listed if _is_looked_into(one)), reverse=True)
        yield from _file(Path(here), sorted(names))


def _is_looked_into(entry: os.DirEntry[str]) -> bool:
    left_out = entry.name in _SKIPPED or entry.name.endswith(".blobs")
    return not left_out and entry.is_dir(follow_symlinks=False)


def _claims_to_be_one(folder: Path) -> bool:
    """A manifest whose events are gone is a damaged recording; other tools have manifests, too."""
    try:
        with open_regular(folder / MANIFEST) as file:
            return b'"eventLogPath"' in file.read(4_096)
    except RecordingDamaged:
        return True  # opening the recording reports the damage
    except OSError:
        return False


def _capture(folder: Path, names: set[str]) -> Found:
    if MANIFEST in names:
        return Found(folder, "capture", _stamp(folder / MANIFEST, folder / EVENTS))
    segments = sorted((folder / SEGMENTS).glob("*.jsonl")) if SEGMENTS in names else []
    return Found(folder, "unfinished", _stamp(folder / EVENTS, *segments))


def _file(folder: Path, names: Iterable[str]) -> Iterator[Found]:
    for name in names:
        path = folder / name
        if name.endswith((_TAPE, _PART)) and path.is_file():
            yield Found(path, "lines", _stamp(path))
        elif name.endswith(".json") and folder.name == _REPORTS and path.is_file():
            yield Found(path, "report", _stamp(path))


def _stamp(*files: Path) -> str:
    return " ".join(map(_one_stamp, files))


def _one_stamp(file: Path) -> str:
    try:
        found = os.stat(file)
    except OSError:
        return "-"
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"
