"""Updater of the index: adds new, changed and extended sources, and removes deleted ones."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from reenact._system import monotonic
from reenact.errors import RecordingError
from reenact.search.index import Notify
from reenact.search.index_writer import Writer, remove
from reenact.search.sources import (
    RecordingInfo,
    SourceFile,
    finished_events,
    is_tape,
    read_report,
    unfinished_events,
    unfinished_info,
)
from reenact.search.sources import (
    finished_info as about,
)
from reenact.store.reader import unreadable

__all__ = [
    "IndexedFile",
    "Progress",
    "Updater",
    "differing",
    "key_of",
    "read_known",
    "removed",
]

_LONG = 5.0
"""Seconds between two progress messages."""
_BATCH = 2_000
"""Number of events after which a transaction is committed."""


class Updater:
    """Updater that synchronizes an index with the sources found."""

    def __init__(
        self, database: sqlite3.Connection, root: Path, *, words: bool, notify: Notify
    ) -> None:
        self._database = database
        self._root = root
        self._words = words
        self._notify = notify
        self._known = read_known(database)
        self.progress = Progress()

    def empty(self) -> None:
        """Delete all content of the index."""
        with _transaction(self._database):
            for table in ("recordings", "calls", "places", "texts"):
                self._database.execute(f"DELETE FROM {table}")
            if self._words:
                self._database.execute("INSERT INTO words (words) VALUES ('delete-all')")
        self._known.clear()

    def update(self, found: dict[bytes, SourceFile], places: Iterable[bytes]) -> Progress:
        """Update the index in batches. Completed batches are kept after an interruption.

        ``places`` are the paths under which missing sources count as deleted.
        """
        lost = removed(self._known, found, places)
        with _transaction(self._database):
            for key in lost:
                self._forget(self._known[key])
            self.progress.removed += len(lost)
        waiting = differing(self._known, found)[::-1]
        start, total = monotonic(), len(waiting)
        while waiting:
            if monotonic() - start > _LONG:
                self._notify(
                    f"reading what is new for the index: {total - len(waiting)} of {total}"
                )
                start = monotonic()
            enough = self.progress.events + _BATCH
            with _transaction(self._database):
                while waiting and self.progress.events < enough:
                    key = waiting.pop()
                    self._index(key, found[key])
        return self.progress

    def _forget(self, known: IndexedFile) -> None:
        remove(self._database, known.id, words=self._words)
        self._database.execute("DELETE FROM recordings WHERE id = ?", (known.id,))

    def _index(self, key: bytes, found: SourceFile) -> None:
        known = self._known.get(key)
        self.progress.read += 1
        try:
            if found.form == "report":
                self._report(key, found, known)
            elif found.form == "unfinished" or found.path.name.endswith(".part"):
                self._grown(key, found, known)
            elif found.form == "lines" and not is_tape(found.path):
                self._row(key, found, known, RecordingInfo(status=""), form="lines")
            else:
                self._finished(key, found, known)
        except RecordingError as error:
            self._unreadable(key, found, error)
        except OSError as error:
            self._unreadable(key, found, unreadable(found.path, error))

    def _finished(self, key: bytes, found: SourceFile, known: IndexedFile | None) -> None:
        info = about(found.path)
        if known is not None and known.digest == info.digest and known.form == found.form:
            stamp = "UPDATE recordings SET stamp = ? WHERE id = ?"
            self._database.execute(stamp, (found.stamp, known.id))
            return
        writer = self._writer(self._row(key, found, known, info))
        for log, event in finished_events(found.path):
            writer.add(log, event)
            self.progress.events += 1
        writer.finish()

    def _grown(self, key: bytes, found: SourceFile, known: IndexedFile | None) -> None:
        info = unfinished_info(found.path)
        read: dict[str, int] = {}
        if known is not None and known.form == found.form and _has_grown(known.stamp, found.stamp):
            read = json.loads(known.read)
            recording = known.id
        else:
            recording = self._row(key, found, known, info)
        writer = self._writer(recording)
        for log, event in unfinished_events(found.path, read):
            writer.add(log, event)
            self.progress.events += 1
        writer.finish()
        self._database.execute(
            "UPDATE recordings SET stamp = ?, read = ?, events = ? WHERE id = ?",
            (found.stamp, json.dumps(read), sum(read.values()), recording),
        )

    def _report(self, key: bytes, found: SourceFile, known: IndexedFile | None) -> None:
        when = int(found.path.stat().st_mtime * 1000)
        report = read_report(found.path, when)
        if report is None:
            self._row(key, found, known, RecordingInfo(status=""))
            return
        about = key_of(self._root / report.recording, self._root) if report.recording else None
        row = self._row(
            key, found, known, RecordingInfo(status=report.status, created=when), about=about
        )
        writer = self._writer(row)
        for call in report.calls:
            writer.put(call)
        writer.finish()

    def _unreadable(self, key: bytes, found: SourceFile, error: RecordingError) -> None:
        """Store the error of a source, which every search reports until the file changes."""
        known = self._database.execute(
            "SELECT id, form, stamp, digest, read FROM recordings WHERE path = ?", (key,)
        ).fetchone()
        row = self._row(
            key, found, IndexedFile(*known) if known else None, RecordingInfo(status="unreadable")
        )
        values = (error.message, error.hint or "", row)
        self._database.execute("UPDATE recordings SET problem = ?, hint = ? WHERE id = ?", values)

    def _row(
        self,
        key: bytes,
        found: SourceFile,
        known: IndexedFile | None,
        info: RecordingInfo,
        *,
        form: str = "",
        about: bytes | None = None,
    ) -> int:
        """Insert a row without calls, which replaces the known one, and return its id."""
        if known is not None:
            self._forget(known)
        row = self._database.execute(
            "INSERT INTO recordings (path, form, stamp, digest, about, capture, status, created, "
            "events) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(key, form or found.form, found.stamp, info.digest, about),
                *(info.capture, info.status, info.created, info.events),
            ),
        )
        assert row.lastrowid is not None
        return row.lastrowid

    def _writer(self, recording: int) -> Writer:
        return Writer(self._database, recording, words=self._words)


def _has_grown(before: str, now: str) -> bool:
    """Return True if the files are the same and none is shorter. There can be additional files."""
    old, new = before.split(), now.split()
    if len(new) < len(old) or "-" in (*old, *new):
        return False
    inodes = {one.rpartition(":")[2]: int(one.partition(":")[0]) for one in new}
    return all(inodes.get(one.rpartition(":")[2], -1) >= int(one.partition(":")[0]) for one in old)


class _transaction:
    """Transaction that is rolled back after an exception."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._database.execute("COMMIT")
        elif self._database.in_transaction:
            self._database.execute("ROLLBACK")


class IndexedFile(msgspec.Struct, frozen=True):
    """Row of a source: its form, stamp and digest, and the number of events read per log (as
    JSON)."""

    id: int
    form: str
    stamp: str
    digest: str
    read: str


def key_of(path: Path, root: Path) -> bytes:
    """Return the key of a source, relative to ``root`` so that the project can be moved."""
    text = os.path.abspath(path)
    base = os.path.join(os.path.abspath(root), "")
    return os.fsencode(text.removeprefix(base))


def read_known(database: sqlite3.Connection) -> dict[bytes, IndexedFile]:
    """Return the indexed sources by key."""
    rows = database.execute("SELECT path, id, form, stamp, digest, read FROM recordings")
    return {path: IndexedFile(*rest) for path, *rest in rows}


def differing(known: dict[bytes, IndexedFile], found: dict[bytes, SourceFile]) -> list[bytes]:
    """Return the keys of sources that are new or have changed."""
    return [key for key, one in found.items() if _differs(known.get(key), one)]


def _differs(known: IndexedFile | None, found: SourceFile) -> bool:
    return known is None or (known.form, known.stamp) != (found.form, found.stamp)


def removed(
    known: dict[bytes, IndexedFile], found: Iterable[bytes], places: Iterable[bytes]
) -> list[bytes]:
    """Return the keys of indexed sources at and under ``places`` that were not found."""
    here = tuple(places)
    left = known.keys() - set(found)
    return sorted(key for key in left if any(_is_under(key, place) for place in here))


def _is_under(key: bytes, place: bytes) -> bool:
    return key == place or key.startswith(place if place.endswith(b"/") else place + b"/")


class Progress(msgspec.Struct):
    """Counts of an update."""

    read: int = 0
    """Number of sources read."""
    events: int = 0
    removed: int = 0
