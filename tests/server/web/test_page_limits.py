"""Pages of exchanges with very many steps and calls: each is bounded, and links lead to the rest."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from reenact.exchange.comparison.calls import Call
from reenact.exchange.comparison.result import CallChange, Comparison
from reenact.exchange.model import Processor
from reenact.server.web.components.tables import ListPart
from reenact.server.web.exchanges.calls import CallDetails, conversations
from reenact.server.web.exchanges.comparison import comparison
from tests.server.house import START, House
from tests.server.traffic.puppet import exchange
from tests.server.web.pages import HTML, agent_of

STEPS = 1_200


def steps(changed: int = 0) -> tuple[Processor, ...]:
    return tuple(
        Processor(
            processor_id=f"step-{seq}-",
            seq=seq,
            started_at=START + seq,
            output="other" if seq == changed else "same",
        )
        for seq in range(1, STEPS + 1)
    )


def named(page: str) -> list[str]:
    return re.findall(r"<b>((?:step|call)-\d+-)</b>", page)


def way(page: str, words: str) -> str:
    found = re.search(rf'<a href="(\?[^"]*)"[^>]*>{words}</a>', page)
    return unescape(found[1]) if found else ""


@pytest.fixture
def client(house: House) -> httpx.Client:
    agent = agent_of(house, "till 7")
    agent.ingest(exchange("ex-long", processors=steps()))
    agent.ingest(exchange("ex-other", processors=steps(changed=1_100)))
    return house.client(house.key("viewer"), **HTML)


def test_pages_of_very_many_steps_are_bounded_and_lead_to_the_rest(client: httpx.Client) -> None:
    place = "/exchanges/ex-long"
    page = client.get(place).text
    seen = named(page)
    while query := way(page, "Next"):
        page = client.get(f"{place}{query}").text
        assert len(named(page)) <= 500
        seen += named(page)
    assert seen == [f"step-{seq}-" for seq in range(1, STEPS + 1)]
    assert "1,001–1,200 of 1,200 rows" in page
    assert "1–500 of 1,200 rows" in client.get(f"{place}{way(page, 'First')}").text
    assert "None of 1,200 rows" in client.get(f"{place}?from=1201").text
    assert client.get(f"{place}?from=none").status_code == 422

    place = "/exchanges/ex-long/compare/ex-other"
    page = client.get(place).text
    assert "1–500 of 1,200 steps" in page
    assert len(named(page)) == 500
    for words, first in (("Next", "step-501-"), ("First difference", "step-1100-")):
        assert named(client.get(f"{place}{way(page, words)}").text)[0] == first


def test_comparison_of_10_000_calls_is_bounded_and_its_lists_are_paged_one_by_one() -> None:
    calls = [CallChange(state="added", operation=f"call-{n}-") for n in range(10_000)]
    told = tuple({"code": "extra_call", "detail": f"divergence-{n}-"} for n in range(600))
    found = Comparison(verdict="diverged", calls=tuple(calls), divergences=told)
    query = (("calls", "100"), ("divergences", "501"))
    parts = {name: ListPart(name=name, first=int(first), query=query) for name, first in query}
    html = str(comparison(found, exchange(), exchange(), parts=parts))
    assert len(html) < 1 << 20
    assert named(html) == [f"call-{n}-" for n in range(99, 599)]
    assert "100–599 of 10,000 calls" in html
    assert "501–600 of 600 divergences" in html
    assert 'href="?divergences=501&amp;calls=600#calls"' in html
    large = [CallChange(state="added", operation="x" * 50_000) for _ in range(500)]
    found = Comparison(verdict="diverged", calls=tuple(large))
    html = str(comparison(found, exchange(), exchange()))
    assert len(html) < 5 << 20
    assert re.search(r"1–\d\d of 500 calls", html)


def test_conversation_of_a_page_has_a_size() -> None:
    call = Call(seq=1, type="llm", operation="chat")
    talk = [{"role": "user", "text": f"{n}-" + "x" * 300_000} for n in range(30)]
    told = CallDetails(call=call, began=0, ended=0, talk=talk)
    html = "".join(map(str, conversations([told, told])))
    assert len(html) < 5 << 20
    assert "more messages, too long for this page" in html
    assert "The messages of 1 more model call are too long for this page." in html
