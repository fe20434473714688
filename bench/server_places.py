"""A new server's folder and database, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from bench.measure import Setting
from bench.server_asking import Asker, PostgresAsker, SqliteAsker
from bench.server_postgres import ABSENT, cluster, make_database
from bench.server_process import TENANT, Rights, settle

__all__ = ["Place", "places"]


class Place(msgspec.Struct, frozen=True):
    """``rights`` has one for each tenant; ``address`` is empty for SQLite."""

    name: str
    data: Path
    address: str
    rights: tuple[Rights, ...]

    def asker(self) -> AbstractContextManager[Asker]:
        """The same database without a server, for its first tenant."""
        if self.address:
            return PostgresAsker(self.address)
        return SqliteAsker(self.data / "reenact.db")


def places(setting: Setting, tenants: tuple[str, ...] = (TENANT,)) -> Iterator[Place]:
    """One after the other; the second one only where there is a PostgreSQL."""
    data = setting.folder / "sqlite"
    yield Place("SQLite", data, "", tuple(asyncio.run(settle(data, "", tenants))))
    with cluster() as found:
        if found is None:
            setting.say(ABSENT)
            return
        address, data = make_database(found, "bench"), setting.folder / "postgresql"
        rights = tuple(asyncio.run(settle(data, address, tenants)))
        yield Place("PostgreSQL", data, address, rights)
