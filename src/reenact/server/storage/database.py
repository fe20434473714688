"""The database: one writer at a time, many readers, and a handle that knows its tenant.

Whoever reads or writes rows of a tenant does it through a :class:`Scope`, which puts the tenant into
every statement; there is no other way to get at a connection from outside of this room. The few
questions that are asked before the tenant is known (whose key is this?) are in ``platform``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import (
    Connection,
    CursorResult,
    Executable,
    Row,
    Select,
    Table,
    Update,
    event,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from reenact.errors import UsageError

__all__ = ["Database", "Platform", "Scope", "open_database", "to_value"]

T = TypeVar("T")
_BUSY: Final = 10_000
"""Milliseconds that a statement waits for the lock of the file."""


def to_value(row: Row[Any], kind: type[T]) -> T:
    """A row as a struct whose fields are called as its columns."""
    return msgspec.convert({str(name): value for name, value in row._mapping.items()}, kind)


class Handle:
    """A connection in a transaction."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def run(self, statement: Executable) -> CursorResult[Any]:
        return await self._connection.execute(statement)

    async def one(self, statement: Executable) -> Row[Any] | None:
        """The only row, or None."""
        return (await self._connection.execute(statement)).one_or_none()

    async def all(self, statement: Executable) -> Sequence[Row[Any]]:
        return (await self._connection.execute(statement)).all()


class Platform(Handle):
    """What is asked and done across tenants: by sign-in, keys, and the administration of the
    platform. Each use is a line in ``storage/platform.py``."""

    def scope(self, tenant: str) -> Scope:
        """The same transaction, for one tenant."""
        return Scope(self._connection, tenant)

    async def define(self, make: Callable[[Connection], T]) -> T:
        """Make or look at tables."""
        return await self._connection.run_sync(make)


class Scope(Handle):
    """The rows of one tenant: every statement that it makes has the tenant in it."""

    def __init__(self, connection: AsyncConnection, tenant: str) -> None:
        super().__init__(connection)
        self.tenant = tenant

    def select(self, table: Table, *columns: Any) -> Select[Any]:
        """Of ``table``, the whole row unless ``columns`` say less."""
        return select(*(columns or (table,))).where(table.c.tenant == self.tenant)

    def update(self, table: Table) -> Update:
        return update(table).where(table.c.tenant == self.tenant)

    def delete(self, table: Table) -> Any:
        return table.delete().where(table.c.tenant == self.tenant)

    async def add(self, table: Table, *rows: Mapping[str, Any]) -> None:
        """Insert; the tenant is put in."""
        if rows:
            values = [{**row, "tenant": self.tenant} for row in rows]
            await self._connection.execute(insert(table), values)


class Database:
    """``reading`` and ``writing`` are transactions. A write is committed when its block ends, and
    leaves nothing behind when the block raises."""

    def __init__(self, reader: AsyncEngine, writer: AsyncEngine) -> None:
        self._reader = reader
        self._writer = writer

    @asynccontextmanager
    async def platform(self, *, write: bool = False) -> AsyncIterator[Platform]:
        engine = self._writer if write else self._reader
        async with engine.begin() as connection:
            yield Platform(connection)

    @asynccontextmanager
    async def reading(self, tenant: str) -> AsyncIterator[Scope]:
        async with self._reader.begin() as connection:
            yield Scope(connection, tenant)

    @asynccontextmanager
    async def writing(self, tenant: str) -> AsyncIterator[Scope]:
        async with self._writer.begin() as connection:
            yield Scope(connection, tenant)

    async def close(self) -> None:
        await self._reader.dispose()
        await self._writer.dispose()


def open_database(path: Path) -> Database:
    """The database in a file. Nothing is read yet: ``storage/setting_up`` makes or checks it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a database", hint="name a file in it")
    return Database(_engine(path, "DEFERRED", 4), _engine(path, "IMMEDIATE", 1))


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
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            f"busy_timeout={_BUSY}",
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
