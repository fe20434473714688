"""The audit log over HTTP: questions, heads, proofs, exports."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from base64 import b64decode
from pathlib import Path

import httpx
import pytest

from reenact.audit.keys import Key
from reenact.audit.log import open_head
from reenact.audit.merkle import check_consistency
from reenact.audit.proof import check_proof
from reenact.audit.replay_proof import matches_salted_digest
from reenact.audit.verify import verify_export
from tests.server.house import START, House


@pytest.fixture
def auditor(house: House) -> httpx.Client:
    """Somebody who may read the log, in which there is something to read."""
    client = house.client(house.key("tenant admin"))
    for number in range(7):
        house.clock.move(1)
        client.put(f"/api/v1/environments/e{number}", json={"kind": "non-production"})
    return client


def key_of(client: httpx.Client) -> Key:
    text = client.get("/api/v1/audit/key").text
    return Key.from_text(text.removeprefix("0 ").strip())


def test_records_come_newest_first_in_parts(auditor: httpx.Client) -> None:
    found, cursor = [], ""
    while cursor is not None:
        params = {"limit": "3", "cursor": cursor, "action": "environment.changed"}
        part = auditor.get("/api/v1/audit/records", params=params).json()
        found += [(item["seq"], item["record"]["seq"]) for item in part["items"]]
        cursor = part["next"]
    assert found == [(seq, seq) for seq in range(7, 0, -1)]


@pytest.mark.parametrize(
    "params, seqs",
    [
        ({"action": "log.opened"}, [0]),
        ({"since": str(START + 3000), "until": str(START + 5000)}, [4, 3]),
        ({"outcome": "denied"}, []),
        ({"actor": "server"}, [0]),
        ({"environment": "nowhere"}, []),
        ({"exchange": "none"}, []),
        ({"replay": "none"}, []),
    ],
)
def test_records_are_found(auditor: httpx.Client, params: dict[str, str], seqs: list[int]) -> None:
    items = auditor.get("/api/v1/audit/records", params=params).json()["items"]
    assert [item["seq"] for item in items] == seqs


def test_reading_is_recorded_and_does_not_flood(house: House, auditor: httpx.Client) -> None:
    for _ in range(3):
        auditor.get("/api/v1/audit/records", params={"action": "log.opened"})
    assert len(house.records("audit.read")) == 1
    assert house.records("audit.read")[0]["details"] == {"action": "log.opened"}
    auditor.get("/api/v1/audit/records")
    other = house.client(house.key("audit:read"))
    other.get("/api/v1/audit/records")
    assert len(house.records("audit.read")) == 3
    house.clock.move(601)
    auditor.get("/api/v1/audit/records")
    assert len(house.records("audit.read")) == 4
    for path in ("head", "key", "proof/1", "consistency?from=1"):
        assert auditor.get(f"/api/v1/audit/{path}").status_code == 200
    assert len(house.records("audit.read")) == 4


def test_the_head_is_signed_and_grows(house: House, auditor: httpx.Client) -> None:
    key = key_of(auditor)
    assert key.name == "test.example/audit/default"
    old = open_head(auditor.get("/api/v1/audit/head").content, [key])
    auditor.put("/api/v1/environments/more", json={"kind": "production"})
    new = open_head(auditor.get("/api/v1/audit/head").content, [key])
    assert (old.size, new.size) == (8, 9)
    hashes = auditor.get("/api/v1/audit/consistency", params={"from": 8, "to": 9}).json()["hashes"]
    check_consistency(8, 9, old.root, new.root, [b64decode(one) for one in hashes])


def test_every_record_can_be_proven(auditor: httpx.Client) -> None:
    key = key_of(auditor)
    for seq in range(8):
        proof, envelope = check_proof(auditor.get(f"/api/v1/audit/proof/{seq}").content, [key])
        assert (proof.index, envelope.seq) == (seq, seq)


@pytest.mark.parametrize("seq", ["8", "-1", "x", "99999999999999999999", "1e3", "²"])
def test_what_is_not_there_cannot(auditor: httpx.Client, seq: str) -> None:
    answer = auditor.get(f"/api/v1/audit/proof/{seq}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "params",
    [{"from": "0"}, {"from": "9"}, {"from": "5", "to": "4"}, {"from": "1", "to": "99"}, {}],
)
def test_growth_that_cannot_be(auditor: httpx.Client, params: dict[str, str]) -> None:
    answer = auditor.get("/api/v1/audit/consistency", params=params)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")


def test_an_export_is_verified_offline(house: House, auditor: httpx.Client, tmp_path: Path) -> None:
    head = auditor.get("/api/v1/audit/head").content
    answer = auditor.get("/api/v1/audit/export")
    assert answer.headers["content-type"] == "application/x-tar"
    path = tmp_path / "export.tar"
    path.write_bytes(answer.content)
    report = verify_export(path, [key_of(auditor)], head)
    assert (report.counts, report.size, report.heads) == ({}, 9, 9)
    assert house.records()[-1]["action"] == "audit.exported"
    assert [one.name for one in house.server.data.iterdir() if one.name.startswith("tmp")] == []


def test_lists_have_every_record(auditor: httpx.Client) -> None:
    lines = auditor.get("/api/v1/audit/export?format=jsonl").text.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(9))
    answer = auditor.get("/api/v1/audit/export?format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["seq"] for row in rows] == [str(seq) for seq in range(10)]
    assert rows[1]["subject.id"] == "e0"
    assert auditor.get("/api/v1/audit/export?format=xml").status_code == 422


def test_a_list_runs_nothing_in_a_program_for_tables(house: House) -> None:
    client = house.client(house.key("tenant admin"), **{"User-Agent": "=cmd|x"})
    client.get("/api/v1/tenants")
    house.run(write_reason(house, "=1+1"))
    text = client.get("/api/v1/audit/export?format=csv").text
    assert ",'=1+1," in text
    assert ",=1+1" not in text


async def write_reason(house: House, reason: str) -> None:
    from reenact.audit.record import Record
    from reenact.server.audit.log import SYSTEM

    record = Record(
        tenant="default", actor=SYSTEM, action="session.opened", outcome="ok", reason=reason
    )
    async with house.server.database.writing("default") as scope:
        await house.server.auditor.write(scope, record)


@pytest.mark.sqlite_file
def test_a_record_goes_with_what_it_is_about_or_not_at_all(house: House) -> None:
    async def broken() -> None:
        async with house.server.database.writing("default") as scope:
            await house.server.auditor.remember(scope, {"amount": 5})
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError):
        house.run(broken())
    raw = sqlite3.connect(house.server.data / "reenact.db")
    assert raw.execute("SELECT count(*) FROM audit_values").fetchone() == (0,)
    raw.close()


@pytest.mark.parametrize("value", [{"amount": 5}, "text", b"\x00bytes", {"$bytes": "x"}, None])
def test_values_are_remembered_and_can_be_erased(house: House, value: object) -> None:
    async def work() -> None:
        auditor, database = house.server.auditor, house.server.database
        async with database.writing("default") as scope:
            digest = await auditor.remember(scope, value)
            again = await auditor.remember(scope, value)
        assert digest != again
        async with database.reading("default") as scope:
            found = await auditor.recall(scope, digest)
        assert found is not None
        assert found.value == value
        assert matches_salted_digest(digest, found.value, found.salt)
        async with database.reading("other") as scope:
            assert await auditor.recall(scope, digest) is None

    house.run(work())
