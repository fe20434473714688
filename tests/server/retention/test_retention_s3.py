"""Retention where recordings are in a real store that speaks S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from reenact.audit.keys import Key
from reenact.audit.replay_proof import check_replay_proof
from reenact.audit.verify import verify_export
from reenact.server.tenants.retention import sweep
from tests.cli.remote import BUCKET, bucket, settings
from tests.cli.samples import record_run
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, ask_for, code_of, exchange, named, packed

DAY = 24 * 3600


class Store:
    """One that can be away for a while; what is in it stays."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self._server.start()
        host, self._port = self._server.get_host_and_port()
        self.address = f"http://{host}:{self._port}"

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", self._port, verbose=False)
        self._server.start()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    store = Store()
    for name, value in settings(store.address).items():
        monkeypatch.setenv(name, value)
    yield store
    store.stop()


@pytest.fixture
def client(store: Store) -> Iterator[Any]:
    with bucket(store.address) as client:
        yield client


@pytest.fixture
def house(client: Any, tmp_path: Path) -> Iterator[House]:
    with running(tmp_path / "data", blobs=f"s3://{BUCKET}/kept") as house:
        house.environment("staging")
        yield house


def objects(client: Any) -> set[str]:
    found = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {one["Key"].rpartition("/")[2] for one in found}


def hexadecimal(data: bytes) -> str:
    return named(data).digest.removeprefix("sha256:")


def test_what_is_too_old_is_gone_from_the_store_and_proofs_hold(
    house: House, client: Any, tmp_path: Path
) -> None:
    old, pushed, new = (packed(record_run(tmp_path / name)) for name in ("a", "b", "c"))
    old, new = old + b" ", new + b"  "  # of others' content
    agent = Puppet(house)
    agent.register()
    admin = house.client(house.key("tenant admin", "replayer", "replay:live", "capture:read"))
    agent.ingest(exchange(recording=named(old)), blobs=(old,))
    sent = {"Content-Type": "application/octet-stream"}
    writer = house.client(house.key("capture:write"))
    assert writer.post("/api/v1/captures", content=pushed, headers=sent).status_code == 201
    with agent.stream() as stream:
        replay = ask_for(admin, boundaries="live", reason="x").json()["replayId"]
        agent.run(agent.read_command(stream.next()["data"]))
    proof = admin.get(f"/api/v1/replays/{replay}/proof").content
    head = admin.get("/api/v1/audit/head").content
    key = Key.from_text(admin.get("/api/v1/audit/key").text.split(" ", 1)[1].strip())
    assert objects(client) >= {hexadecimal(old), hexadecimal(pushed)}
    days = {"exchanges": 30, "captures": 30}
    assert admin.put("/api/v1/retention", json=days).status_code == 200
    house.clock.move(31 * DAY)
    agent.ingest(exchange("new", started_at=house.clock(), recording=named(new)), blobs=(new,))
    house.run(sweep(house.server))
    assert objects(client) == {hexadecimal(new)}
    assert code_of(admin.get("/api/v1/exchanges/ex-1")) == (404, "not_found")
    assert admin.get("/api/v1/captures").json()["items"] == []
    assert admin.get("/api/v1/exchanges/new/recording").content == new
    for data in (proof, admin.get(f"/api/v1/replays/{replay}/proof").content):
        check_replay_proof(data, [key])
    export = tmp_path / "audit.tar"
    export.write_bytes(admin.get("/api/v1/audit/export").content)
    assert verify_export(export, [key], head).ok
    told = [one["details"] for one in house.records("retention.applied")]
    assert [one.get("exchanges") for one in told if "exchanges" in one] == ["2"]
    assert [one.get("captures") for one in told if "captures" in one] == ["1"]


@pytest.mark.slow
def test_what_a_store_that_is_away_still_has_is_not_said_to_be_gone(
    house: House, store: Store, client: Any
) -> None:
    agent = Puppet(house)
    agent.register()
    admin = house.client(house.key("tenant admin", "viewer"))
    blobs = [f"recording {number}".encode() for number in range(5)]
    agent.ingest(
        *(exchange(f"ex-{at}", recording=named(data)) for at, data in enumerate(blobs)),
        blobs=tuple(blobs),
    )
    assert admin.put("/api/v1/retention", json={"exchanges": 1}).status_code == 200
    house.clock.move(2 * DAY)
    store.stop()
    house.run(sweep(house.server))
    assert len(admin.get("/api/v1/exchanges").json()["items"]) == 5
    assert house.records("retention.applied") == []
    store.start()
    assert len(objects(client)) == 5
    house.run(sweep(house.server))
    assert objects(client) == set()
    assert admin.get("/api/v1/exchanges").json()["items"] == []
    (record,) = house.records("retention.applied")
    assert record["details"]["exchanges"] == "5"
