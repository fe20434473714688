"""Pages call things by what people call them, and are drawn without lines that say nothing."""

from __future__ import annotations

import re

from reenact.exchange.model import Trace
from reenact.server.auth.permissions import Grant
from tests.browser.recording import NAMED
from tests.server.house import House
from tests.server.traffic.puppet import ask_for, exchange
from tests.server.web.pages import HTML, agent_of, words


def test_an_agent_is_called_by_its_name(house: House) -> None:
    agent_of(house, "till 7")
    client = house.client(house.key("tenant admin", "replayer"), **HTML)
    replay = ask_for(client, reason="to see").json()["replayId"]
    for place in ("/exchanges/ex-1", f"/replays/{replay}"):
        assert "Agent till 7" in words(client.get(place).text)
    assert "agent till 7" in words(client.get("/audit").text)


def test_whoever_may_not_see_agents_is_told_no_names(house: House) -> None:
    agent_of(house, "till 7")
    client = house.client(house.key(Grant("exchange:read")), **HTML)
    found = words(client.get("/exchanges/ex-1").text)
    assert "Agent agent-1" in found
    assert "till 7" not in found


def test_a_hostile_name_is_text(house: House) -> None:
    agent_of(house, NAMED)
    client = house.client(house.key("tenant admin"), **HTML)
    for place in ("/exchanges/ex-1", "/audit"):
        assert NAMED not in client.get(place).text
        assert "&lt;img" in client.get(place).text


def test_a_key_says_whose_it_is(house: House) -> None:
    ada = house.user("ada@example.com", "tenant admin")
    client = house.client(house.key(owner=ada), **HTML)
    found = words(client.get("/keys").text)
    assert "as ada@example.com" in found
    assert ada not in found


def test_replays_of_an_exchange_say_when_by_whom_and_why(house: House) -> None:
    agent_of(house, "till 7")
    ada = house.user("ada@example.com", "replayer")
    client = house.client(house.key(owner=ada), **HTML)
    ask_for(client, reason="to see")
    listed = client.get("/exchanges/ex-1").text.partition("<h2>Replays</h2>")[2]
    found = words(f"<main{listed}")
    assert re.search(r"2026-\S* \S* requested ada@example.com to see$", found), found


def test_only_what_nothing_else_ties_is_tied_by_correlation(house: House) -> None:
    agent = agent_of(house, "till 7")
    top, child = Trace(trace_id="1" * 32, span_id="2" * 16), "4" * 16
    agent.ingest(
        exchange("top", trace=top, correlation_id="order-7"),
        exchange(
            "child",
            trace=Trace(trace_id="1" * 32, span_id=child, parent_span_id="2" * 16),
            correlation_id="order-7",
        ),
        exchange("other", correlation_id="order-7"),
    )
    client = house.client(house.key("viewer"), **HTML)
    found = client.get("/exchanges/top/related").text
    assert len(re.findall('class="edge parent"', found)) == 1
    assert len(re.findall('class="edge correlation"', found)) == 1
    assert "its replays (UTC)" not in found
