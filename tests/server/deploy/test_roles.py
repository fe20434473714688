"""Two roles of PostgreSQL: one owns the tables, and the servers' own changes none of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from reenact.cli.main import main
from reenact.errors import UsageError
from reenact.server.process.startup import migrate_only
from reenact.server.storage.engines import open_postgres
from reenact.server.storage.schema import migrate, newest
from reenact.server.storage.tables import METADATA
from tests.server.databases import DATABASES, ROLE, Kind
from tests.server.deploy.guide import GUIDE
from tests.server.house import House, running

SERVERS = "reenact_servers"


@pytest.fixture(autouse=True)
def database_kind() -> Iterator[Kind]:
    with DATABASES.on("postgresql"):
        yield "postgresql"


@pytest.fixture
def owner(tmp_path: Path) -> str:
    """The address of a database as the role that owns it."""
    make = f"""DO $$ BEGIN
      IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{SERVERS}')
      THEN CREATE ROLE {SERVERS} LOGIN; END IF; END $$"""
    DATABASES.cluster().sql(make)
    return DATABASES.address(tmp_path / "data")


@pytest.fixture
def server(owner: str) -> str:
    """The same as the role of the servers."""
    return owner.replace(f"//{ROLE}@", f"//{SERVERS}@")


def sql(address: str, statement: str, user: str = SERVERS) -> list[Any]:
    return DATABASES.cluster().sql(statement, address.rpartition("/")[2], user)


def prepare(address: str, data: Path, role: str = SERVERS) -> None:
    asyncio.run(migrate_only(data, database=address, role=role))


def write(house: House, name: str) -> None:
    client = house.client(house.key("tenant admin", "audit:export"))
    answer = client.put(f"/api/v1/environments/{name}", json={"kind": "production"})
    assert answer.status_code == 200


def test_a_server_works_with_tables_that_it_cannot_change(
    tmp_path: Path, owner: str, server: str
) -> None:
    prepare(owner, tmp_path)
    with running(tmp_path / "data", database=server) as house:
        assert house.setup_token
        write(house, "staging")
        assert len(house.records("environment.changed")) == 1
    for statement in (
        "UPDATE audit_records SET seq = 1",
        "DELETE FROM audit_heads",
        "TRUNCATE audit_nodes",
        "ALTER TABLE audit_records DISABLE TRIGGER ALL",
        "ALTER TABLE exchanges NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY of_tenant ON exchanges",
        "CREATE TABLE mine (id integer)",
        "UPDATE alembic_version SET version_num = '0000'",
    ):
        with pytest.raises(asyncpg.PostgresError) as refused:
            sql(server, statement)
        assert refused.value.sqlstate == "42501", statement


def test_every_table_is_served_and_the_log_only_grows(
    tmp_path: Path, owner: str, server: str
) -> None:
    prepare(owner, tmp_path)
    asked = "SELECT has_table_privilege('{}', '{}')"
    for name in METADATA.tables:
        assert sql(server, asked.format(name, "INSERT"))[0][0], name
        growing = name in ("audit_records", "audit_nodes", "audit_heads")
        assert sql(server, asked.format(name, "UPDATE"))[0][0] != growing, name


def test_without_tables_a_server_says_who_makes_them(tmp_path: Path, server: str) -> None:
    with (
        pytest.raises(UsageError, match=f"the role {SERVERS}") as refused,
        running(tmp_path / "data", database=server),
    ):
        pass
    assert f"--migrate-only --role {SERVERS}" in refused.value.hint
    assert sql(server, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")[0][0] == 0


def migrate_and_pretend_a_step_is_due(address: str) -> None:
    async def work() -> None:
        database = open_postgres(address)
        try:
            async with database.platform(write=True) as platform:
                await platform.define(migrate)
        finally:
            await database.close()

    asyncio.run(work())
    sql(address, "UPDATE alembic_version SET version_num = '0000'", ROLE)


def test_a_step_that_is_due_is_not_tried_by_who_may_not(
    tmp_path: Path, owner: str, server: str
) -> None:
    migrate_and_pretend_a_step_is_due(owner)
    sql(owner, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {SERVERS}", ROLE)
    with (
        pytest.raises(UsageError, match=f"to version {newest()}"),
        running(tmp_path / "data", database=server),
    ):
        pass
    step = "SELECT version_num FROM alembic_version"
    assert sql(owner, step, ROLE)[0][0] == f"{newest() - 1:04}"
    prepare(owner, tmp_path)
    assert sql(owner, step, ROLE)[0][0] == f"{newest():04}"
    with running(tmp_path / "data", database=server) as house:
        write(house, "after")


def test_a_guard_that_is_gone_is_put_back_by_the_owner(
    tmp_path: Path, owner: str, server: str
) -> None:
    prepare(owner, tmp_path)
    with running(tmp_path / "data", database=server) as house:
        write(house, "one")
    sql(owner, "DROP TRIGGER audit_records_no_change ON audit_records", ROLE)
    with pytest.raises(UsageError, match="up to date"), running(tmp_path / "data", database=server):
        pass
    prepare(owner, tmp_path)
    with running(tmp_path / "data", database=server, seed="again") as house:
        write(house, "two")
        assert len(house.records("environment.changed")) == 2


def test_one_role_becomes_two(tmp_path: Path, owner: str, server: str) -> None:
    """Whose tables were the servers' own, and are not any more: as the guide says."""
    (line,) = [one for one in GUIDE.read_text("utf-8").splitlines() if "REASSIGN OWNED" in one]
    statement = re.findall(r"`(REASSIGN [^`]*)`", line)[0]
    with running(tmp_path / "data", database=owner) as house:
        write(house, "one")
    other = owner.replace(f"//{ROLE}@", "//reenact_owner@")
    DATABASES.cluster().sql("CREATE ROLE reenact_owner LOGIN")
    try:
        sql(owner, statement, "postgres")
        prepare(other, tmp_path, role=ROLE)
        with running(tmp_path / "data", database=owner, seed="again") as house:
            write(house, "two")
            assert len(house.records("environment.changed")) == 2
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            sql(owner, "ALTER TABLE audit_records DISABLE TRIGGER ALL", ROLE)
    finally:
        sql(owner, f"REASSIGN OWNED BY reenact_owner TO {ROLE}", "postgres")
        DATABASES.cluster().sql("DROP ROLE reenact_owner")


def test_tables_that_were_not_given_are_told(tmp_path: Path, owner: str, server: str) -> None:
    prepare(owner, tmp_path, role="")
    sql(owner, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {SERVERS}", ROLE)
    with pytest.raises(UsageError, match="be used by"), running(tmp_path, database=server):
        pass


@pytest.mark.parametrize(
    "role, said",
    [
        ("nobody_at_all", "has no role"),
        ("postgres", "bypasses the row-level security"),
        (ROLE, "own"),
        ('a"b; DROP TABLE tenants', "has no role"),
    ],
)
def test_a_role_that_would_not_be_bound_gets_nothing(
    tmp_path: Path, owner: str, role: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        prepare(owner, tmp_path, role)
    assert refused.value.hint
    assert sql(owner, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")[0][0] == 0


def command(said: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    returned = main(["serve", *arguments])
    return returned, said.readouterr().err


def test_the_command_can_be_run_twice(
    tmp_path: Path, owner: str, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--migrate-only", "--role", SERVERS, "--data", str(tmp_path / "unused"))
    for _ in range(2):
        returned, said = command(capsys, *more, "--database", owner)
        assert returned == 0
        assert said == f"the database is up to date, and {SERVERS} may serve with it\n"
    assert not (tmp_path / "unused").exists()
    with running(tmp_path / "data", database=server) as house:
        write(house, "staging")


def test_a_database_in_a_file_has_no_roles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    returned, said = command(capsys, "--migrate-only", "--data", str(data), "--role", "x")
    assert returned == 2
    assert "no roles" in said
    made = command(capsys, "--migrate-only", "--data", str(data))
    assert made == (0, "the database is up to date\n")
    with DATABASES.on("sqlite"), running(data) as house:
        write(house, "staging")
    returned, said = command(capsys, "--role", "x", "--data", str(data))
    assert returned == 2
    assert "--migrate-only" in said
