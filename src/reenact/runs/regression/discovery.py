"""Discovery of recordings below folders, and their distribution to shards."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from reenact.errors import RecordingMissing, UsageError
from reenact.runs.remote.location import Location
from reenact.store.files import EVENTS, MANIFEST
from reenact.store.reader import open_tape

__all__ = ["find_recordings", "shard_of"]

_TAPE = b'"format":{"name":"reenact"'
_HEADER = 4_096


def find_recordings(places: Iterable[Path]) -> list[Path]:
    """Find the captures and tapes at or under ``places``, without duplicates.

    The recordings under each place are sorted by name. A link to a folder is only followed if it is
    one of ``places``. Unfinished recordings are included, so that they are reported. Raises
    :class:`RecordingMissing` for a missing or empty place, :class:`RecordingDamaged` for a file
    that is not a tape, and :class:`OSError` for an unreadable folder.
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
                # A tape can have any name. For any other file, the reader reports the problem and
                # the command that imports it.
                open_tape(place)
        if not here:
            raise RecordingMissing(
                f"no recording found under {place}", hint="create one: reenact run -- CMD …"
            )
        for one in here:
            found.setdefault(os.path.realpath(one), one)
    return list(found.values())


def is_recording(path: Path) -> bool:
    """Return True for a capture directory, or a tape with the suffix ``.jsonl``."""
    if path.is_dir():
        return (path / EVENTS).is_file() or (path / MANIFEST).is_file()
    return path.suffix == ".jsonl" and _is_tape(path)


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
    """Raise the error of an unreadable folder, because ``os.walk`` skips it by default."""
    raise error


def _is_tape(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return _TAPE in opened.read(_HEADER)
    except OSError:
        return False


def shard_of(recordings: Sequence[Location], text: str) -> list[Location]:
    """Return one shard of the recordings, such as ``2/5`` for the second of five.

    The shard of a recording depends on its name and not on the other recordings. Raises
    :class:`UsageError`.
    """
    number, slash, parts = text.partition("/")
    if not (slash and number.isdecimal() and parts.isdecimal() and 0 < int(number) <= int(parts)):
        raise UsageError(f"invalid shard {text!r}", hint="--shard 2/5 is the second of five shards")
    return [one for one in recordings if _shard_index(one, int(parts)) == int(number) - 1]


def _shard_index(recording: Location, parts: int) -> int:
    name = recording.as_posix() if isinstance(recording, Path) else recording.name
    digest = hashlib.sha256(os.fsencode(name)).digest()
    return int.from_bytes(digest[:8], "big") % parts
