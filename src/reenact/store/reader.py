"""Opening a recording of any kind, and following a capture while it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from reenact._system import pause
from reenact.errors import RecordingDamaged, RecordingError, RecordingMissing, RecordingUnfinished
from reenact.format.event import Event
from reenact.format.manifest import Manifest, parse
from reenact.store.directory.layout import BLOBS, EVENTS, MANIFEST, OPEN, segment_files
from reenact.store.files import is_locked, read_regular
from reenact.store.log.reader import LogReader
from reenact.store.payloads.blobs import Blobs
from reenact.store.payloads.decoder import ReadLimits
from reenact.store.source import LogSource, check_log
from reenact.store.tape.reader import open_tape

__all__ = [
    "follow",
    "open_directory",
    "open_recording",
    "read_manifest",
    "unreadable",
]


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
        hint="check who may read it",
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
        hint="check the path; ls shows what is there",
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
