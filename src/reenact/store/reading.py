"""Opening a recording, wherever and whatever it is."""

from __future__ import annotations

from pathlib import Path

from reenact.errors import RecordingDamaged, RecordingError, RecordingMissing, RecordingUnfinished
from reenact.format.manifest import Manifest, parse
from reenact.store.blobs import Blobs
from reenact.store.file_access import read_regular
from reenact.store.files import claimed
from reenact.store.layout import BLOBS, EVENTS, MANIFEST, OPEN
from reenact.store.limits import ReadLimits
from reenact.store.lines import Lines
from reenact.store.source import LogSource, check_log
from reenact.store.tape import open_tape

__all__ = ["open_directory", "open_recording", "read_manifest", "unreadable"]


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
    return LogSource(folder, manifest, Lines(folder / EVENTS, blobs, limits=limits), blobs)


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
    if (folder / OPEN).exists() and claimed(folder / OPEN):
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
