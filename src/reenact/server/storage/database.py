"""Database access: transactions, and handles that are bound to a tenant.

Rows of a tenant are read and written through a :class:`Scope`, which puts the tenant into every
statement; other packages cannot get at a connection. The few queries that run before the tenant is
known are in ``platform``.

Writers of one tenant run one after the other on every database, so the rows that a transaction has
read are unchanged when it writes. ``docs/design/server-storage.md`` has the reasons.
"""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from reenact.server.problems import Problem

__all__ = [
    "EVERYBODY",
    "Database",
    "Enter",
    "Gate",
    "Platform",
    "Scope",
    "free",
    "is_full",
    "storage_full",
    "to_value",
]

T = TypeVar("T")
_BUSY: Final = frozenset({"55P03", "57P01", "57P02", "57P03", "53300", "25P03"})

EVERYBODY: Final = "*"
"""Placeholder for no tenant or several tenants. It cannot be a tenant's id."""

Enter = Callable[[AsyncConnection, str], Awaitable[None]]
"""Set the tenant of the following statements. A writer also waits for its turn."""

Gate = Callable[[str], AbstractAsyncContextManager[None]]
"""Keeps writers of one tenant in this process apart, before they take a connection each."""


def to_value(row: Row[Any], kind: type[T]) -> T:
    """A row as a struct whose fields are called as its columns."""
    return msgspec.convert({str(name): value for name, value in row._mapping.items()}, kind)


class _Transaction:
    """A connection and its tenant."""

    def __init__(self, connection: AsyncConnection, enter: Enter | None) -> None:
        self.connection = connection
        self._enter = enter
        self._inside: str | None = None

    async def enter(self, tenant: str) -> AsyncConnection:
        if self._enter is not None and self._inside != tenant:
            await self._enter(self.connection, tenant)
            self._inside = tenant
        return self.connection


class Handle:
    """A transaction, for one tenant or everybody."""

    def __init__(self, transaction: _Transaction, tenant: str) -> None:
        self._transaction = transaction
        self.tenant = tenant

    async def run(self, statement: Executable, *values: Mapping[str, Any]) -> CursorResult[Any]:
        connection = await self._transaction.enter(self.tenant)
        return await connection.execute(statement, list(values) or None)

    async def one(self, statement: Executable) -> Row[Any] | None:
        """The only row, or None."""
        return (await self.run(statement)).one_or_none()

    async def all(self, statement: Executable) -> Sequence[Row[Any]]:
        return (await self.run(statement)).all()


class Platform(Handle):
    """Handle for queries across tenants: sign-in, keys, platform administration.

    All uses are in ``storage/platform.py``.
    """

    def scope(self, tenant: str) -> Scope:
        """Return a scope for one tenant in this transaction."""
        return Scope(self._transaction, tenant)

    async def define(self, make: Callable[[Connection], T]) -> T:
        """Make or look at tables."""
        connection = await self._transaction.enter(self.tenant)
        return await connection.run_sync(make)


class Scope(Handle):
    """The rows of one tenant: every statement that it makes has the tenant in it."""

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
            await self.run(insert(table), *({**row, "tenant": self.tenant} for row in rows))


@asynccontextmanager
async def free(_: str) -> AsyncIterator[None]:
    """A gate that is open: for a database whose writers share one connection."""
    yield


class _Side(msgspec.Struct, frozen=True):
    engine: AsyncEngine
    enter: Enter | None


class Database:
    """Transactions on a database.

    A reader sees one moment. A write is committed when its block ends, and rolled back when the
    block raises. Writers of a tenant run one after the other, and so do writers of the platform. A
    platform transaction can enter tenants, never the other way round. An unreachable database
    raises :class:`Problem` ``unavailable``, a full one ``storage_full``.
    """

    def __init__(
        self,
        reader: AsyncEngine,
        writer: AsyncEngine,
        *,
        read_as: Enter | None = None,
        write_as: Enter | None = None,
        gate: Gate = free,
    ) -> None:
        self._reading = _Side(reader, read_as)
        self._writing = _Side(writer, write_as)
        self._gate = gate

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._writing.engine.dialect.name

    @asynccontextmanager
    async def platform(self, *, write: bool = False) -> AsyncIterator[Platform]:
        async with self._transaction(EVERYBODY, write) as transaction:
            yield Platform(transaction, EVERYBODY)

    @asynccontextmanager
    async def reading(self, tenant: str) -> AsyncIterator[Scope]:
        async with self._transaction(tenant, False) as transaction:
            yield Scope(transaction, tenant)

    @asynccontextmanager
    async def writing(self, tenant: str) -> AsyncIterator[Scope]:
        async with self._transaction(tenant, True) as transaction:
            yield Scope(transaction, tenant)

    @asynccontextmanager
    async def _transaction(self, tenant: str, write: bool) -> AsyncIterator[_Transaction]:
        side, gate = (self._writing, self._gate) if write else (self._reading, free)
        async with gate(tenant):
            connection = await _connected(side.engine)
            try:
                async with connection.begin():
                    transaction = _Transaction(connection, side.enter)
                    await transaction.enter(tenant)  # here, so that locks have one order
                    yield transaction
            except DBAPIError as error:
                if is_full(error.orig):
                    raise storage_full() from error
                if error.connection_invalidated or _is_busy(error):
                    raise _unavailable() from error
                raise
            finally:
                await _release(connection)

    async def close(self) -> None:
        await self._reading.engine.dispose()
        await self._writing.engine.dispose()


async def _connected(engine: AsyncEngine) -> AsyncConnection:
    try:
        return await engine.connect()
    except (OSError, InterfaceError, OperationalError, PoolTimeout) as error:
        raise _unavailable() from error


async def _release(connection: AsyncConnection) -> None:
    """Give the connection back. A cancellation that comes meanwhile waits until that is done: SQLAlchemy
    would log it as an error and throw the connection away."""
    closing = asyncio.ensure_future(connection.close())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await asyncio.wait({closing})
        raise


def _is_busy(error: DBAPIError) -> bool:
    """Did PostgreSQL give up waiting, or is it about to stop?"""
    return getattr(error.orig, "sqlstate", None) in _BUSY


def _unavailable() -> Problem:
    return Problem("unavailable", "the database cannot be reached", retry_after=1)


_ERRNO: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SQLITE: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
)
_POSTGRES: Final = "53100"
_RETRY: Final = 5
"""Seconds. An operator must free space first."""


def is_full(error: BaseException | None) -> bool:
    """Return whether ``error`` of a file or database driver means a full disk."""
    if isinstance(error, OSError):
        return error.errno in _ERRNO
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) in _SQLITE
    return getattr(error, "sqlstate", None) == _POSTGRES


def storage_full() -> Problem:
    """Return the problem for a full disk. Nothing of the request was stored."""
    return Problem(
        "storage_full",
        "the server has no room left to store anything",
        hint="free disk space; agents keep their exchanges and send them later",
        retry_after=_RETRY,
    )
