"""SQLite index of recordings: location, locks and tables.

The index contains only data from recordings, can be deleted at any time, and is readable only by
its owner. Each process holds the lock of a file next to it, shared for a search and exclusive for a
change. The lock ends with its process, and SQLite rolls back the changes of a killed process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from reenact._system import monotonic, pause
from reenact.errors import ReenactError
from reenact.policy.paths import FOLDER

__all__ = [
    "VERSION",
    "Index",
    "Notify",
    "create",
    "drop",
    "has_full_text",
    "index_files",
    "is_damage",
    "is_private",
    "make_private",
    "prepare",
    "touch",
    "version_of",
]

Notify = Callable[[str], None]
"""Function that prints a message to the user."""

_BROKEN = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TRIES = 3
_SOON, _PATIENCE = 1.0, 600.0
"""Seconds to wait for another search before a message, and before an error."""


def is_damage(error: sqlite3.Error) -> bool:
    """Return True if the content of the file is invalid.

    Other errors concern the location, such as a full disk or missing permissions.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(error, sqlite3.DatabaseError) and (code & 0xFF) in _BROKEN


class Index:
    """Open index, in memory without a ``path``. Close it, or use ``with``."""

    def __init__(self, path: Path | None, *, words: bool, notify: Notify) -> None:
        self.path = path
        self.words = words
        """True if the index contains trigrams of the texts."""
        self._notify = notify
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
            self.database = self._connect_shared(path)
        except BaseException:
            self._release()
            raise

    # SQLite removes files by name when a connection closes. So a connection exists only while
    # the lock is held, and no other process can have replaced the index.

    def _connect_shared(self, path: Path) -> sqlite3.Connection:
        for _ in range(_TRIES):
            self._take(fcntl.LOCK_SH)
            found = _current(path)
            if found is not None:
                return found
            self._take(fcntl.LOCK_EX)
            self._renew(path)
        raise sqlite3.OperationalError("it cannot be created again")

    def _renew(self, path: Path) -> None:
        """Check the version again under the exclusive lock, and create the index again if
        necessary."""
        found = _version_at(path)
        if found > VERSION:
            raise sqlite3.OperationalError(f"it is of version {found}, this knows {VERSION}")
        if found == VERSION:
            return
        if found:
            self._notify(
                f"the index {path} is not one that this version has written: created again"
            )
        drop(path)
        touch(path)
        with contextlib.closing(_connect(path)) as database:
            create(database, words=self.words)

    @contextlib.contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Hold the exclusive lock while the context is active, and yield a connection.

        Afterwards :attr:`database` is a new connection under the shared lock.
        """
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
        self.database = self._connect_shared(self.path)

    def discard(self) -> None:
        """Delete a damaged index. The next search creates it again."""
        self.database.close()
        if self.path is not None:
            self._take(fcntl.LOCK_EX)
            drop(self.path)

    def _take(self, how: int) -> None:
        if self._lock is None:
            return
        # flock() converts a lock in two steps anyway. Releasing it first keeps two processes that
        # both need the exclusive lock from waiting for each other.
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        start, announced = monotonic(), False
        while not _locked(self._lock, how):
            waited = monotonic() - start
            if waited > _SOON and not announced:
                announced = True
                self._notify("waiting for another search, which updates the index")
            if waited > _PATIENCE:
                raise ReenactError(
                    f"another search has held the index {self.path} for {_PATIENCE:.0f} seconds",
                    hint="end it, or delete the index: it is created again",
                )
            pause(0.02)

    def close(self) -> None:
        self.database.close()
        self._release()

    def _release(self) -> None:
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
    """Return a connection to the index at ``path`` if it is private and has the current version."""
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
    """Return the version of the index at ``path``; 0 without an index, -1 for anything else."""
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


def index_files(root: Path, environ: Mapping[str, str], *, words: bool) -> list[Path]:
    """Return the possible paths of the index of the project at ``root``, best first.

    An index without trigrams has a separate name.
    """
    name = "search.sqlite3" if words else "search-plain.sqlite3"
    found = [root / FOLDER / "cache" / name] if (root / FOLDER).is_dir() else []
    own, shared, home = map(environ.get, ("REENACT_CONFIG_DIR", "XDG_CACHE_HOME", "HOME"))
    user = Path(own) if own else Path(shared) / "reenact" if shared else None
    if user is None and home:
        user = Path(home) / ".cache" / "reenact"
    if user is not None:
        which = hashlib.sha256(os.fsencode(root.absolute())).hexdigest()[:16]
        found.append(user / "search" / which / name)
    return found


def make_private(path: Path) -> None:
    """Create the private folder of the index, with a ``.gitignore``, and an empty file if it is
    missing.

    Raises :class:`PermissionError` if the folder belongs to a different user.
    """
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "its folder is not one of yours", str(folder))
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    if not os.path.lexists(path):
        touch(path)


def is_private(path: Path) -> bool:
    """Return True for a regular file that only the current user can access.

    An index that came with a repository can contain anything, and others can read it.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return mine and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def touch(path: Path) -> None:
    """Create an empty file that only its owner can access."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def drop(path: Path) -> None:
    """Delete the index and the journal of an interrupted change."""
    for end in ("", "-journal"):
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


VERSION = 1
"""Version of the tables and their content.

An older or damaged index is rebuilt. An index of a newer version is not used.
"""

_TABLES = """
CREATE TABLE recordings (
    id INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE,
    form TEXT NOT NULL,
    stamp TEXT NOT NULL,
    digest TEXT NOT NULL DEFAULT '',
    about BLOB,
    capture TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT '',
    created INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0,
    read TEXT NOT NULL DEFAULT '{}',
    problem TEXT NOT NULL DEFAULT '',
    hint TEXT NOT NULL DEFAULT ''
);
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    recording INTEGER NOT NULL,
    log TEXT NOT NULL,
    seq INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    ts INTEGER NOT NULL,
    type TEXT NOT NULL,
    lane TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    method TEXT NOT NULL,
    url TEXT NOT NULL,
    host TEXT NOT NULL,
    status INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    diverged TEXT NOT NULL,
    call_id TEXT NOT NULL,
    lens TEXT NOT NULL
);
CREATE INDEX calls_of ON calls (recording, type);
CREATE TABLE texts (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE places (
    id INTEGER PRIMARY KEY,
    call INTEGER NOT NULL,
    number INTEGER NOT NULL,
    role TEXT NOT NULL,
    text INTEGER NOT NULL,
    retold INTEGER NOT NULL,
    again INTEGER NOT NULL
);
CREATE UNIQUE INDEX places_in ON places (call, number);
CREATE INDEX places_of ON places (text);
"""

_WORDS = """
CREATE VIRTUAL TABLE words USING fts5 (body, content = '', tokenize = 'trigram', detail = none)
"""


def prepare(database: sqlite3.Connection) -> None:
    """Configure a connection. Raises :class:`sqlite3.Error` if the file is not a database."""
    database.isolation_level = None
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cache_size = -65536")


def version_of(database: sqlite3.Connection) -> int:
    """Return the version of the tables; 0 for a new database."""
    (found,) = database.execute("PRAGMA user_version").fetchone()
    return int(found)


def create(database: sqlite3.Connection, *, words: bool) -> None:
    """Create the tables in one transaction. ``words`` adds the trigrams, which require FTS5."""
    database.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            database.execute(statement)
    if words:
        database.execute(_WORDS)
        # FTS5 then merges only when there are many segments, which is a fifth less work.
        database.execute("INSERT INTO words (words, rank) VALUES ('automerge', 0)")
    database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


def has_full_text() -> bool:
    """Return True if SQLite has FTS5 with trigrams (since 3.34)."""
    memory = sqlite3.connect(":memory:")
    try:
        memory.execute(_WORDS)
    except sqlite3.OperationalError:
        return False
    finally:
        memory.close()
    return True
