"""Where a server's database is: in a file, for one server, or in PostgreSQL, for several."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from reenact.errors import UsageError
from reenact.server.hints import Hints
from reenact.server.hints_postgres import shared_hints
from reenact.server.storage.database import Database
from reenact.server.storage.postgres import SCHEMES, check_address, connect, open_postgres
from reenact.server.storage.sqlite import open_file

__all__ = ["Place", "choose_place"]


class Place(Protocol):
    """A database that servers can open."""

    async def check(self) -> None:
        """Raises :class:`UsageError` when there is no database to be had."""

    def open(self) -> Database: ...

    def open_patiently(self) -> Database:
        """The same, for statements that take their time."""

    def hints(self) -> AbstractAsyncContextManager[Hints]:
        """Among all servers on this database."""


def choose_place(file: Path, address: str) -> Place:
    """``file``, unless there is an ``address``. Raises :class:`UsageError`."""
    if not address:
        return _File(file)
    if address.partition("://")[0] not in SCHEMES:
        raise UsageError(
            "a database is postgresql://…, or none is named",
            hint="leave --database out for a file in the folder of --data",
        )
    check_address(address)
    return _Postgres(address)


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def check(self) -> None:
        """Nobody is asked: a file is made where there is none, and is its owner's only, whoever may
        look into the folder. What SQLite puts beside it has the same mode."""
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def open(self) -> Database:
        return open_file(self._path)

    open_patiently = open

    @asynccontextmanager
    async def hints(self) -> AsyncIterator[Hints]:
        yield Hints()


class _Postgres:
    def __init__(self, address: str) -> None:
        self._address = address

    async def check(self) -> None:
        try:
            connection = await connect(self._address)
        except OSError as error:
            raise UsageError(
                f"the database cannot be used: {error}",
                hint="is it running, and are host, role, password and name right?",
            ) from None
        await connection.close()

    def open(self) -> Database:
        return open_postgres(self._address)

    def open_patiently(self) -> Database:
        return open_postgres(self._address, longest=None)

    def hints(self) -> AbstractAsyncContextManager[Hints]:
        return shared_hints(self._address)
