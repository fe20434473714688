"""The tables of the index.

A text stands there once, however many recordings have it; ``places`` says in which calls. ``words``
finds the texts with given pieces of three characters, which works for every language, for parts of
ids and URLs; it is a filter only, and what it finds is looked at. Without FTS5 there is no such
table, and all texts are looked at.
"""

from __future__ import annotations

import sqlite3

__all__ = ["VERSION", "can_find_words", "create", "prepare", "version_of"]

VERSION = 1
"""Of the tables, and of what is put into them: another one is built anew."""

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
    """What holds for a connection. Raises :class:`sqlite3.Error` where it is no database."""
    database.isolation_level = None
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cache_size = -65536")


def version_of(database: sqlite3.Connection) -> int:
    """Which version the tables have; 0 where there are none yet."""
    (found,) = database.execute("PRAGMA user_version").fetchone()
    return int(found)


def create(database: sqlite3.Connection, *, words: bool) -> None:
    """Make the tables, all or none; ``words`` only where that is possible."""
    database.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            database.execute(statement)
    if words:
        database.execute(_WORDS)
        # Merged when there are many parts, not all the time: a fifth less work.
        database.execute("INSERT INTO words (words, rank) VALUES ('automerge', 0)")
    database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


def can_find_words() -> bool:
    """Is FTS5 with trigrams (SQLite 3.34) compiled in?"""
    memory = sqlite3.connect(":memory:")
    try:
        memory.execute(_WORDS)
    except sqlite3.OperationalError:
        return False
    finally:
        memory.close()
    return True
