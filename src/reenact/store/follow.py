"""Reading a capture while it is being written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from reenact._system import pause
from reenact.errors import RecordingMissing
from reenact.format.event import Event
from reenact.store.blobs import Blobs
from reenact.store.files import claimed
from reenact.store.layout import BLOBS, EVENTS, MANIFEST, OPEN, segment_files
from reenact.store.lines import Lines
from reenact.store.reading import open_recording

__all__ = ["follow"]


def follow(
    folder: Path, *, pause: Callable[[float], None] = pause, patience: int | None = None
) -> Generator[Event, None, None]:
    """Every event, those to come too, until the recording is finished or its writer is gone.

    Events of other processes come with their segment's own numbers; finalising renumbers them.
    ``patience`` ends the wait after so many looks that found nothing.
    """
    if (folder / MANIFEST).exists() or not folder.is_dir():
        with open_recording(folder) as source:
            yield from source
        return
    if not (folder / EVENTS).exists():
        raise RecordingMissing(f"{folder} holds no events", hint="check the path")
    seen: Counter[str] = Counter()
    readers: dict[Path, tuple[Lines, int]] = {}
    idle = 0
    try:
        while True:
            ended = not claimed(folder / OPEN)  # asked first: what comes before is read below
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
    """What was written and merged between two looks. The order inside a lane never changes."""
    passed: Counter[str] = Counter()
    with open_recording(folder) as source:
        for event in source:
            passed[event.lane] += 1
            if passed[event.lane] > seen[event.lane]:
                yield event


def _new_events(folder: Path, readers: dict[Path, tuple[Lines, int]]) -> Iterator[Event]:
    for log in (folder / EVENTS, *segment_files(folder)):
        if log not in readers and log.exists():
            readers[log] = Lines(log, Blobs(folder / BLOBS)), 0
        if log not in readers:
            continue
        lines, seen = readers[log]
        while (envelope := lines.envelope(seen + 1)) is not None:
            seen += 1
            readers[log] = lines, seen
            yield lines.event(envelope)
