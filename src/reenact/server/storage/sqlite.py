"""A database in a file: one writer at a time, many readers."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, Final

from aiosqlite import Connection
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from reenact.errors import UsageError
from reenact.server.storage.database import Database

__all__ = ["open_file"]

_BUSY: Final = 10_000
"""Milliseconds that a statement waits for the lock of the file."""
_READERS: Final = 4
_CACHE: Final = {"DEFERRED": 8_000, "IMMEDIATE": 32_000}
"""KiB of a reader, and of the writer: a request of ingest changes pages all over the indexes, and with
less it would write the same ones again and again."""


def open_file(path: Path) -> Database:
    """The database in a file. Nothing is read yet: ``storage/setting_up`` makes or checks it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a database", hint="name a file in it")
    return Database(_engine(path, "DEFERRED", _READERS), _engine(path, "IMMEDIATE", 1))


def _engine(path: Path, begin: str, size: int) -> AsyncEngine:
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}",
        pool_size=size,
        max_overflow=0,
        pool_timeout=60,
        hide_parameters=True,  # values do not belong into errors
    )

    @event.listens_for(engine.sync_engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        connection.run_async(_into_wal)
        cursor = connection.cursor()
        for pragma in (
            "synchronous=FULL",
            f"busy_timeout={_BUSY}",
            f"cache_size=-{_CACHE[begin]}",
            "foreign_keys=ON",
            "recursive_triggers=ON",
            "trusted_schema=OFF",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql(f"BEGIN {begin}")

    return engine


async def _into_wal(connection: Connection) -> None:
    """Switch to WAL permanently, so readers do not wait for the writer.

    ``busy_timeout`` does not cover this statement, so it is repeated while other processes do the
    same.
    """
    clock = asyncio.get_running_loop().time
    until = clock() + _BUSY / 1000
    while True:
        try:
            await connection.execute_fetchall("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or clock() > until:
                raise
            await asyncio.sleep(0.01)
        else:
            return
