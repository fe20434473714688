"""A FastAPI app with its agent, and the server: recorded, edited, replayed, proven."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI, Request

from reenact.audit.replay_proof import check_replay_proof
from reenact.exchange import Agent, step
from tests.clocks import monotonic, start_clock
from tests.integration.exchange.apps import DECLARED, Upstream
from tests.server.house import House
from tests.server.traffic.puppet import ask_for


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.stop()


@pytest.fixture
def real(house: House, tmp_path: Path) -> Iterator[Agent]:
    house.clock.at = start_clock()()  # the agent has the time of this machine
    said: list[str] = []
    agent = Agent(
        house.url,
        house.agent_key("shop", "staging"),
        app="shop",
        environment="staging",
        data=tmp_path / "agent",
        drivers=DECLARED,
        warn=said.append,
    )
    with agent:
        yield agent
    assert said == []


@pytest.fixture
def shop(real: Agent, upstream: Upstream) -> FastAPI:
    app = FastAPI()
    app.add_middleware(real.asgi)

    @step("price")
    async def price(amount: int) -> int:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{upstream.url}/price")
        return int(answer.json()["n"]) * amount

    @app.post("/orders/{order}")
    async def post_order(order: str, request: Request) -> dict[str, Any]:
        body = await request.json()
        return {"order": order, "total": await price(body["amount"])}

    @app.post("/quotes")
    async def post_quote(request: Request) -> dict[str, Any]:
        found = []
        async with httpx.AsyncClient(trust_env=False) as client:
            for amount in await request.json():
                answer = await client.get(f"{upstream.url}/quote?amount={amount}")
                found.append(answer.json()["path"])
        return {"found": found}

    return app


def _post(app: FastAPI, path: str, **request: Any) -> httpx.Response:
    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
            return await client.post(path, **request)

    return asyncio.run(main())


def _until(look: Callable[[], list[dict[str, Any]]]) -> dict[str, Any]:
    """What is there once it is: an agent sends when it likes, and tells nobody."""
    deadline = monotonic() + 60
    while monotonic() < deadline:
        found = look()
        if found:
            return found[0]
    raise AssertionError("it never came")


def _items(client: httpx.Client, path: str) -> Callable[[], list[dict[str, Any]]]:
    def look() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = client.get(path).json()["items"]
        return items

    return look


def test_an_order_is_recorded_edited_replayed_and_proven(
    house: House, operator: httpx.Client, shop: FastAPI, upstream: Upstream
) -> None:
    assert _post(shop, "/orders/7", json={"amount": 5}).json() == {"order": "7", "total": 5}
    found = _until(_items(operator, "/api/v1/exchanges"))
    assert (found["routeId"], found["app"]) == ("POST /orders/{order}", "shop")
    exchange_id = found["exchangeId"]
    (call,) = operator.get(f"/api/v1/exchanges/{exchange_id}/calls").json()["items"]
    assert call["operation"] == f"GET {upstream.url}/price"

    patch = [{"op": "replace", "path": "/body/amount", "value": 8}]
    _until(_items(operator, "/api/v1/agents"))
    asked = ask_for(operator, exchange_id, patch=patch)
    assert asked.status_code == 202, asked.text
    replay_id = asked.json()["replayId"]
    with operator.stream("GET", f"/api/v1/replays/{replay_id}/events") as events:
        last = [line[6:] for line in events.iter_lines() if line.startswith("data: ")][-1]
    replay = msgspec.json.decode(last)
    assert (replay["state"], replay["code"], replay["message"]) == ("completed", "", "")
    assert upstream.asked == ["/price"]  # once: the replay was served from the recording

    diff = operator.get(f"/api/v1/replays/{replay_id}/diff").json()
    assert [(one["path"], one["before"], one["after"]) for one in diff["start"]] == [
        ("/body/amount", 5, 8)
    ]
    assert ("/body/total", 5, 8) in [
        (one["path"], one["before"], one["after"]) for one in diff["result"]
    ]
    assert {one["state"] for one in diff["calls"]} == {"same"}
    proof = operator.get(f"/api/v1/replays/{replay_id}/proof").content
    shown = check_replay_proof(proof, [house.server.auditor.key("default")])
    assert shown.finished is not None
    assert shown.finished.outcome == "ok"
    assert [one["action"] for one in house.records() if one.get("replayId") == replay_id] == [
        "replay.requested",
        "replay.finished",
    ]


def test_a_replay_without_changes_is_identical(
    house: House, operator: httpx.Client, shop: FastAPI
) -> None:
    _post(shop, "/orders/7", json={"amount": 5})
    exchange_id = _until(_items(operator, "/api/v1/exchanges"))["exchangeId"]
    replay_id = ask_for(operator, exchange_id, strict=True).json()["replayId"]
    with operator.stream("GET", f"/api/v1/replays/{replay_id}/events") as events:
        last = [line[6:] for line in events.iter_lines() if line.startswith("data: ")][-1]
    replay = msgspec.json.decode(last)
    assert (replay["state"], replay["message"]) == ("completed", "")
    diff = operator.get(f"/api/v1/replays/{replay_id}/diff").json()
    assert (replay["verdict"], diff["first"]) == ("identical", "")


def test_a_call_that_was_asked_otherwise_says_what_and_which_answer_it_got(
    house: House, operator: httpx.Client, shop: FastAPI, upstream: Upstream
) -> None:
    _post(shop, "/quotes", json=[1, 2])
    exchange_id = _until(_items(operator, "/api/v1/exchanges"))["exchangeId"]
    recorded = operator.get(f"/api/v1/exchanges/{exchange_id}/calls").json()["items"]
    patch = [{"op": "replace", "path": "/body/1", "value": 7}]
    _until(_items(operator, "/api/v1/agents"))
    replay_id = ask_for(operator, exchange_id, patch=patch).json()["replayId"]
    with operator.stream("GET", f"/api/v1/replays/{replay_id}/events") as events:
        last = [line[6:] for line in events.iter_lines() if line.startswith("data: ")][-1]
    again = msgspec.json.decode(last)["exchangeId"]
    same, other = operator.get(f"/api/v1/exchanges/{again}/calls").json()["items"]
    assert "asked" not in same
    assert other["asked"]["url"].endswith("/quote?amount=7")
    assert other["request"]["url"].endswith("/quote?amount=2")
    assert other["answeredBy"] == recorded[1]["seq"]
    page = operator.get(f"/exchanges/{again}", headers={"Accept": "text/html"}).text
    assert page.count("It was served from the recording") == 2
    assert "Request in this replay" in page
    assert f"of event {recorded[1]['seq']};" in page
    assert upstream.asked == ["/quote?amount=1", "/quote?amount=2"]
    original = operator.get(f"/exchanges/{exchange_id}", headers={"Accept": "text/html"}).text
    assert "served from the recording" not in original


@pytest.fixture
def flagged(real: Agent) -> FastAPI:
    app = FastAPI()
    app.add_middleware(real.asgi)

    @app.post("/prices")
    async def prices() -> dict[str, Any]:
        return {"flag": os.environ.get("NEW_PRICES")}

    return app


@pytest.mark.parametrize("variables, flag", [("", "on"), ("current", "on"), ("recorded", "off")])
def test_fix_by_a_feature_flag_is_seen_unless_the_recorded_variables_are_requested(
    house: House,
    operator: httpx.Client,
    flagged: FastAPI,
    monkeypatch: pytest.MonkeyPatch,
    variables: str,
    flag: str,
) -> None:
    monkeypatch.setenv("NEW_PRICES", "off")
    _post(flagged, "/prices")
    monkeypatch.setenv("NEW_PRICES", "on")
    exchange_id = _until(_items(operator, "/api/v1/exchanges"))["exchangeId"]
    _until(_items(operator, "/api/v1/agents"))
    wanted = {"environmentVariables": variables} if variables else {}
    asked = ask_for(operator, exchange_id, **wanted)
    assert asked.status_code == 202, asked.text
    replay_id = asked.json()["replayId"]
    with operator.stream("GET", f"/api/v1/replays/{replay_id}/events") as events:
        last = [line[6:] for line in events.iter_lines() if line.startswith("data: ")][-1]
    replay = msgspec.json.decode(last)
    used = variables or "current"
    assert (replay["state"], replay["environmentVariables"]) == ("completed", used)
    found = operator.get(f"/api/v1/exchanges/{replay['exchangeId']}").json()
    assert msgspec.json.decode(found["result"]["body"]["text"]) == {"flag": flag}
    assert found["replay"].get("environmentVariables", "current") == used
    told = [one["details"] for one in house.records() if one.get("replayId") == replay_id]
    assert [one["environmentVariables"] for one in told] == [used, used]
    page = operator.get(f"/replays/{replay_id}", headers={"Accept": "text/html"}).text
    assert re.search(rf"<dt>Environment variables</dt>\s*<dd>{used} values</dd>", page)
