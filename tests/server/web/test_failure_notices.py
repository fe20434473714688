"""What pages say about how replays and exchanges ended, and what one may not do."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx
import pytest

from reenact.exchange.model import Payload
from reenact.server.auth.permissions import Grant
from tests.server.house import PASSWORD, START, House
from tests.server.traffic.puppet import Puppet, ask_for, exchange
from tests.server.web.pages import HTML, agent_of, words


@pytest.mark.parametrize(
    "state, code, message, said, place",
    [
        ("failed", "internal", "it broke <b>", "It broke &lt;b&gt; internal Look at the log", ""),
        ("refused", "route_unknown", "", "route unknown", "/exchanges/ex-1/replay"),
        ("refused", "busy", "two run", "two run busy Wait", "/agents?app=shop"),
        ("refused", "depth", "too deep", "too deep depth Replay the original", "/exchanges/ex-1"),
        ("failed", "something_new", "", "something new", ""),
    ],
)
def test_why_it_came_to_nothing_and_what_to_do(
    house: House, state: str, code: str, message: str, said: str, place: str
) -> None:
    agent = agent_of(house, "till 7")
    client = house.client(house.key("replayer"), **HTML)
    replay = ask_for(client).json()["replayId"]
    with agent.stream() as stream:
        agent.read_command(stream.next()["data"])
    if state == "failed":
        agent.say(replay, "running")
    agent.say(replay, state, code=code, message=message)
    page = client.get(f"/replays/{replay}").text
    assert said.lower() in words(page).lower()
    alert = page.partition('class="alert"')[2].partition("</div>")[0]
    assert (f'href="{place}"' in alert) if place else ("href" not in alert)


def test_one_that_ended_as_it_should_says_nothing(house: House) -> None:
    agent = agent_of(house, "till 7")
    client = house.client(house.key("replayer"), **HTML)
    replay = ask_for(client).json()["replayId"]
    with agent.stream() as stream:
        command = agent.read_command(stream.next()["data"])
    agent.say(replay, "running")
    agent.run(command)
    page = client.get(f"/replays/{replay}").text
    assert "completed" in words(page)
    assert 'class="alert"' not in page


def badges(page: str) -> list[tuple[str, str]]:
    """The words in badges of a page, each with its colour."""
    found = re.findall(r'<span class="badge (\w+)"[^>]*>([^<]*)</span>', page.partition("<main")[2])
    return [(word, tone) for tone, word in found]


def _http(status: int) -> Payload:
    return Payload(properties={"http.status": status})


FAILING: dict[str, Any] = {"status": "failed", "result": _http(503)}


def test_replay_that_fails_like_its_source_is_green_nowhere(house: House) -> None:
    agent = agent_of(house, "till 7")
    agent.ingest(exchange("ex-503", **FAILING))
    client = house.client(house.key("replayer", "tenant admin"), **HTML)
    replay = ask_for(client, "ex-503").json()["replayId"]
    with agent.stream() as stream:
        command = agent.read_command(stream.next()["data"])
    agent.say(replay, "running")
    agent.run(command, **FAILING)
    assert client.get(f"/api/v1/replays/{replay}").json()["verdict"] == "identical"
    for place in (
        "/replays",
        f"/replays/{replay}",
        "/exchanges/ex-503",
        "/exchanges/ex-503/related",
        f"/exchanges/ex-503/compare/of-{replay}",
        "/exchanges?replay=true",
        "/audit?action=replay.finished",
    ):
        shown = badges(client.get(place).text)
        about = [
            one for one in shown if one[0] in ("completed", "identical", "failed", "503", "ok")
        ]
        assert about, place
        assert [one for one in about if one[1] == "good"] == [], place
    page = client.get(f"/replays/{replay}").text
    assert 'class="verdict identical failed"' in page
    assert "Nothing differs. The replay failed, too." in words(page)


def test_http_errors_are_marked(house: House) -> None:
    agent = agent_of(house, "till 7")
    for status in (404, 500):  # a 500 that an app does not call a failure, as spans can have it
        agent.ingest(exchange(f"ex-{status}", result=_http(status)))
    client = house.client(house.key("viewer"), **HTML)
    shown = badges(client.get("/exchanges").text)
    assert ("404", "warn") in shown
    assert ("500", "bad") in shown
    tones = sorted(tone for word, tone in shown if word == "completed")
    assert tones == ["bad", "good", "warn"]
    for status, tone in ((404, "warn"), (500, "bad")):
        page = client.get(f"/exchanges/ex-{status}").text
        assert {(str(status), tone), ("completed", tone)} <= {*badges(page)}
    drawn = client.get("/exchanges/ex-404/related").text
    assert 'class="node here refused"' in drawn
    assert "completed 404" in drawn


def test_history_hides_replays_and_leads_to_them(house: House) -> None:
    agent = agent_of(house, "till 7")
    client = house.client(house.key("replayer"), **HTML)
    replay = ask_for(client).json()["replayId"]
    with agent.stream() as stream:
        agent.run(agent.read_command(stream.next()["data"]))
    there = f'href="/exchanges/of-{replay}"'
    assert there not in client.get("/exchanges").text
    assert 'href="/exchanges/ex-1"' in client.get("/exchanges").text
    for shown in ("any", "true"):
        assert there in client.get(f"/exchanges?replay={shown}").text
    assert client.get("/exchanges?replay=some").status_code == 422
    empty = client.get(f"/exchanges?text=of-{replay}").text
    assert there not in empty
    assert "Replays are hidden. Show replays, too" in words(empty)
    way = re.search(r'href="(/exchanges\?[^"]*replay=any[^"]*)"', empty)
    assert way is not None
    assert there in client.get(unescape(way[1])).text


def test_form_without_permission_has_a_disabled_button_and_says_what_is_missing(
    house: House,
) -> None:
    agent_of(house, "till 7")
    till = Puppet(house, agent_id="agent-2", environment="live")
    assert till.register(name="till 8").status_code == 200
    client = signed_in(house, "replayer")
    form = client.get("/exchanges/ex-1/replay", follow_redirects=True)
    assert button(form.text, "Replay") == ""
    token = csrf(form.text)

    def preview(**typed: str) -> str:
        fields = {"csrf": token, "body-type": "json", "body": "{}", "properties": "{}", **typed}
        return client.post("/exchanges/ex-1/replay/preview", data=fields).text

    live = preview(boundaries="live")
    assert button(live, "Replay") == "disabled"
    said = words(live)
    assert "You do not have the permission replay:live in staging for the app shop." in said
    grant = "reenact user grant ada@example.com replay:live --environment staging --app shop"
    assert grant in said
    assert "Permission needed replay:execute and replay:live" in said
    both = words(preview(boundaries="live", agent="agent-2"))
    assert "the permissions replay:execute:production and replay:live in live" in both
    assert 'id="reason" value="" maxlength="2000" required' in live

    bold = signed_in(house, "replayer", "replay:live", email="eve@example.com")
    form = bold.get("/exchanges/ex-1/replay", follow_redirects=True)
    fields = {"csrf": csrf(form.text), "body-type": "json", "body": "{}", "properties": "{}"}
    sent = bold.post("/exchanges/ex-1/replay", data={**fields, "boundaries": "live"})
    assert sent.status_code == 422
    assert "a replay with live calls needs a reason" in words(sent.text)


def test_plan_of_a_batch_without_permission_cannot_be_confirmed(house: House) -> None:
    agent_of(house, "till 7")
    client = signed_in(house, "replayer")
    token = client.get("/api/v1/session").json()["csrfToken"]
    asked = {"search": {}, "boundaries": "live", "reason": "to see"}
    batch = client.post("/api/v1/batches", json=asked, headers={"X-CSRF-Token": token}).json()
    page = client.get(f"/batches/{batch['batchId']}").text
    assert button(page, "Replay 1 exchange") == "disabled"
    assert "You do not have the permission replay:live in staging" in words(page)
    asked["boundaries"] = "recorded"
    batch = client.post("/api/v1/batches", json=asked, headers={"X-CSRF-Token": token}).json()
    page = client.get(f"/batches/{batch['batchId']}").text
    assert button(page, "Replay 1 exchange") == ""
    fields = {"csrf": token, "search": "{}", "boundaries": "live"}
    refused = client.post("/batches", data=fields)
    assert refused.status_code == 422
    assert "with live calls needs a reason" in words(refused.text)


def test_replay_that_one_may_not_cancel_has_a_disabled_button(house: House) -> None:
    agent_of(house, "till 7")
    replay = ask_for(house.client(house.key("replayer"))).json()["replayId"]
    elsewhere = Grant("replay:execute", environment="dev")
    client = signed_in(house, "viewer", elsewhere)
    page = client.get(f"/replays/{replay}").text
    assert button(page, "Cancel the replay") == "disabled"
    assert "You do not have the permission replay:execute in staging" in words(page)


def test_pager_of_a_batch_walks_in_the_order_of_its_exchanges(house: House) -> None:
    agent = agent_of(house, "till 7")
    names = [f"ex-{number:02}" for number in range(7)]
    agent.ingest(*(exchange(one, started_at=START + at) for at, one in enumerate(names)))
    client = house.client(house.key("replayer"), **HTML)
    given = [names[at] for at in (3, 0, 6, 5, 1, 2, 4)]
    for asked, wanted in (
        ({"exchanges": given}, given),
        ({"search": {"since": START, "app": "shop"}}, [*reversed(names), "ex-1"]),
    ):
        batch = client.post("/api/v1/batches", json=asked).json()["batchId"]
        walked: list[str] = []
        place = f"/batches/{batch}?limit=3"
        while place:
            page = client.get(place).text
            walked += re.findall(r'href="/exchanges/(ex-\w+)"', page)
            assert "Older" not in words(page)
            way = re.search(r'<a href="(\?[^"]*)" rel="next">Next</a>', page)
            place = f"/batches/{batch}{unescape(way[1])}" if way else ""
        assert sorted(walked) == sorted(wanted)
        assert [one for one in walked if one != "ex-1"] == [one for one in wanted if one != "ex-1"]
    assert ">First</a>" in page


def signed_in(house: House, *grants: Any, email: str = "ada@example.com") -> httpx.Client:
    """A user in a browser."""
    house.user(email, *grants)
    client = house.client(**HTML, **{"Sec-Fetch-Site": "same-origin"})
    asked = {"email": email, "password": PASSWORD}
    assert client.post("/api/v1/session", json=asked).status_code == 201
    return client


def csrf(page: str) -> str:
    """The token of the session, as a form has it."""
    found = re.search(r'name="csrf" value="([^"]*)"', page)
    assert found is not None
    return found[1]


def button(page: str, label: str) -> str:
    """``disabled`` or nothing."""
    found = re.search(rf"<button([^>]*)>{re.escape(label)}</button>", page)
    assert found is not None, label
    return "disabled" if " disabled" in found[1] else ""
