"""Bringing the index up to date: what is new, changed, grown or gone since it was last looked at."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from reenact._system import monotonic
from reenact.errors import RecordingError
from reenact.search.known import Known, differing, gone, key_of, read_known
from reenact.search.opening import Say
from reenact.search.progress import Progress
from reenact.search.reading import About, about, begun, is_tape, whole, written
from reenact.search.reports import read_report
from reenact.search.scanning import Found
from reenact.search.writing import Writer, remove
from reenact.store.reader import unreadable

__all__ = ["Updater"]


_LONG = 5.0
"""Seconds between two words about how far it has come."""
_BATCH = 2_000
"""Events after which what was done is written."""


class Updater:
    """Compares what was found with what an index knows, and makes them the same."""

    def __init__(self, database: sqlite3.Connection, root: Path, *, words: bool, say: Say) -> None:
        self._database = database
        self._root = root
        self._words = words
        self._say = say
        self._known = read_known(database)
        self.progress = Progress()

    def empty(self) -> None:
        """Forget everything."""
        with _transaction(self._database):
            for table in ("recordings", "calls", "places", "texts"):
                self._database.execute(f"DELETE FROM {table}")
            if self._words:
                self._database.execute("INSERT INTO words (words) VALUES ('delete-all')")
        self._known.clear()

    def update(self, found: dict[bytes, Found], places: Iterable[bytes]) -> Progress:
        """Do it, a few recordings at a time: what is done stays done, whatever comes."""
        lost = gone(self._known, found, places)
        with _transaction(self._database):
            for key in lost:
                self._forget(self._known[key])
            self.progress.removed += len(lost)
        waiting = differing(self._known, found)[::-1]
        start, total = monotonic(), len(waiting)
        while waiting:
            if monotonic() - start > _LONG:
                self._say(f"reading what is new for the index: {total - len(waiting)} of {total}")
                start = monotonic()
            enough = self.progress.events + _BATCH
            with _transaction(self._database):
                while waiting and self.progress.events < enough:
                    key = waiting.pop()
                    self._take_in(key, found[key])
        return self.progress

    def _forget(self, known: Known) -> None:
        remove(self._database, known.id, words=self._words)
        self._database.execute("DELETE FROM recordings WHERE id = ?", (known.id,))

    def _take_in(self, key: bytes, found: Found) -> None:
        known = self._known.get(key)
        self.progress.read += 1
        try:
            if found.form == "report":
                self._report(key, found, known)
            elif found.form == "unfinished" or found.path.name.endswith(".part"):
                self._grown(key, found, known)
            elif found.form == "lines" and not is_tape(found.path):
                self._row(key, found, known, About(status=""), form="lines")
            else:
                self._finished(key, found, known)
        except RecordingError as error:
            self._unreadable(key, found, error)
        except OSError as error:
            self._unreadable(key, found, unreadable(found.path, error))

    def _finished(self, key: bytes, found: Found, known: Known | None) -> None:
        told = about(found.path)
        if known is not None and known.digest == told.digest and known.form == found.form:
            stamp = "UPDATE recordings SET stamp = ? WHERE id = ?"
            self._database.execute(stamp, (found.stamp, known.id))
            return
        writer = self._writer(self._row(key, found, known, told))
        for log, event in whole(found.path):
            writer.add(log, event)
            self.progress.events += 1
        writer.finish()

    def _grown(self, key: bytes, found: Found, known: Known | None) -> None:
        told = begun(found.path)
        read: dict[str, int] = {}
        if known is not None and known.form == found.form and _has_grown(known.stamp, found.stamp):
            read = json.loads(known.read)
            recording = known.id
        else:
            recording = self._row(key, found, known, told)
        writer = self._writer(recording)
        for log, event in written(found.path, read):
            writer.add(log, event)
            self.progress.events += 1
        writer.finish()
        self._database.execute(
            "UPDATE recordings SET stamp = ?, read = ?, events = ? WHERE id = ?",
            (found.stamp, json.dumps(read), sum(read.values()), recording),
        )

    def _report(self, key: bytes, found: Found, known: Known | None) -> None:
        when = int(found.path.stat().st_mtime * 1000)
        told = read_report(found.path, when)
        if told is None:
            self._row(key, found, known, About(status=""))
            return
        about = key_of(self._root / told.about, self._root) if told.about else None
        row = self._row(key, found, known, About(status=told.status, created=when), about=about)
        writer = self._writer(row)
        for call in told.calls:
            writer.put(call)
        writer.finish()

    def _unreadable(self, key: bytes, found: Found, error: RecordingError) -> None:
        """It is named in every search; looked at again when it has changed."""
        known = self._database.execute(
            "SELECT id, form, stamp, digest, read FROM recordings WHERE path = ?", (key,)
        ).fetchone()
        row = self._row(key, found, Known(*known) if known else None, About(status="unreadable"))
        said = (error.message, error.hint or "", row)
        self._database.execute("UPDATE recordings SET problem = ?, hint = ? WHERE id = ?", said)

    def _row(
        self,
        key: bytes,
        found: Found,
        known: Known | None,
        told: About,
        *,
        form: str = "",
        about: bytes | None = None,
    ) -> int:
        """A new row without calls, in the place of the one that is known."""
        if known is not None:
            self._forget(known)
        row = self._database.execute(
            "INSERT INTO recordings (path, form, stamp, digest, about, capture, status, created, "
            "events) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(key, form or found.form, found.stamp, told.digest, about),
                *(told.capture, told.status, told.created, told.events),
            ),
        )
        assert row.lastrowid is not None
        return row.lastrowid

    def _writer(self, recording: int) -> Writer:
        return Writer(self._database, recording, words=self._words)


def _has_grown(before: str, now: str) -> bool:
    """Are the files the same ones, and none of them shorter? Others may have come."""
    old, new = before.split(), now.split()
    if len(new) < len(old) or "-" in (*old, *new):
        return False
    inodes = {one.rpartition(":")[2]: int(one.partition(":")[0]) for one in new}
    return all(inodes.get(one.rpartition(":")[2], -1) >= int(one.partition(":")[0]) for one in old)


class _transaction:
    """All of it, or nothing."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._database.execute("COMMIT")
        elif self._database.in_transaction:
            self._database.execute("ROLLBACK")
