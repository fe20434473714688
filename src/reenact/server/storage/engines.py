"""Engines of the database: a SQLite file, or PostgreSQL for several server processes.

SQLite has one writer at a time and many readers. On PostgreSQL each transaction sets its tenant
in ``app.tenant``, and the policies of the tables hide all other rows. Writers of a tenant take a lock that ends with their transaction. SQLite has one lock for all
writers, so code that is correct there is correct here. Readers do not wait.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from aiosqlite import Connection
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from reenact.errors import ExtraMissing, UsageError
from reenact.server.storage.database import Database

__all__ = [
    "SCHEMES",
    "check_address",
    "connect",
    "open_file",
    "open_postgres",
]

_BUSY: Final = 10_000
"""Milliseconds that a statement waits for the lock of the file."""
_READERS: Final = 4
_CACHE: Final = {"DEFERRED": 8_000, "IMMEDIATE": 32_000}
"""KiB of a reader, and of the writer: a request of ingest changes pages all over the indexes, and with
less it would write the same ones again and again."""


def open_file(path: Path) -> Database:
    """The database in a file. Nothing is read yet: ``storage/setup`` makes or checks it."""
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


SCHEMES: Final = ("postgres", "postgresql")
_CONNECTIONS: Final = 8
"""Of readers, and as many of writers."""
_PATIENCE: Final = 10.0
"""Seconds to connect."""
_LONGEST: Final = 60.0
_SETTINGS: Final = {"application_name": "reenact", "timezone": "UTC"}
_SET: Final = """
SET lock_timeout = '30s';
SET idle_in_transaction_session_timeout = '60s';
SET plan_cache_mode = force_custom_plan
"""
"""Settings after connecting, because a pooler refuses them as connection parameters. Plans are made
per execution: a generic plan that was made for an empty table would scan it until the statistics
are updated."""
_READ: Final = text("SELECT set_config('app.tenant', :tenant, true)")
_WRITE: Final = text(
    "SELECT set_config('app.tenant', :tenant, true), "
    "pg_advisory_xact_lock(hashtextextended('reenact writes ' || :tenant, 0))"
)


def open_postgres(url: str, longest: float | None = _LONGEST) -> Database:
    """The database at ``postgresql://…``. Nothing is read yet: ``storage/setup`` makes or
    checks it. ``longest`` is how long a statement may take, in seconds."""
    reader = _postgres_engine(url, longest).execution_options(
        isolation_level="REPEATABLE READ", postgresql_readonly=True
    )
    return Database(
        reader,
        _postgres_engine(url, longest),
        read_as=_read_as,
        write_as=_write_as,
        gate=_Gates().through,
    )


async def connect(url: str, longest: float | None = _LONGEST) -> Any:
    """A connection of asyncpg's. Without a password in ``url`` it takes ``PGPASSWORD``, or that in
    the file of passwords, as every client does. Raises :class:`OSError`, with words that hold no
    password, when there is none to be had."""
    try:
        import asyncpg
    except ModuleNotFoundError:
        raise ExtraMissing("PostgreSQL", "postgres") from None
    try:
        connection = await asyncpg.connect(
            url, timeout=_PATIENCE, server_settings=_SETTINGS, command_timeout=longest
        )
        try:
            await connection.execute(_SET, timeout=_PATIENCE)
        except BaseException:
            connection.terminate()
            raise
        return connection
    except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise ConnectionError(str(error)) from None


def check_address(url: str) -> None:
    """Raise :class:`UsageError` for an invalid address."""
    try:
        parts = urlsplit(url)
        named = parts.port != 0 and len(parts.path) > 1
    except ValueError:
        named = False
    if not named:
        raise UsageError(  # the address may hold a password, and is not shown
            "invalid database address",
            hint="use postgresql://user@host:5432/database",
        )


def _postgres_engine(url: str, longest: float | None) -> AsyncEngine:
    async def make() -> Any:
        return await connect(url, longest)

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=make,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=60,
        pool_pre_ping=True,
        hide_parameters=True,  # values do not belong into errors
    )


async def _read_as(connection: AsyncConnection, tenant: str) -> None:
    await connection.execute(_READ, {"tenant": tenant})


async def _write_as(connection: AsyncConnection, tenant: str) -> None:
    await connection.execute(_WRITE, {"tenant": tenant})


class _Gates:
    """One writer of a tenant at a time has a connection: others of this process wait without one,
    so that a busy tenant does not take all of them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def through(self, tenant: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(tenant, asyncio.Lock())
        async with lock:
            yield
