"""The source protocol for readers of recordings, and the reader of both containers."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from reenact.errors import RecordingDamaged
from reenact.format.event import Event, unknown_fields
from reenact.format.manifest import Manifest
from reenact.store.blobs import Blobs
from reenact.store.files import SEALED, open_regular
from reenact.store.integrity import referenced_blobs
from reenact.store.log import LogReader, Tally, whole_lines
from reenact.store.seal import Restored, SealedLine, read_sealed, restore

if TYPE_CHECKING:  # most recordings have nothing that a key opens
    from reenact.store.seal import Seal

__all__ = ["LogSource", "SeekableSource", "Source"]

_CHUNK = 1 << 16
_RESTORE = "restore the recording from a copy; a damaged one is never replayed"


class Source(Protocol):
    """A recording, read in order. Opening one has verified its version, count and hash."""

    def manifest(self) -> Manifest:
        """Return the manifest of the recording."""

    def next(self, expected_type: str | None = None) -> Event | None:
        """The next event, if there is one and it is of the expected type.

        Otherwise None, and the cursor stays where it is: nothing is ever skipped silently.
        """

    def peek(self) -> Event | None:
        """The next event, without moving on."""

    def remaining(self) -> int:
        """Number of events that have not been served."""


class SeekableSource(Source, Protocol):
    """A source that also gives any event by its seq, wherever the cursor is."""

    def at(self, seq: int) -> Event:
        """Event ``seq``. Raises :class:`LookupError` outside 1…count."""

    def extra(self, seq: int) -> dict[str, Any]:
        """The envelope fields of event ``seq`` that this version does not know."""

    def restored(self, event: Event, seal: Seal | None) -> Restored:
        """The data of ``event`` as the program received it, as far as the key opens it."""

    def reopen(self) -> SeekableSource:
        """A second reader of the same recording, with its cursor before the first event."""

    def close(self) -> None:
        """Nothing is read any more."""

    def __iter__(self) -> Iterator[Event]:
        """All events from the first, without moving the cursor."""

    def __len__(self) -> int: ...


class LogSource:
    """Verified log with a cursor and access by seq.

    The cursor (:meth:`next`, :meth:`peek`) and :meth:`at` can be mixed: neither moves the other,
    and both return the same events. Each event that was read costs 8 bytes of index. Not
    thread-safe, and a forked child shares the file position with its parent: a second thread or a
    child opens its own reader with :meth:`reopen`.
    """

    def __init__(self, path: Path, manifest: Manifest, lines: LogReader, blobs: Blobs) -> None:
        self.path = path
        self.blobs = blobs
        self._manifest = manifest
        self._count = manifest.event_count
        self._lines = lines
        self._served = 0
        self._head: Event | None = None
        self._events = lines.verified_events()
        self._sealed: defaultdict[int, list[SealedLine]] | None = None

    def manifest(self) -> Manifest:
        return self._manifest

    def next(self, expected_type: str | None = None) -> Event | None:
        head = self._head
        if head is None:
            if self._served >= self._count:
                return None
            head = self._following()
        if expected_type is not None and head.type != expected_type:
            self._head = head
            return None
        self._served += 1
        self._head = None
        return head

    def peek(self) -> Event | None:
        if self._head is None and self._served < self._count:
            self._head = self._following()
        return self._head

    def _following(self) -> Event:
        event = next(self._events, None)
        if event is None:
            raise self._gone(self._served + 1)
        return event

    def remaining(self) -> int:
        return self._count - self._served

    def at(self, seq: int) -> Event:
        """Event ``seq``, wherever the cursor is. Raises :class:`LookupError` outside 1…count."""
        if not 1 <= seq <= self._count:
            raise LookupError(f"event {seq} of {self._count}")
        found = self._lines.verified_event(seq)
        if found is None:
            raise self._gone(seq)
        return found

    def _gone(self, seq: int) -> RecordingDamaged:
        place = self._lines.place(seq)
        return RecordingDamaged(f"{place} has gone since it was verified", place=place)

    def raw(self, seq: int) -> bytes:
        """The line of event ``seq`` as it lies there."""
        return self._lines.line(seq) or b""

    def extra(self, seq: int) -> dict[str, Any]:
        """The envelope fields of event ``seq`` that this version does not know."""
        return unknown_fields(self.raw(seq))

    def stored(self, seq: int) -> bytes:
        """The data of event ``seq`` as it lies there: perhaps a delta, or references to blobs."""
        found = self._lines.envelope(seq)
        return b"" if found is None else bytes(found.data)

    def place(self, seq: int) -> str:
        """Describe the location of event ``seq`` for a message."""
        return self._lines.place(seq)

    def referenced_blobs(self) -> dict[str, int]:
        """Every blob that the events refer to: digest → size."""
        return referenced_blobs(self._lines, self.blobs)

    def restored(self, event: Event, seal: Seal | None) -> Restored:
        """The data of ``event`` as the program received it, as far as the key opens it."""
        if self._sealed is None:
            self._sealed = defaultdict(list)
            if self.path.is_dir():
                for line in read_sealed(self.path / SEALED):
                    self._sealed[line.seq].append(line)
        return restore(event, self._sealed.get(event.seq, ()), seal)

    def __iter__(self) -> Iterator[Event]:
        """All events from the first, without moving the cursor."""
        return map(self.at, range(1, self._manifest.event_count + 1))

    def __len__(self) -> int:
        return self._manifest.event_count

    def reopen(self) -> LogSource:
        """A second reader of the same recording, with its cursor before the first event.

        It has a file descriptor of its own and is not verified again: it is the same file. Raises
        :class:`RecordingDamaged` when that has gone or another has taken its place.
        """
        return LogSource(self.path, self._manifest, self._lines.reopen(), self.blobs)

    def close(self) -> None:
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def check_log(path: Path, manifest: Manifest, *, name: str, size: int | None, lines: int) -> None:
    """Compare the first ``size`` bytes (all, when None) with the manifest's sums.

    ``lines`` is how many lines that must be. Raises :class:`RecordingDamaged` with the first
    place that differs.
    """
    running = hashlib.sha256()
    newlines = 0
    try:
        with open_regular(path, 0) as file:
            left = size if size is not None else 1 << 62
            while chunk := file.read(min(_CHUNK, left)):
                running.update(chunk)
                # Four times as fast as count(), which looks at one byte at a time.
                newlines += len(chunk) - len(chunk.replace(b"\n", b""))
                left -= len(chunk)
    except OSError as error:
        raise RecordingDamaged(
            f"{name} cannot be read: {error.strerror}", place=f"file {name}", hint=_RESTORE
        ) from None
    whole = f"sha256:{running.hexdigest()}" == manifest.integrity.events_hash
    if not whole or newlines != lines:
        raise _first_difference(path, manifest, name, size, lines)


def _first_difference(
    path: Path, manifest: Manifest, name: str, size: int | None, lines: int
) -> RecordingDamaged:
    hint = _RESTORE
    every = max(1, manifest.integrity.checkpoints.every)
    hashes = manifest.integrity.checkpoints.hashes.split()
    tally = Tally()
    for line in whole_lines(path, size):
        tally.add(line)
        number, rest = divmod(tally.lines, every)
        if rest or not 1 <= number <= len(hashes):
            continue
        if tally.short_digest() != hashes[number - 1]:
            first = tally.lines - every + 1
            place = f"{name} line {first}"
            if every > 1:
                place = f"{name} lines {first} to {tally.lines}"
            return RecordingDamaged(
                f"{place}: not what was written (the running hash differs)", place=place, hint=hint
            )
    if tally.lines != lines:
        place = f"{name} line {min(tally.lines, lines) + 1}"
        problem = "is missing or cut short" if tally.lines < lines else "was added"
        return RecordingDamaged(
            f"{place} {problem}: {lines} lines were written, {tally.lines} are there",
            place=place,
            hint=hint,
        )
    first = len(hashes) * every + 1
    place = f"{name}, line {first} or later" if first <= lines else f"{name}, behind line {lines}"
    return RecordingDamaged(f"{place}: not what was written", place=place, hint=hint)
