"""The events of a recording that the index has not read yet, finished or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from reenact.errors import RecordingError
from reenact.format.event import Event
from reenact.format.manifest import Manifest, Seed
from reenact.store.directory.layout import BLOBS, EVENTS, segment_files
from reenact.store.directory.segments import read_open
from reenact.store.files import open_regular
from reenact.store.log.reader import Lines
from reenact.store.payloads.blobs import Blobs
from reenact.store.reader import open_recording
from reenact.store.tape.reader import first_line, read_header, tape_blobs, tape_lines

__all__ = ["About", "about", "begun", "is_tape", "whole", "written"]

_TAPE = b'"format":{"name":"reenact"'
_HEADER = 4_096

Reading = dict[str, int]
"""How many events were read, by the name of the log."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording says about itself."""

    digest: str = ""
    """Of a finished one: the same digest, the same recording."""
    capture: str = ""
    status: str = "unfinished"
    created: int = 0
    events: int = 0


def is_tape(file: Path) -> bool:
    """Does it begin like one?"""
    with open_regular(file) as opened:
        return _TAPE in opened.read(_HEADER)


def about(path: Path) -> About:
    """Of a finished recording, which is verified. Raises :class:`RecordingError`."""
    with open_recording(path) as source:
        return _about(source.manifest())


def _about(manifest: Manifest) -> About:
    return About(
        digest=manifest.integrity.manifest_hash,
        capture=manifest.capture_id,
        status=manifest.status,
        created=manifest.created_at,
        events=manifest.event_count,
    )


def whole(path: Path) -> Iterator[tuple[str, Event]]:
    """All events of a finished recording, which is verified first. Raises
    :class:`RecordingError`."""
    with open_recording(path) as source:
        while (event := source.next()) is not None:
            yield "", event


def written(path: Path, read: Reading) -> Iterator[tuple[str, Event]]:
    """What has been written to an unfinished recording since ``read``, which is brought up to date.

    Each event comes with the name of its segment, whose numbers are its own. A line that nobody can
    read ends that log: it is still being written, or will be named when the recording is closed.
    """
    for name, lines in _logs(path):
        with closing(lines):
            seq = read.get(name, 0)
            try:
                while (envelope := lines.envelope(seq + 1)) is not None:
                    event = lines.event(envelope)
                    event.data  # noqa: B018 - read it now: what cannot be read ends the log
                    seq += 1
                    read[name] = seq
                    yield name, event
            except (RecordingError, OSError):
                continue


def _logs(path: Path) -> Iterator[tuple[str, Lines]]:
    if not path.is_dir():
        header = first_line(path)
        tape = path.with_name(path.name.removesuffix(".part"))
        yield "", tape_lines(path, tape_blobs(tape), header, read_header(header, path.name))
        return
    blobs = Blobs(path / BLOBS)
    yield "", Lines(path / EVENTS, blobs)
    for segment in segment_files(path):
        yield segment.stem, Lines(segment, blobs)


def begun(path: Path) -> About:
    """Of an unfinished recording. Raises :class:`RecordingError`, :class:`OSError`."""
    if path.is_dir():
        opened = read_open(path)
        if opened is None:
            return About(created=int((path / EVENTS).stat().st_mtime * 1000))
        seed: Seed = opened.seed
    else:
        seed = read_header(first_line(path), path.name)
    return About(capture=seed.capture_id, created=seed.created_at)
