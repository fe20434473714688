"""Tables are made, and brought up to date, by steps: forwards, once, on live data."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Table, inspect, text

from reenact.errors import UsageError
from reenact.server.process.startup import OpenServer, World, open_server
from reenact.server.storage.database import Database
from reenact.server.storage.engines import open_file, open_postgres
from reenact.server.storage.schema import migrate, newest
from reenact.server.storage.tables import METADATA, Words
from tests.server.databases import DATABASES
from tests.server.house import Chance, Clock

pytestmark = pytest.mark.both_databases


def database_of(data: Path) -> Database:
    """The one that a server on ``data`` has."""
    data.mkdir(exist_ok=True)
    address = DATABASES.address(data)
    return open_postgres(address) if address else open_file(data / "reenact.db")


def on(data: Path, *works: Any) -> list[Any]:
    """What each of ``works`` gives, all in one transaction."""

    async def work() -> list[Any]:
        database = database_of(data)
        try:
            async with database.platform(write=True) as platform:
                return [await platform.define(one) for one in works]
        finally:
            await database.close()

    return asyncio.run(work())


def say(*statements: str) -> Any:
    def work(connection: Connection) -> list[Any]:
        found = [connection.execute(text(one)) for one in statements]
        return [tuple(row) for row in found[-1]] if found[-1].returns_rows else []

    return work


async def open_once(data: Path, seed: str = "") -> OpenServer:
    world = World(Clock(), Chance(seed))
    async with open_server(data, "a.example", world, database=DATABASES.address(data)) as opened:
        return opened


def differences(connection: Connection) -> list[Any]:
    def ours(item: Any, _name: str | None, kind: str, reflected: bool, _other: Any) -> bool:
        """Some indexes are for one of the databases, which Alembic does not ask for."""
        if reflected or kind != "index":
            return True
        only = item._ddl_if
        return only is None or only.dialect == connection.dialect.name

    opts = {"compare_server_default": False, "include_object": ours}
    context = MigrationContext.configure(connection, opts=opts)
    return list(compare_metadata(context, METADATA))


def test_the_steps_make_the_tables_that_the_code_has(tmp_path: Path) -> None:
    _, found = on(tmp_path, migrate, differences)
    assert found == [], "write a step, see docs/design/server-storage.md"


def test_steps_are_numbered_without_gaps() -> None:
    folder = Path(__file__).parents[3] / "src/reenact/server/storage/migrations/versions"
    numbers = sorted(int(path.stem[1:5]) for path in folder.glob("r[0-9]*.py"))
    assert numbers == list(range(1, newest() + 1))


def test_the_first_step_is_literal_once_there_is_a_second() -> None:
    """It creates the tables as the code defines them, which is right only for the newest version."""
    assert newest() == 1, "write the statements of the released tables into r0001_initial.py"


def test_texts_are_compared_by_their_bytes() -> None:
    """The order of a language would tear pages apart."""
    for table in METADATA.tables.values():
        for column in table.c:
            assert isinstance(column.type, Words) or column.type.python_type is not str, column


def test_what_is_up_to_date_is_left_as_it_is(tmp_path: Path) -> None:
    first = asyncio.run(open_once(tmp_path))
    second = asyncio.run(open_once(tmp_path, "other"))
    assert first.server.deployment == second.server.deployment
    assert on(tmp_path, say("SELECT count(*) FROM tenants")) == [[(1,)]]


def test_a_step_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken(connection: Connection) -> None:
        migrate(connection)
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        on(tmp_path, broken)
    assert on(tmp_path, lambda connection: inspect(connection).get_table_names()) == [[]]
    asyncio.run(open_once(tmp_path))


def test_those_who_start_at_once_do_it_once(tmp_path: Path) -> None:
    async def work() -> list[None]:
        return await asyncio.gather(*(migrated() for _ in range(4)))

    async def migrated() -> None:
        database = database_of(tmp_path)
        try:
            async with database.platform(write=True) as platform:
                await platform.define(migrate)
                await platform.define(settled)
        finally:
            await database.close()

    def settled(connection: Connection) -> None:
        if not connection.scalar(text("SELECT count(*) FROM deployment")):
            say(f"INSERT INTO deployment VALUES (1, 'a', {newest()}, 5, '', '', '')")(connection)

    asyncio.run(work())
    assert on(tmp_path, differences, say("SELECT count(*) FROM deployment")) == [[], [(1,)]]


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    asyncio.run(open_once(tmp_path))
    on(tmp_path, say("UPDATE deployment SET schema_version = 999"))
    with pytest.raises(UsageError, match="999") as refused:
        asyncio.run(open_once(tmp_path))
    assert "newer" in str(refused.value.hint)
    assert on(tmp_path, say("SELECT schema_version FROM deployment")) == [[(999,)]]


def test_a_database_without_its_deployment_is_not_set_up_again(tmp_path: Path) -> None:
    asyncio.run(open_once(tmp_path))
    on(tmp_path, say("DELETE FROM deployment"))
    with pytest.raises(UsageError, match="nothing in them"):
        asyncio.run(open_once(tmp_path))


def test_keys_that_are_not_the_deployment_s_are_refused(tmp_path: Path) -> None:
    asyncio.run(open_once(tmp_path))
    key = tmp_path / "keys" / "audit"
    key.write_text("11" * 32, "ascii")
    with pytest.raises(UsageError, match=r"do not belong to a\.example") as refused:
        asyncio.run(open_once(tmp_path))
    assert "copy the folder keys" in str(refused.value.hint)


def test_every_table_has_a_name_that_needs_no_quotes() -> None:
    """The statements that guard them are written by hand."""
    tables: list[Table] = list(METADATA.tables.values())
    assert all(table.name.isidentifier() and table.name.islower() for table in tables)
