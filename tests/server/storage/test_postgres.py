"""What PostgreSQL holds by itself: tenants apart, an audit log that only grows, writers one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import insert, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError

from reenact.audit.keys import Key
from reenact.audit.verify import verify_export
from reenact.errors import UsageError
from reenact.server.problems import Problem
from reenact.server.process.startup import World, migrate_only, open_server
from reenact.server.storage.database import Scope
from reenact.server.storage.engines import connect
from reenact.server.storage.schema import GROWING
from reenact.server.storage.tables import ENVIRONMENTS, EXCHANGES, METADATA, TENANTS
from tests.server.databases import DATABASES, ROLE, Kind
from tests.server.house import Chance, Clock, House, running
from tests.server.traffic.puppet import Puppet, ask_for, exchange


@pytest.fixture(autouse=True)
def database_kind() -> Iterator[Kind]:
    with DATABASES.on("postgresql"):
        yield "postgresql"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return DATABASES.address(tmp_path / "data")


def sql(address: str, statement: str, user: str = ROLE) -> list[Any]:
    return DATABASES.cluster().sql(statement, address.rpartition("/")[2], user)


def two_tenants(house: House) -> None:
    house.tenant("other")
    for tenant in ("default", "other"):
        house.environment(f"of-{tenant}", tenant=tenant)


def test_a_statement_that_forgets_the_tenant_sees_no_other(house: House) -> None:
    two_tenants(house)

    async def names(tenant: str) -> list[str]:
        async with house.server.database.reading(tenant) as scope:
            rows = await scope.all(select(ENVIRONMENTS.c.name))
            owners = await scope.all(select(TENANTS.c.id))
        assert [row.id for row in owners] == ([tenant] if tenant else [])
        return [row.name for row in rows]

    assert house.run(names("default")) == ["of-default"]
    assert house.run(names("other")) == ["of-other"]
    assert house.run(names("")) == []


def test_nobody_writes_for_another_tenant(house: House) -> None:
    two_tenants(house)

    async def write() -> None:
        async with house.server.database.writing("default") as scope:
            row = {"tenant": "other", "name": "planted", "kind": "non-production"}
            await scope.run(insert(ENVIRONMENTS).values(**row))

    with pytest.raises(DBAPIError, match="row-level security"):
        house.run(write())

    async def change() -> int:
        async with house.server.database.writing("default") as scope:
            return (await scope.run(ENVIRONMENTS.update().values(kind="production"))).rowcount

    assert house.run(change()) == 1


def test_every_table_of_tenants_is_closed_to_whoever_says_nothing(
    house: House, address: str
) -> None:
    two_tenants(house)
    closed = [table.name for table in METADATA.tables.values() if "tenant" in table.c]
    assert {"exchanges", "audit_records", "users"} < set(closed)
    for name in [*closed, "tenants"]:
        assert sql(address, f"SELECT count(*) FROM {name}")[0][0] == 0, name
        forced = (
            f"SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE relname = '{name}'"
        )
        assert sql(address, forced)[0][0], name


@pytest.mark.parametrize("table", GROWING)
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET tenant = tenant", "DELETE FROM {}", "TRUNCATE {}"]
)
def test_the_log_only_grows_by_right_and_by_guard(
    house: House, address: str, table: str, statement: str
) -> None:
    client = house.client(house.key("tenant admin"))
    assert client.put("/api/v1/environments/e", json={"kind": "production"}).status_code == 200
    wanted = statement.format(table)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        sql(address, wanted)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="only grows"):
        sql(address, wanted, "postgres")


def test_numbers_are_dense_whoever_inserts(house: House, address: str) -> None:
    house.tenant("other")
    row = "('other', {}, 1, '', '', '', '', '', '', '')"
    for number in (0, 5):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="only grows"):
            sql(address, f"INSERT INTO audit_records VALUES {row.format(number)}", "postgres")
    head = "INSERT INTO audit_heads VALUES ('other', 9, 1, '', '')"
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="only grows"):
        sql(address, head, "postgres")


_NO_GUARD = (
    "CREATE OR REPLACE FUNCTION audit_records_kept() RETURNS trigger LANGUAGE plpgsql "
    "AS $body$ BEGIN RETURN NEW; END $body$"
)


@pytest.mark.parametrize(
    "change, named",
    [
        ("DROP TRIGGER audit_heads_no_change ON audit_heads", "audit_heads_no_change"),
        ("ALTER TABLE audit_nodes DISABLE TRIGGER ALL", "audit_nodes_insert"),
        (f"GRANT UPDATE ON audit_nodes TO {ROLE}", "the right to change audit_nodes"),
        (_NO_GUARD, r"audit_records_kept\(\)"),
    ],
    ids=["removed", "disabled", "right", "replaced"],
)
def test_server_does_not_start_when_a_guard_of_the_audit_log_is_missing(
    tmp_path: Path, address: str, change: str, named: str
) -> None:
    with running(tmp_path / "data"):
        pass
    sql(address, change, "postgres")
    with pytest.raises(UsageError, match=f"lost guards.*{named}") as refused:
        running(tmp_path / "data").__enter__()
    assert "reenact serve --migrate-only" in str(refused.value.hint)
    asyncio.run(migrate_only(tmp_path / "data", database=address))
    with running(tmp_path / "data"):
        pass


def test_guards_that_were_removed_are_put_back(tmp_path: Path, address: str) -> None:
    with running(tmp_path / "data"):
        pass
    sql(address, "DROP TRIGGER audit_heads_no_change ON audit_heads", "postgres")
    sql(address, f"GRANT UPDATE ON audit_nodes TO {ROLE}", "postgres")
    sql(address, "ALTER TABLE users NO FORCE ROW LEVEL SECURITY", "postgres")
    asyncio.run(migrate_only(tmp_path / "data", database=address))
    with running(tmp_path / "data"):
        pass
    triggers = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'audit_%' AND NOT tgisinternal"
    assert sql(address, triggers)[0][0] == 9
    assert not sql(address, "SELECT has_table_privilege('audit_nodes', 'UPDATE')")[0][0]
    forced = "SELECT relforcerowsecurity FROM pg_class WHERE relname = 'users'"
    assert sql(address, forced)[0][0]


def test_a_role_that_no_rule_holds_for_is_refused(tmp_path: Path, address: str) -> None:
    with (
        pytest.raises(UsageError, match="bypasses the row-level security") as refused,
        running(tmp_path / "data", database=address.replace(ROLE, "postgres", 1)),
    ):
        pass
    assert "CREATE ROLE" in str(refused.value.hint)
    assert sql(address, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")[0][0] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://reenact:{password}@127.0.0.1:1/x",
        "postgresql://reenact:{password}@127.0.0.1:{port}/nowhere",
        "postgresql://nobody:{password}@127.0.0.1:{port}/postgres",
        "postgresql://reenact:{password}@127.0.0.1:{port}",
        "postgresql://reenact:{password}@127.0.0.1:x/y",
        "mysql://reenact:{password}@127.0.0.1/y",
    ],
)
def test_an_address_that_leads_nowhere_is_told_without_its_password(
    tmp_path: Path, wrong: str
) -> None:
    password = "-".join(["very", "hidden"])
    named = wrong.format(password=password, port=DATABASES.cluster().port)
    with pytest.raises(UsageError) as refused, running(tmp_path, database=named):
        pass
    assert refused.value.hint
    assert password not in f"{refused.value} {refused.value.hint}"


def test_two_servers_with_other_keys_are_not_one_deployment(tmp_path: Path, address: str) -> None:
    async def opened(data: Path, seed: str) -> str:
        world = World(Clock(), Chance(seed))
        async with open_server(data, "a.example", world, database=address) as found:
            return found.server.signer.key.to_text()

    first = asyncio.run(opened(tmp_path / "one", "1"))
    with pytest.raises(UsageError, match="cannot be read"):
        asyncio.run(opened(tmp_path / "two", "2"))
    (tmp_path / "two" / "keys").mkdir()
    for name in ("audit", "commands"):
        copy = tmp_path / "two" / "keys" / name
        copy.touch(0o600)
        copy.write_bytes((tmp_path / "one" / "keys" / name).read_bytes())
    assert asyncio.run(opened(tmp_path / "two", "3")) == first


def test_servers_that_start_at_once_are_one_deployment(tmp_path: Path, address: str) -> None:
    async def opened(seed: str) -> str:
        world = World(Clock(), Chance(seed))
        async with open_server(tmp_path / "data", "", world, database=address) as found:
            return f"{found.server.deployment} {found.server.auditor.key('default').to_text()}"

    async def work() -> list[str]:
        return await asyncio.gather(*(opened(str(number)) for number in range(4)))

    assert len(set(asyncio.run(work()))) == 1


def test_many_writers_on_two_servers_make_one_dense_log(tmp_path: Path, address: str) -> None:
    with (
        running(tmp_path / "data", database=address, seed="one") as one,
        running(tmp_path / "data", database=address, seed="two") as two,
        ThreadPoolExecutor(8) as pool,
    ):
        clients = [house.client(house.key("tenant admin", "audit:export")) for house in (one, two)]

        def change(number: int) -> int:
            path = f"/api/v1/environments/e{number % 7}"
            return clients[number % 2].put(path, json={"kind": "production"}).status_code

        assert set(pool.map(change, range(80))) == {200}
        records = one.records()
        assert [record["seq"] for record in records] == list(range(len(records)))
        assert sum(record["action"] == "environment.changed" for record in records) == 80
        key = Key.from_text(clients[1].get("/api/v1/audit/key").text.removeprefix("0 ").strip())
        export = tmp_path / "export.tar"
        export.write_bytes(clients[1].get("/api/v1/audit/export").content)
    assert verify_export(export, [key]).ok


def test_one_key_of_a_request_is_one_replay_wherever_it_is_asked(
    tmp_path: Path, address: str
) -> None:
    with (
        running(tmp_path / "data", database=address, seed="one") as one,
        running(tmp_path / "data", database=address, seed="two") as two,
        ThreadPoolExecutor(8) as pool,
    ):
        one.environment("staging")
        agent = Puppet(one)
        agent.register()
        agent.ingest(exchange())
        key = one.key("replayer", "audit:read")
        clients = [house.client(key) for house in (one, two)]

        def ask(number: int) -> tuple[int, str]:
            answer = ask_for(clients[number % 2], key=f"same-{number // 8}")
            return answer.status_code, answer.json()["replayId"]

        answers = list(pool.map(ask, range(32)))
        assert {status for status, _ in answers} == {202}
        assert len({replay for _, replay in answers}) == 4
        assert len(one.records("replay.requested")) == 4
        with agent.stream() as stream:
            commands = [agent.read_command(stream.next()["data"]) for _ in range(4)]
        assert len({command.replay_id for command in commands}) == 4


def test_an_exchange_that_comes_twice_at_once_is_kept_once(tmp_path: Path, address: str) -> None:
    with (
        running(tmp_path / "data", database=address, seed="one") as one,
        running(tmp_path / "data", database=address, seed="two") as two,
        ThreadPoolExecutor(8) as pool,
    ):
        agents = [Puppet(one, agent_id="a"), Puppet(two, agent_id="b")]
        exchange()  # makes the recording that all of them share

        def send(number: int) -> list[str]:
            sent = [exchange(f"ex-{(number + one) % 10}") for one in range(5)]
            return [result["status"] for result in agents[number % 2].ingest(*sent)]

        results = [status for found in pool.map(send, range(16)) for status in found]
        assert results.count("stored") == 10
        assert results.count("duplicate") == 70


def test_a_reader_sees_one_moment(house: House) -> None:
    async def counts() -> tuple[int, int]:
        database = house.server.database
        async with database.reading("default") as scope:
            before = await count(scope)
            async with database.writing("default") as other:
                row = {"name": "new", "kind": "production"}
                await other.add(ENVIRONMENTS, row)
            return before, await count(scope)

    async def count(scope: Scope) -> int:
        return len(await scope.all(scope.select(ENVIRONMENTS)))

    assert house.run(counts()) == (0, 0)


def test_a_reader_cannot_write(house: House) -> None:
    async def write() -> None:
        async with house.server.database.reading("default") as scope:
            await scope.add(ENVIRONMENTS, {"name": "new", "kind": "production"})

    with pytest.raises(DBAPIError, match="read-only"):
        house.run(write())


def test_a_character_that_the_database_has_no_place_for_is_kept_as_another(house: House) -> None:
    client = house.client(house.key("tenant admin", "exchange:read"))
    made = client.post("/api/v1/keys/own", json={"name": "a\0b"})
    assert made.status_code < 500
    assert client.get("/api/v1/exchanges", params={"text": "a\0b"}).status_code == 200


def test_a_database_that_is_cut_off_is_told_and_comes_back(house: House, address: str) -> None:
    cut = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        f"WHERE datname = '{address.rpartition('/')[2]}' AND pid <> pg_backend_pid()"
    )

    async def during() -> None:
        async with house.server.database.writing("default") as scope:
            await scope.all(scope.select(ENVIRONMENTS))
            assert sql(address, cut, "postgres")[0][0]
            await scope.all(scope.select(ENVIRONMENTS))

    with pytest.raises(Problem) as told:
        house.run(during())
    assert told.value.code == "unavailable"
    assert house.client().get("/readyz").status_code == 200


def test_a_database_that_is_gone_is_503(tmp_path: Path, address: str) -> None:
    with running(tmp_path / "data") as house:
        client = house.client(house.key("viewer"))
        name = address.rpartition("/")[2]
        DATABASES.cluster().sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        DATABASES.cluster().sql(cut)
        answer = client.get("/api/v1/exchanges")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "unavailable"
        assert house.client().get("/healthz").status_code == 200
        DATABASES.cluster().sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert client.get("/api/v1/exchanges").status_code == 200


def test_who_does_not_get_a_lock_is_told_to_come_again(house: House) -> None:
    async def wait() -> None:
        database, row = house.server.database, select(TENANTS).with_for_update(nowait=True)
        async with database.platform(write=True) as first:
            await first.all(row)
            async with database.writing("default") as second:
                await second.all(row)

    with pytest.raises(Problem) as told:
        house.run(wait())
    assert (told.value.code, told.value.retry_after) == ("unavailable", 1)


_FILLING = {"TEXT": "''", "BIGINT": "0", "BYTEA": "''::bytea"}
"""A value of each type."""


def test_a_plan_of_an_empty_table_is_not_kept_when_it_is_full(house: House, address: str) -> None:
    """Ingest asked for the digests of 500 ids again and again, and read the whole table each time."""
    types = {one.name: str(one.type.compile(postgresql.dialect())) for one in EXCHANGES.c}
    given = {"tenant": "'default'", "exchange_id": "'ex-' || number"}
    values = [given.get(name) or _FILLING.get(kind, "0") for name, kind in types.items()]
    asked = "'{ex-1,ex-2,ex-3}'"

    async def look() -> str:
        connection = await connect(address)
        try:
            await connection.execute("SELECT set_config('app.tenant', 'default', false)")
            await connection.execute(
                "PREPARE look (text[]) AS SELECT digest FROM exchanges "
                "WHERE tenant = 'default' AND exchange_id = ANY ($1)"
            )
            for _ in range(8):
                await connection.execute(f"EXECUTE look ({asked})")
            await connection.execute(
                f"INSERT INTO exchanges ({', '.join(types)}) "
                f"SELECT {', '.join(values)} FROM generate_series(1, 5000) AS number"
            )
            plan = await connection.fetch(f"EXPLAIN EXECUTE look ({asked})")
            return "\n".join(line[0] for line in plan)
        finally:
            await connection.close()

    plan = house.run(look())
    assert "exchanges_pkey" in plan
    assert "Seq Scan" not in plan
