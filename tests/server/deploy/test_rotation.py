"""Another key for the audit logs: who trusts the old one can go on, and nobody signs with it any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reenact.audit.keys import Key
from reenact.audit.proof import check_proof
from reenact.audit.record import Record
from reenact.audit.verify import verify_export
from reenact.audit.verify_records import Report
from reenact.cli.main import main
from reenact.errors import UsageError
from reenact.server.audit.log import SYSTEM
from reenact.server.problems import Problem
from reenact.server.process.startup import World, rotate_audit_key
from tests.server.databases import DATABASES
from tests.server.house import Chance, Clock, House, running


def write(house: House, name: str, tenant: str = "default") -> None:
    client = house.client(house.key("tenant admin", tenant=tenant))
    answer = client.put(f"/api/v1/environments/{name}", json={"kind": "production"})
    assert answer.status_code == 200, answer.text


def keys(house: House, tenant: str = "default") -> list[tuple[int, Key]]:
    text = house.client(house.key("tenant admin", tenant=tenant)).get("/api/v1/audit/key").text
    pairs = [line.split(" ") for line in text.splitlines()]
    return [(int(start), Key.from_text(key)) for start, key in pairs]


def rotate(data: Path, seed: str) -> tuple[str, int]:
    world = World(Clock(), Chance(seed))
    return asyncio.run(rotate_audit_key(data, world, database=DATABASES.address(data)))


def verified(house: House, path: Path, *trusted: Key, head: bytes | None = None) -> Report:
    client = house.client(house.key("tenant admin"))
    path.write_bytes(client.get("/api/v1/audit/export").content)
    return verify_export(path, trusted, head)


@pytest.mark.both_databases
def test_who_trusts_the_old_key_can_follow_to_the_new_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as house:
        house.tenant("other")
        house.tenant("silent")
        write(house, "one")
        ((_, first),) = keys(house)
        head = house.client(house.key("tenant admin")).get("/api/v1/audit/head").content
    for number in (1, 2):
        new, logs = rotate(data, f"rotation {number}")
        assert logs == 3  # that of each tenant: the test has opened them
        assert (data / "keys" / "audit").stat().st_mode & 0o777 == 0o600
    with running(data, seed="after") as house:
        write(house, "two")
        write(house, "two", "other")
        found = keys(house)
        assert found[0] == (0, first)
        assert len({key.id for _, key in found}) == 3
        rotated = house.records("log.rotated")
        assert [start for start, _ in found] == [0, *(one["seq"] + 1 for one in rotated)]
        for trusted in (first, found[-1][1]):
            assert verified(house, tmp_path / "export.tar", trusted, head=head).ok
        proof = house.client(house.key("tenant admin")).get("/api/v1/audit/proof/1").content
        assert check_proof(proof, [found[-1][1]])[1].seq == 1
        page = house.client(house.key("tenant admin")).get("/audit")
        assert page.status_code == 200
    assert found[-1][1].public.hex() != first.public.hex()
    kept = sorted(path.name for path in (data / "keys").iterdir())
    assert len(kept) == 4, kept  # audit, commands, and the two that are retired
    assert f"audit.{new}" not in kept


@pytest.mark.both_databases
def test_a_server_with_the_old_key_writes_nothing_more(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as house:
        write(house, "one")
        old = house.server.auditor
    rotate(data, "rotation")
    with running(data, seed="after") as house:
        write(house, "two")
        before = house.records()

        async def write_with_old() -> None:
            async with house.server.database.writing("default") as scope:
                record = Record(tenant="default", actor=SYSTEM, action="log.opened")
                await old.write(scope, record)

        with pytest.raises(Problem, match="another key"):
            house.run(write_with_old())
        assert house.records() == before


def test_what_was_interrupted_is_ended_by_the_next_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as house:
        write(house, "one")
        ((_, first),) = keys(house)
    seed = (data / "keys" / "audit").read_bytes()
    rotate(data, "rotation")
    (retired,) = (data / "keys").glob("audit.*")
    (data / "keys" / "audit").rename(data / "keys" / "audit.next")
    retired.rename(data / "keys" / "audit")
    assert (data / "keys" / "audit").read_bytes() == seed
    with running(data, seed="after") as house:
        write(house, "two")
        assert verified(house, tmp_path / "export.tar", first).ok
    assert not (data / "keys" / "audit.next").exists()
    assert retired.read_bytes() == seed


def test_a_server_that_runs_is_in_the_way(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as house:
        write(house, "one")
        with pytest.raises(UsageError, match="another server uses"):
            rotate(data, "rotation")
        write(house, "two")
    with pytest.raises(UsageError, match="no deployment"):
        rotate(tmp_path / "nothing", "rotation")


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    with running(data) as house:
        write(house, "one")
    place = DATABASES.address(data)
    more = ["--database", place] if place else []
    assert main(["serve", "--rotate-audit-key", "--data", str(data), *more]) == 0
    assert "1 audit log handed over to the key " in capsys.readouterr().err
    with running(data, seed="after") as house:
        assert len(keys(house)) == 2
