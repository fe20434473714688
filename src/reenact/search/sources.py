"""Sources of a search: recordings and reports below folders, and their content."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

from reenact.engine.divergence.model import Divergence
from reenact.errors import RecordingDamaged, RecordingError, RecordingMissing, ReenactError
from reenact.format.event import Event
from reenact.format.manifest import Manifest, Seed
from reenact.search.extraction import CALL, Call, CallText, flatten
from reenact.store.blobs import Blobs
from reenact.store.files import BLOBS, EVENTS, MANIFEST, SEGMENTS, open_regular, segment_files
from reenact.store.log import LogReader
from reenact.store.reader import first_line, open_recording, read_header, tape_blobs, tape_lines
from reenact.store.sinks.segments import read_open

__all__ = [
    "Form",
    "RecordingInfo",
    "ReplayReport",
    "SourceFile",
    "finished_events",
    "finished_info",
    "is_tape",
    "read_report",
    "scan",
    "unfinished_events",
    "unfinished_info",
]

Form = Literal["capture", "unfinished", "lines", "report"]
"""Form of a source.

``capture`` is finished, and ``unfinished`` is a capture without a manifest. ``lines`` is a file
that can be a tape. ``report`` is the report of a replay.
"""

_TAPE, _PART = ".jsonl", ".jsonl.part"
_REPORTS = "reports"
_SKIPPED = (".git", "__pycache__", "node_modules")


class SourceFile(msgspec.Struct, frozen=True):
    """Recording or report. ``stamp`` changes when a file of it is written, replaced or extended."""

    path: Path
    form: Form
    stamp: str


def scan(places: Iterable[Path]) -> dict[Path, SourceFile]:
    """Find the sources at and under ``places``, without reading most of them.

    Raises :class:`RecordingMissing` for a missing place.
    """
    found: dict[Path, SourceFile] = {}
    for place in places:
        if not place.exists():
            raise RecordingMissing(f"there is nothing at {place}", hint="check the path")
        here = _folder(place) if place.is_dir() else _file(place.parent, [place.name])
        found.update((one.path, one) for one in here)
    return found


def _folder(folder: Path) -> Iterator[SourceFile]:
    """Yield the sources under ``folder``.

    Unreadable folders are skipped, and links to folders are not followed.
    """
    waiting = [str(folder)]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                listed = list(entries)
        except OSError:
            continue
        names = {entry.name for entry in listed}
        if EVENTS in names or (MANIFEST in names and _has_own_manifest(Path(here))):
            yield _capture(Path(here), names)
            continue
        waiting += sorted((one.path for one in listed if _is_searched(one)), reverse=True)
        yield from _file(Path(here), sorted(names))


def _is_searched(entry: os.DirEntry[str]) -> bool:
    left_out = entry.name in _SKIPPED or entry.name.endswith(".blobs")
    return not left_out and entry.is_dir(follow_symlinks=False)


def _has_own_manifest(folder: Path) -> bool:
    """Return True for a manifest of Reenact. Without events, the capture is damaged."""
    try:
        with open_regular(folder / MANIFEST) as file:
            return b'"eventLogPath"' in file.read(4_096)
    except RecordingDamaged:
        return True  # opening the recording reports the damage
    except OSError:
        return False


def _capture(folder: Path, names: set[str]) -> SourceFile:
    if MANIFEST in names:
        return SourceFile(folder, "capture", _stamp(folder / MANIFEST, folder / EVENTS))
    segments = sorted((folder / SEGMENTS).glob("*.jsonl")) if SEGMENTS in names else []
    return SourceFile(folder, "unfinished", _stamp(folder / EVENTS, *segments))


def _file(folder: Path, names: Iterable[str]) -> Iterator[SourceFile]:
    for name in names:
        path = folder / name
        if name.endswith((_TAPE, _PART)) and path.is_file():
            yield SourceFile(path, "lines", _stamp(path))
        elif name.endswith(".json") and folder.name == _REPORTS and path.is_file():
            yield SourceFile(path, "report", _stamp(path))


def _stamp(*files: Path) -> str:
    return " ".join(map(_one_stamp, files))


def _one_stamp(file: Path) -> str:
    try:
        found = os.stat(file)
    except OSError:
        return "-"
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


_TAPE_HEADER = b'"format":{"name":"reenact"'
_HEADER = 4_096

Reading = dict[str, int]
"""Number of events read, by log name."""


class RecordingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a recording, from its manifest or header."""

    digest: str = ""
    """Digest of the manifest of a finished recording."""
    capture: str = ""
    status: str = "unfinished"
    created: int = 0
    events: int = 0


def is_tape(file: Path) -> bool:
    """Return True if ``file`` begins like a tape."""
    with open_regular(file) as opened:
        return _TAPE_HEADER in opened.read(_HEADER)


def finished_info(path: Path) -> RecordingInfo:
    """Return the facts about a finished recording. Raises :class:`RecordingError`."""
    with open_recording(path) as source:
        return _about(source.manifest())


def _about(manifest: Manifest) -> RecordingInfo:
    return RecordingInfo(
        digest=manifest.integrity.manifest_hash,
        capture=manifest.capture_id,
        status=manifest.status,
        created=manifest.created_at,
        events=manifest.event_count,
    )


def finished_events(path: Path) -> Iterator[tuple[str, Event]]:
    """Yield all events of a finished recording, with an empty log name.

    Raises :class:`RecordingError`.
    """
    with open_recording(path) as source:
        while (event := source.next()) is not None:
            yield "", event


def unfinished_events(path: Path, read: Reading) -> Iterator[tuple[str, Event]]:
    """Yield the events written to an unfinished recording since ``read``, and update ``read``.

    Each event comes with the name of its segment. An unreadable line ends its log without an error,
    because it may be incomplete.
    """
    for name, lines in _logs(path):
        with closing(lines):
            seq = read.get(name, 0)
            try:
                while (envelope := lines.envelope(seq + 1)) is not None:
                    event = lines.event(envelope)
                    event.data  # noqa: B018 - decode it now, because invalid data ends the log
                    seq += 1
                    read[name] = seq
                    yield name, event
            except (RecordingError, OSError):
                continue


def _logs(path: Path) -> Iterator[tuple[str, LogReader]]:
    if not path.is_dir():
        header = first_line(path)
        tape = path.with_name(path.name.removesuffix(".part"))
        yield "", tape_lines(path, tape_blobs(tape), header, read_header(header, path.name))
        return
    blobs = Blobs(path / BLOBS)
    yield "", LogReader(path / EVENTS, blobs)
    for segment in segment_files(path):
        yield segment.stem, LogReader(segment, blobs)


def unfinished_info(path: Path) -> RecordingInfo:
    """Return the facts about an unfinished recording.

    Raises :class:`RecordingError` and :class:`OSError`.
    """
    if path.is_dir():
        opened = read_open(path)
        if opened is None:
            return RecordingInfo(created=int((path / EVENTS).stat().st_mtime * 1000))
        seed: Seed = opened.seed
    else:
        seed = read_header(first_line(path), path.name)
    return RecordingInfo(capture=seed.capture_id, created=seed.created_at)


class ReplayReport(msgspec.Struct, frozen=True):
    """Report of a replay. ``recording`` is the path in the report, or empty."""

    recording: str
    status: str
    calls: list[Call]


def read_report(path: Path, written: int) -> ReplayReport | None:
    """Read a report of ``run --report``, or a single divergence; return None for other JSON.

    ``written`` is the time of the report in milliseconds. Raises :class:`RecordingDamaged` for a
    file that is not JSON.
    """
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RecordingDamaged(f"{path} is no JSON: {error}", place=f"file {path.name}") from None
    if not isinstance(found, dict):
        return None
    listed = found.get("divergences", [found] if "code" in found else None)
    if not isinstance(listed, list):
        return None
    recording = found.get("recording")
    return ReplayReport(
        recording if isinstance(recording, str) else "",
        str(found.get("status", "diverged")),
        list(_calls(listed, written)),
    )


def _calls(listed: list[Any], written: int) -> Iterator[Call]:
    for number, one in enumerate(listed):
        try:
            divergence = Divergence.from_json(one)
        except ReenactError:
            continue
        seq = divergence.event_seq
        texts = [CallText(CALL, f"{divergence.detail} ({divergence.code})")]
        gaps = flatten([msgspec.to_builtins(gap) for gap in divergence.paths])
        texts += [CallText("difference", gaps)] if gaps else []
        texts += [CallText("hint", divergence.hint)] if divergence.hint else []
        yield Call(
            seq=seq if type(seq) is int else 0,
            closed=seq if type(seq) is int else 0,
            ts=written,
            type="divergence",
            lane=divergence.lane,
            log=str(number),
            kind="divergence",
            name=divergence.code,
            failed=True,
            diverged=divergence.code,
            texts=texts,
        )
