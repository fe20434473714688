"""The recordings under a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from reenact.errors import RecordingMissing, UsageError
from reenact.runs.remote.location import Location
from reenact.store.directory.layout import EVENTS, MANIFEST
from reenact.store.tape.reader import open_tape

__all__ = ["find_recordings", "shard_of"]

_TAPE = b'"format":{"name":"reenact"'
_HEADER = 4_096


def find_recordings(places: Iterable[Path]) -> list[Path]:
    """Captures and tapes at or under ``places``, each once however often it is named, in the order
    of their names. Links to folders are not followed, but where they are named themselves.

    One that was never finished is one, too: it is reported, not passed over. Raises
    :class:`RecordingMissing` for a place that is not there, or has none, :class:`RecordingDamaged`
    for a file that is not a tape, and what the system says of a folder that cannot be read.
    """
    found: dict[str, Path] = {}
    for place in places:
        if not place.exists():
            raise RecordingMissing(f"there is nothing at {place}", hint="check the path")
        here = [place]
        if not is_recording(place):
            if place.is_dir():
                here = sorted(_under(place))
            else:
                # A tape can have any name. Of another file, the reader reports what is wrong with
                # it and which command imports it.
                open_tape(place)
        if not here:
            raise RecordingMissing(
                f"there is no recording under {place}", hint="make some: reenact run -- CMD …"
            )
        for one in here:
            found.setdefault(os.path.realpath(one), one)
    return list(found.values())


def is_recording(place: Path) -> bool:
    """Is this a capture directory, or a tape?"""
    if place.is_dir():
        return (place / EVENTS).is_file() or (place / MANIFEST).is_file()
    return place.suffix == ".jsonl" and _is_tape(place)


def _under(folder: Path) -> Iterator[Path]:
    for name, folders, files in os.walk(folder, onerror=_refuse):
        here = Path(name)
        if here != folder and is_recording(here):
            folders.clear()
            yield here
            continue
        folders[:] = sorted(one for one in folders if not one.endswith(".blobs"))
        yield from (here / one for one in files if is_recording(here / one))


def _refuse(error: OSError) -> None:
    """What cannot be looked into is not passed over."""
    raise error


def _is_tape(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return _TAPE in opened.read(_HEADER)
    except OSError:
        return False


def shard_of(recordings: Sequence[Location], text: str) -> list[Location]:
    """``2/5``: the second of five parts. The same recording is always in the same part, whatever
    stands beside it."""
    number, slash, parts = text.partition("/")
    if not (slash and number.isdecimal() and parts.isdecimal() and 0 < int(number) <= int(parts)):
        raise UsageError(f"there is no part {text!r}", hint="--shard 2/5 is the second of five")
    return [one for one in recordings if _place(one, int(parts)) == int(number) - 1]


def _place(recording: Location, parts: int) -> int:
    name = recording.as_posix() if isinstance(recording, Path) else recording.name
    digest = hashlib.sha256(os.fsencode(name)).digest()
    return int.from_bytes(digest[:8], "big") % parts
