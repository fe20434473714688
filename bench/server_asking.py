"""The database without a server in between: one connection, plain statements."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import asyncpg

__all__ = ["Asker", "PostgresAsker", "SqliteAsker"]


class Asker(Protocol):
    """Asks a database, and fills it."""

    def ask(self, statement: str) -> Sequence[Any]:
        """All rows."""

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """All of them in one transaction, committed as the server commits."""


class SqliteAsker:
    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None, timeout=60)
        for pragma in ("synchronous=FULL", "cache_size=-32000"):
            self._connection.execute(f"PRAGMA {pragma}")

    def __enter__(self) -> SqliteAsker:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, statement: str) -> Sequence[Any]:
        return self._connection.execute(statement).fetchall()

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({_marks(columns, '?')})"
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(statement, rows)
        self._connection.execute("COMMIT")


class PostgresAsker:
    """As the role of the server, for which rows are guarded."""

    def __init__(self, address: str, tenant: str = "default") -> None:
        self._loop = asyncio.new_event_loop()
        self._connection = self._run(asyncpg.connect(address))
        self._run(self._connection.execute(f"SET app.tenant = '{tenant}'"))

    def __enter__(self) -> PostgresAsker:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._connection.close())
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def ask(self, statement: str) -> Sequence[Any]:
        found: Sequence[Any] = self._run(self._connection.fetch(statement))
        return found

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({_marks(columns)})"
        self._run(self._connection.executemany(statement, rows))


def _marks(columns: Sequence[str], mark: str = "") -> str:
    return ", ".join(mark or f"${number}" for number in range(1, len(columns) + 1))
