"""The cassettes in a tree of folders, and what each of them is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.errors import RecordingError, RecordingOutdated, RecordingTooNew, RecordingUnfinished
from reenact.format.manifest import Manifest
from reenact.policy.paths import FOLDER
from reenact.runs.leftovers import counted
from reenact.store.tape.reader import open_tape, part_path, tape_blobs

__all__ = ["Cassette", "Status", "files_of", "find_tapes", "leftovers", "look_at", "status_of"]

Status = Literal["ok", "damaged", "unfinished", "too new", "outdated"]

_TAPE = ".jsonl"
_OURS = (b'"format":{"name":"reenact"', b'"captureId":"')
_HEADER = 8192
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
_LEFT = (".part", ".part.kept", ".part.streams", ".capture", ".update", ".new", ".old")
"""What stands beside a tape while it is written, and after a kill."""


class Cassette(msgspec.Struct, frozen=True, kw_only=True):
    """One tape. ``manifest`` is None where it cannot be read; ``why`` says what is wrong then."""

    path: Path
    status: Status
    size: int
    why: str = ""
    hint: str = ""
    manifest: Manifest | None = None
    calls: int = 0

    @property
    def events(self) -> int:
        return 0 if self.manifest is None else self.manifest.event_count


def find_tapes(places: Iterable[Path]) -> Iterator[Path]:
    """Every tape at or below ``places``, each once, in the order of their names. One that was never
    finished counts under the name that it would have."""
    seen: set[Path] = set()
    for place in places:
        for path in _below(place) if place.is_dir() else [_finished_name(place)]:
            if path not in seen and (_is_tape(path) or part_path(path).exists()):
                seen.add(path)
                yield path


def _finished_name(path: Path) -> Path:
    name = path.name
    for end in _LEFT:
        if name.endswith(f"{_TAPE}{end}"):
            return path.with_name(name.removesuffix(end))
    return path


def _below(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        ours = Path(top).name == FOLDER
        folders[:] = sorted(
            name for name in folders if not _is_skipped(name) and not (ours and name == "runs")
        )
        if "manifest.json" in files and "events.jsonl" in files:
            folders.clear()
            continue  # a capture directory
        names = {Path(top) / name for name in files if _TAPE in name}
        yield from sorted({_finished_name(path) for path in names})


def _is_skipped(name: str) -> bool:
    hidden = name.startswith(".") and name != FOLDER
    return hidden or name in _SKIPPED or name.endswith((".blobs", ".capture"))


def _is_tape(path: Path) -> bool:
    if path.suffix != _TAPE:
        return False
    try:
        with path.open("rb") as file:
            start = file.read(_HEADER).partition(b"\n")[0]
    except OSError:
        return False
    return all(mark in start for mark in _OURS)


def look_at(path: Path, *, count: bool = False) -> Cassette:
    """What the tape at ``path`` is; with ``count`` also how many calls it holds."""
    try:
        with open_tape(path) as source:
            calls = 0
            if count:
                script = RecordedCalls(source)
                entries = script.keep_all()
                script.read_all()
                calls, _ = counted(entries)
            manifest = source.manifest()
            size = path.stat().st_size + manifest.blobs.bytes
            return Cassette(path=path, status="ok", size=size, manifest=manifest, calls=calls)
    except RecordingError as error:
        part = part_path(path)
        size = sum(one.stat().st_size for one in (path, part) if one.exists())
        return Cassette(
            path=path, status=status_of(error), size=size, why=error.message, hint=error.hint
        )


def status_of(error: RecordingError) -> Status:
    """What a recording is that cannot be opened."""
    if isinstance(error, RecordingUnfinished):
        return "unfinished"
    if isinstance(error, RecordingTooNew):
        return "too new"
    return "outdated" if isinstance(error, RecordingOutdated) else "damaged"


def leftovers(tape: Path) -> list[Path]:
    """What an interrupted recording or update has left beside ``tape``."""
    beside = (tape.with_name(f"{tape.name}{end}") for end in _LEFT)
    return [path for path in beside if path.exists()]


def files_of(tape: Path) -> list[Path]:
    """Everything that belongs to ``tape``: the file, its blobs, its signature, what was left over."""
    named = [tape, tape_blobs(tape).folder, tape.with_name(f"{tape.name}.sig")]
    return [path for path in (*named, *leftovers(tape)) if path.exists()]
