"""The link and the real server: what one says the other understands."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from reenact.exchange.client.interface import ReplayCancelled, ReplayJob
from reenact.exchange.client.runtime import ServerExporter
from reenact.exchange.model import Body, Payload, Registration, Route
from reenact.exchange.payload import payload_digest
from tests.integration.exchange.client_helpers import (
    CountingRunner,
    a_capture,
    an_exchange,
    has_started,
    linked,
)
from tests.integration.exchange.protocol_server import PATIENCE
from tests.server.house import House, running

pytestmark = pytest.mark.slow

ORDER = Payload(body=Body(type="json", text='{"amount": 1}', content_type="application/json"))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with running(tmp_path / "server") as house:
        house.environment("staging")
        yield house


@pytest.fixture
def operator(house: House) -> httpx.Client:
    return house.client(house.key("replayer"))


def linked_to(house: House, folder: Path, runner: CountingRunner) -> Any:
    def registration() -> Registration:
        return Registration(
            protocol=1,
            agent_id="",
            app="shop",
            environment="staging",
            routes=(Route(route_id="orders", revision="r1"),),
            capabilities=("replay", "cancel"),
        )

    key = house.agent_key("shop", "staging")
    return linked(house.url, folder, runner, key=key, registration=registration, now=house.clock)


def until(client: httpx.Client, path: str, holds: Any) -> dict[str, Any]:
    """Ask again until it is so: nothing tells a client of the API."""
    pause = threading.Event()
    for _ in range(int(PATIENCE * 50)):
        answer = client.get(path)
        if answer.status_code == 200 and holds(answer.json()):
            found: dict[str, Any] = answer.json()
            return found
        pause.wait(0.02)
    pytest.fail(f"{answer.status_code}: {answer.text}")


def record(link: ServerExporter, operator: httpx.Client) -> None:
    exchange = an_exchange(
        "ex-1", start=ORDER, start_digest=payload_digest(ORDER), revision="r1", result=ORDER
    )
    link.offer(exchange, a_capture(link.place()))
    until(operator, "/api/v1/exchanges/ex-1", lambda _: True)
    until(operator, "/api/v1/agents", lambda found: found["items"])


def replay(operator: httpx.Client, **wanted: Any) -> str:
    answer = operator.post(
        "/api/v1/exchanges/ex-1/replays",
        json=wanted,
        headers={"Idempotency-Key": f"key-{len(wanted)}"},
    )
    assert answer.status_code == 202, answer.text
    return str(answer.json()["replayId"])


def test_an_exchange_is_recorded_edited_and_replayed(
    house: House, operator: httpx.Client, tmp_path: Path
) -> None:
    runner = CountingRunner()
    with linked_to(house, tmp_path / "data", runner) as link:
        record(link, operator)
        patch = [{"op": "replace", "path": "/body/amount", "value": 5}]
        name = replay(operator, patch=patch)
        ended = until(operator, f"/api/v1/replays/{name}", lambda one: one["state"] == "completed")
        (made,) = [
            one
            for one in operator.get("/api/v1/exchanges?replay=any").json()["items"]
            if one["exchangeId"] != "ex-1"
        ]
        exchange = operator.get(f"/api/v1/exchanges/{made['exchangeId']}").json()
    assert runner.ran == [name]
    assert runner.captures == [["events.jsonl", "manifest.json"]]
    assert exchange["start"]["body"]["text"] == '{"amount": 5}'
    assert exchange["recording"]["events"] == 3
    assert ended["replayId"] == name
    assert link.status().dropped == 0
    (agent,) = operator.get("/api/v1/agents").json()["items"]
    assert agent["state"] == "offline"  # it has said goodbye


def test_a_replay_is_cancelled_through_the_server(
    house: House, operator: httpx.Client, tmp_path: Path
) -> None:
    runner = CountingRunner()

    def act(job: ReplayJob) -> None:
        assert job.cancelled.wait(PATIENCE)
        raise ReplayCancelled

    runner.act = act
    with linked_to(house, tmp_path / "data", runner) as link:
        record(link, operator)
        name = replay(operator)
        has_started(runner)
        assert operator.post(f"/api/v1/replays/{name}/cancel", json={}).status_code == 200
        until(operator, f"/api/v1/replays/{name}", lambda one: one["state"] == "cancelled")
    assert runner.ran == [name]
