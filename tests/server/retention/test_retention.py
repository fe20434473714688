"""Retention: what is too old is gone, and what was proven is proven."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from reenact.audit.keys import Key
from reenact.audit.replay_proof import check_replay_proof, parse_replay_proof
from reenact.audit.verify import verify_export
from reenact.server.problems import Problem
from reenact.server.tenants.retention import sweep
from tests.cli.samples import record_run
from tests.server.house import House, running
from tests.server.traffic.puppet import (
    Puppet,
    ask_for,
    code_of,
    exchange,
    named,
    packed,
)

DAY = 24 * 3600
PATH = "/api/v1/retention"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with running(tmp_path / "data") as house:
        house.environment("staging")
        yield house


@pytest.fixture
def agent(house: House) -> Puppet:
    agent = Puppet(house)
    agent.register()
    return agent


@pytest.fixture
def admin(house: House) -> httpx.Client:
    return house.client(house.key("tenant admin", "replayer", "replay:live"))


@pytest.fixture
def recording(tmp_path: Path) -> bytes:
    return packed(record_run(tmp_path / "calls"))


def put(admin: httpx.Client, **days: int) -> None:
    assert admin.put(PATH, json=days).status_code == 200


def replayed(agent: Puppet, admin: httpx.Client, **wanted: Any) -> str:
    with agent.stream() as stream:
        replay_id: str = ask_for(admin, **wanted).json()["replayId"]
        agent.run(agent.read_command(stream.next()["data"]))
    return replay_id


def key_of(admin: httpx.Client) -> Key:
    return Key.from_text(admin.get("/api/v1/audit/key").text.split(" ", 1)[1].strip())


def verified(admin: httpx.Client, target: Path, head: bytes) -> int:
    """The number of records of an export that holds, and has grown from ``head``."""
    target.write_bytes(admin.get("/api/v1/audit/export").content)
    report = verify_export(target, [key_of(admin)], head)
    assert report.ok, report
    return report.size


def test_nothing_is_erased_unless_somebody_says_so(
    house: House, agent: Puppet, admin: httpx.Client
) -> None:
    assert admin.get(PATH).json() == {"exchanges": 0, "recordings": 0, "captures": 0}
    agent.ingest(exchange())
    house.clock.move(5000 * DAY)
    house.run(sweep(house.server))
    assert admin.get("/api/v1/exchanges/ex-1").status_code == 200
    assert house.records("retention.applied") == []


def test_old_exchanges_go_with_what_belongs_to_them_and_proofs_hold(
    house: House, agent: Puppet, admin: httpx.Client, recording: bytes, tmp_path: Path
) -> None:
    ref = named(recording)
    agent.ingest(exchange(recording=ref), blobs=(recording,))
    edit = [{"op": "replace", "path": "/body/amount", "value": 7}]
    replay_id = replayed(agent, admin, patch=edit)
    caused = admin.get(f"/api/v1/replays/{replay_id}").json()["cause"]
    assert caused == "call example/small-1 was not made, and was before"
    proof_path = f"/api/v1/replays/{replay_id}/proof"
    before = admin.get(proof_path).content
    assert parse_replay_proof(before).values
    head = admin.get("/api/v1/audit/head").content
    size = verified(admin, tmp_path / "before.tar", head)
    put(admin, exchanges=30)
    (record,) = house.records("retention.changed")
    assert record["details"] == {"exchanges": "30", "recordings": "0", "captures": "0"}
    house.clock.move(31 * DAY)
    agent.register()
    agent.ingest(exchange("new", started_at=house.clock()))
    house.run(sweep(house.server))
    found = [one["exchangeId"] for one in admin.get("/api/v1/exchanges").json()["items"]]
    assert found == ["new"]
    assert code_of(admin.get("/api/v1/exchanges/ex-1")) == (404, "not_found")
    with pytest.raises(Problem, match="no longer stored"):
        house.run(house.server.blobs.get("default", ref.digest))
    replay = admin.get(f"/api/v1/replays/{replay_id}").json()
    assert (replay["state"], replay["patch"], replay["cause"]) == ("completed", [], "")
    after = admin.get(proof_path).content
    assert parse_replay_proof(after).values == ()
    for data in (before, after):
        check_replay_proof(data, [key_of(admin)])
    assert verified(admin, tmp_path / "after.tar", head) > size
    assert verify_export(tmp_path / "before.tar", [key_of(admin)], head).ok
    applied = house.records("retention.applied")
    told = {name: one["details"][name] for one in applied for name in one["details"]}
    assert told["exchanges"] == "2"
    assert int(told["values"]) >= 3
    assert told["edits"] == "1"
    assert {one["actor"]["type"] for one in applied} == {"system"}


def test_a_recording_may_go_before_its_exchange(
    house: House, agent: Puppet, admin: httpx.Client, recording: bytes
) -> None:
    ref = named(recording)
    agent.ingest(exchange(recording=ref), blobs=(recording,))
    put(admin, recordings=7)
    house.clock.move(8 * DAY)
    agent.register()
    house.run(sweep(house.server))
    assert admin.get("/api/v1/exchanges/ex-1").status_code == 200
    assert code_of(admin.get("/api/v1/exchanges/ex-1/recording")) == (410, "gone")
    assert code_of(ask_for(admin)) == (412, "not_replayable")
    assert ask_for(admin, boundaries="live", reason="x").status_code == 202
    (record,) = house.records("retention.applied")
    assert record["details"]["recordings"] == "1"
    house.run(sweep(house.server))
    assert len(house.records("retention.applied")) == 1


def test_what_something_newer_needs_stays(
    house: House, agent: Puppet, admin: httpx.Client, recording: bytes
) -> None:
    ref = named(recording)
    agent.ingest(exchange(recording=ref), blobs=(recording,))
    house.clock.move(20 * DAY)
    agent.ingest(exchange("ex-2", recording=ref, started_at=house.clock()))
    put(admin, exchanges=10, recordings=10)
    house.run(sweep(house.server))
    assert code_of(admin.get("/api/v1/exchanges/ex-1")) == (404, "not_found")
    assert admin.get("/api/v1/exchanges/ex-2/recording").content == recording


def test_an_exchange_that_is_being_replayed_waits(
    house: House, agent: Puppet, admin: httpx.Client
) -> None:
    agent.ingest(exchange(), exchange("ex-2"))
    house.clock.move(11 * DAY)
    agent.register()
    assert ask_for(admin).status_code == 202
    put(admin, exchanges=10)
    house.run(sweep(house.server))
    assert admin.get("/api/v1/exchanges/ex-1").status_code == 200
    assert code_of(admin.get("/api/v1/exchanges/ex-2")) == (404, "not_found")


def test_captures_go_by_themselves(house: House, admin: httpx.Client, recording: bytes) -> None:
    sent = {"Content-Type": "application/octet-stream"}
    answer = admin.post("/api/v1/captures", content=recording, headers=sent)
    capture = answer.json()["captureId"]
    put(admin, captures=5)
    house.clock.move(4 * DAY)
    house.run(sweep(house.server))
    assert admin.get(f"/api/v1/captures/{capture}").content == recording
    house.clock.move(2 * DAY)
    house.run(sweep(house.server))
    assert code_of(admin.get(f"/api/v1/captures/{capture}")) == (404, "not_found")
    again = admin.post("/api/v1/captures", content=recording, headers=sent)
    assert again.status_code == 201
    assert admin.get(f"/api/v1/captures/{again.json()['captureId']}").content == recording


def test_each_tenant_has_its_own(house: House, agent: Puppet, admin: httpx.Client) -> None:
    house.tenant("other")
    house.environment("staging", tenant="other")
    there = Puppet(house, agent_id="agent-2", tenant="other")
    there.register()
    agent.ingest(exchange())
    there.ingest(exchange())
    put(admin, exchanges=1)
    house.clock.move(2 * DAY)
    house.run(sweep(house.server))
    assert code_of(admin.get("/api/v1/exchanges/ex-1")) == (404, "not_found")
    viewer = house.client(house.key("viewer", tenant="other"))
    assert viewer.get("/api/v1/exchanges/ex-1").status_code == 200
    assert house.records("retention.applied", "other") == []


def test_only_administrators_say_how_long(house: House, admin: httpx.Client) -> None:
    for role in ("viewer", "production replayer", "platform admin"):
        client = house.client(house.key(role))
        assert code_of(client.put(PATH, json={"exchanges": 1})) == (403, "permission_denied")
        assert code_of(client.get(PATH)) == (403, "permission_denied")
    for days in (-1, 36_501, 1.5, "3"):
        assert code_of(admin.put(PATH, json={"exchanges": days})) == (422, "invalid")


def test_more_than_fits_into_a_step(house: House, agent: Puppet, admin: httpx.Client) -> None:
    agent.ingest(*(exchange(f"ex-{number}") for number in range(450)))
    put(admin, exchanges=1)
    house.clock.move(2 * DAY)
    house.run(sweep(house.server))
    assert admin.get("/api/v1/exchanges").json()["items"] == []
    numbers = [one["details"]["exchanges"] for one in house.records("retention.applied")]
    assert numbers == ["200", "200", "50"]
