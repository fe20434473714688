"""The index, open.

It holds nothing that the recordings do not hold, may be deleted at any time, and only its owner can
read it. Everybody who uses it holds a lock beside it: shared to search, alone to change it. The lock
ends with its process, and SQLite undoes what a killed one had begun.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from reenact._system import monotonic, pause
from reenact.errors import ReenactError
from reenact.search.places import drop, is_private, make_private, touch
from reenact.search.schema import VERSION, create, prepare, version_of

__all__ = ["Index", "Say", "is_damage"]

Say = Callable[[str], None]
"""Tells the person at the screen."""

_BROKEN = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TRIES = 3
_SOON, _PATIENCE = 1.0, 600.0
"""Seconds to wait for another search before saying so, and before giving up."""


def is_damage(error: sqlite3.Error) -> bool:
    """Is the file not what was written? Otherwise the place is at fault: full, or not ours."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(error, sqlite3.DatabaseError) and (code & 0xFF) in _BROKEN


class Index:
    """An open index; without a ``path`` it is in memory. Close it when done, or use ``with``."""

    def __init__(self, path: Path | None, *, words: bool, say: Say) -> None:
        self.path = path
        self.words = words
        """Can it look up pieces of words?"""
        self._say = say
        self._lock: int | None = None
        if path is None:
            self.database = _connect(None)
            create(self.database, words=self.words)
            return
        make_private(path)
        self._lock = os.open(
            path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            self.database = self._shared(path)
        except BaseException:
            self._let_go()
            raise

    # SQLite removes files by their names when a connection ends, so there is one only as long as
    # the lock is held: nobody can have put another index there meanwhile.

    def _shared(self, path: Path) -> sqlite3.Connection:
        for _ in range(_TRIES):
            self._take(fcntl.LOCK_SH)
            found = _current(path)
            if found is not None:
                return found
            self._take(fcntl.LOCK_EX)
            self._renew(path)
        raise sqlite3.OperationalError("it cannot be made anew")

    def _renew(self, path: Path) -> None:
        """Nobody else has it open: look again, and make it anew if need be."""
        found = _version_at(path)
        if found > VERSION:
            raise sqlite3.OperationalError(f"it is of version {found}, this knows {VERSION}")
        if found == VERSION:
            return
        if found:
            self._say(f"the index {path} is not one that this version has written: made anew")
        drop(path)
        touch(path)
        with contextlib.closing(_connect(path)) as database:
            create(database, words=self.words)

    @contextlib.contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Nobody else uses it meanwhile. :attr:`database` is another one afterwards."""
        if self.path is None:
            yield self.database
            return
        self.database.close()
        self._take(fcntl.LOCK_EX)
        self._renew(self.path)
        self.database = _connect(self.path)
        try:
            yield self.database
        finally:
            self.database.close()
        self.database = self._shared(self.path)

    def discard(self) -> None:
        """It cannot be read: away with it. The next one to open it makes it anew."""
        self.database.close()
        if self.path is not None:
            self._take(fcntl.LOCK_EX)
            drop(self.path)

    def _take(self, how: int) -> None:
        if self._lock is None:
            return
        # A change of the lock is two steps anyway; so two who want to be alone let each other go.
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        start, told = monotonic(), False
        while not _locked(self._lock, how):
            waited = monotonic() - start
            if waited > _SOON and not told:
                told = True
                self._say("waiting for another search, which updates the index")
            if waited > _PATIENCE:
                raise ReenactError(
                    f"another search has held the index {self.path} for {_PATIENCE:.0f} seconds",
                    hint="end it, or delete the index: it is made anew",
                )
            pause(0.02)

    def close(self) -> None:
        self.database.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is None:
        database = sqlite3.connect(":memory:")
    else:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=30.0)
    try:
        prepare(database)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _current(path: Path) -> sqlite3.Connection | None:
    """The index there, if it is ours and of this version."""
    if not is_private(path):
        return None
    try:
        database = _connect(path)
    except sqlite3.Error:
        return None
    with contextlib.suppress(sqlite3.Error):
        if version_of(database) == VERSION:
            return database
    database.close()
    return None


def _version_at(path: Path) -> int:
    """Of the index there; 0 where there is none, and -1 where there is something else."""
    if not path.exists():
        return 0
    if not is_private(path):
        return -1
    try:
        database = _connect(path)
    except sqlite3.Error as error:
        if is_damage(error):
            return -1
        raise
    try:
        empty = database.execute("SELECT 1 FROM sqlite_schema").fetchone() is None
        return version_of(database) or (0 if empty else -1)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return -1
        raise
    finally:
        database.close()


def _locked(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
