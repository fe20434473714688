"""Noise on pages, asked for without a browser: rules that cannot be, and people who may not."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from reenact.server.auth.permissions import Grant
from tests.server.house import House
from tests.server.traffic.puppet import Puppet, ask_for, exchange, result

HTML = {"Accept": "text/html"}
ROUTE = {"app": "shop", "route": "orders"}


@pytest.fixture
def replay(house: House) -> str:
    """One whose result differs."""
    house.environment("staging")
    agent = Puppet(house)
    agent.register()
    agent.ingest(exchange())
    replay_id = str(ask_for(house.client(house.key("replayer"))).json()["replayId"])
    with agent.stream() as stream:
        command = agent.read_command(stream.next()["data"])
    agent.run(command, result=result(11))
    return replay_id


def rules(client: httpx.Client) -> list[object]:
    found = client.get("/api/v1/noise", headers={"Accept": "application/json"}).json()["items"]
    return [rule for one in found for rule in one["rules"]]


IMPOSSIBLE = (
    {"path": "nowhere", "kind": "ignore"},
    {"path": "/elsewhere/x", "kind": "ignore"},
    {"path": "/result", "kind": "tolerance", "absolute": "much"},
    {"path": "/result", "kind": "tolerance"},
    {"path": "/result", "kind": "regex", "pattern": "("},
    {"path": "/result", "kind": "other"},
    {"path": "", "kind": "ignore"},
)


def test_rules_that_cannot_be_are_told(house: House) -> None:
    client = house.client(house.key("replayer"), **HTML)
    for rule in IMPOSSIBLE:
        answer = client.post("/noise", data={**ROUTE, **rule})
        assert answer.status_code == 422, rule
        assert 'role="alert"' in answer.text
    assert rules(client) == []
    assert house.records("noise.changed") == []


def test_what_is_no_rule_is_not_removed(house: House) -> None:
    client = house.client(house.key("replayer"), **HTML)
    client.post("/noise", data={**ROUTE, "path": "/result", "kind": "ignore"})
    assert client.post("/noise/remove", data={**ROUTE, "rule": "["}).status_code == 422
    assert client.post("/noise/remove", data={**ROUTE, "rule": '{"path":"/x"}'}).status_code == 303
    assert len(rules(client)) == 1


def test_a_rule_is_offered_by_what_it_would_do(house: House, replay: str) -> None:
    client = house.client(house.key("replayer"), **HTML)
    [place] = re.findall(r'href="(/noise/hide[^"]*)"', client.get(f"/replays/{replay}").text)
    shown = client.get(unescape(place)).text
    assert shown.count("It would be") == 2
    fields = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', shown)
    first = dict(fields[: len(fields) // 2])
    answer = client.post("/noise", data={name: unescape(text) for name, text in first.items()})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/replays/{replay}")
    assert len(rules(client)) == 1
    assert client.get(unescape(place)).status_code == 404


@pytest.mark.parametrize("grant", ["viewer", Grant("replayer", environment="staging")])
def test_who_may_not_is_not_asked(house: House, replay: str, grant: str | Grant) -> None:
    """Rules hold wherever the app runs."""
    client = house.client(house.key(grant), **HTML)
    assert "/noise/hide" not in client.get(f"/replays/{replay}").text
    shown = client.get("/noise", params=ROUTE).text
    assert 'action="/noise' not in shown
    answer = client.post("/noise", data={**ROUTE, "path": "/result", "kind": "ignore"})
    assert answer.status_code == 403
    assert rules(client) == []
