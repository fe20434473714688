"""``web_search``: providers, keys, and what is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reenact import UsageError, tools
from reenact.errors import WebFailed
from reenact.format.event import Data
from reenact.tools.web_tools import (
    Brave,
    Perplexity,
    Query,
    add_provider,
    providers,
    web_searcher,
)
from tests.contract.server import Exchange, Server
from tests.unit.tools.stage import WORLD, again, events, record, replay

RESULTS = [
    {"title": f"t{n}", "url": f"https://s{n}.example/x", "description": f"d{n}", "age": "1 day"}
    for n in range(4)
]


def _brave(exchange: Exchange) -> None:
    body = json.dumps({"web": {"results": [*RESULTS[:3], "odd", RESULTS[3]]}})
    exchange.answer("200 OK", body.encode(), ("Content-Type", "application/json"))


def _perplexity(exchange: Exchange) -> None:
    answer = {
        "model": "sonar-x",
        "choices": [{"message": {"content": "Otters [1] swim."}}],
        "citations": ["https://a.example", 3],
    }
    exchange.answer("200 OK", json.dumps(answer).encode(), ("Content-Type", "application/json"))


def _refuses(exchange: Exchange) -> None:
    exchange.answer("401 No", b"bad key", ("Content-Type", "text/plain"))


def _odd(exchange: Exchange) -> None:
    exchange.answer("200 OK", b"[]", ("Content-Type", "application/json"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(
        {
            "/res": _brave,
            "/chat": _perplexity,
            "/no": _refuses,
            "/odd": _odd,
        }
    )
    yield server
    server.stop()


def test_a_list_of_results(server: Server) -> None:
    server.begin_act()
    found = web_searcher(Brave(server.url), key="k")("otters & more", count=3, country="US")
    assert found.pop("tookMs") >= 0
    assert (found["query"], found["provider"], found["count"]) == ("otters & more", "brave", 3)
    first = found["results"][0]
    assert (first["url"], first["siteName"], first["published"]) == (
        "https://s0.example/x",
        "s0.example",
        "1 day",
    )
    assert "\nt0\n" in first["title"]
    (asked,) = server.journal
    assert asked.target == "/res/v1/web/search?q=otters+%26+more&count=3&country=US"
    assert asked.header("x-subscription-token") == "k"


def test_a_text_with_citations(server: Server) -> None:
    server.begin_act()
    found = web_searcher(Perplexity(server.url), key="k")("otters", freshness="week")
    assert (found["model"], found["citations"]) == ("sonar-x", ["https://a.example"])
    assert "\nOtters [1] swim.\n" in found["content"]
    (asked,) = server.journal
    assert asked.header("authorization") == "Bearer k"
    assert json.loads(asked.body) == {
        "model": "sonar-pro",
        "messages": [{"role": "user", "content": "otters"}],
        "search_recency_filter": "week",
    }


@pytest.mark.parametrize("count, found", [(0, 1), (2, 2), (99, 4)])
def test_one_to_ten_results(server: Server, count: int, found: int) -> None:
    assert web_searcher(Brave(server.url), key="k")("otters", count=count)["count"] == found


def test_without_a_key_the_model_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in providers().values():
        monkeypatch.delenv(one.key_name, raising=False)
    found = tools.web_search("otters")
    assert found["error"] == "missing_api_key"
    assert "BRAVE_API_KEY or PERPLEXITY_API_KEY" in found["message"]
    assert found["docs"].startswith("https://")


def test_the_first_provider_with_a_key_is_asked(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = providers()
    monkeypatch.setenv("PERPLEXITY_API_KEY", "k")
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    add_provider(Perplexity(server.url))
    try:
        assert tools.web_search("otters")["provider"] == "perplexity"
        assert list(providers()) == list(before)
    finally:
        add_provider(before["perplexity"])


@pytest.mark.parametrize(
    "path, made, why", [("/no", Brave, "401"), ("/odd", Perplexity, "no JSON")]
)
def test_a_search_that_is_refused_fails(server: Server, path: str, made: Any, why: str) -> None:
    with pytest.raises(WebFailed, match=why) as caught:
        web_searcher(made(f"{server.url}{path}"), key="k")("otters")
    assert "k" not in caught.value.details.get("url", "").rpartition("/")[2]


class House:
    """A provider of the program's own."""

    name = "house"
    key_name = "HOUSE_KEY"
    docs = "https://house.example"

    def search(self, query: Query, key: str) -> Data:
        return {"count": 0, "results": [], "n": WORLD.next(), "lang": query.search_lang}


def test_a_provider_of_the_programs_own() -> None:
    search = web_searcher(House(), key="k")
    made, source = record(lambda: search("x", search_lang="de"))
    assert (made["provider"], made["lang"]) == ("house", "de")
    assert replay(source, lambda: search("x", search_lang="de")) == made
    (result,) = events(source, "tool_result")
    assert result["volatile"] == ["$.result.tookMs"]


def test_run_again_it_asks_whom_it_asked_and_needs_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = web_searcher(_Steady())
    monkeypatch.setenv("STEADY_KEY", "k")
    made, source = record(lambda: search("x"))
    monkeypatch.delenv("STEADY_KEY")
    found = again(source, lambda: search("x"))
    assert {**found, "tookMs": 0} == {**made, "tookMs": 0}
    assert search("x")["error"] == "missing_api_key"


class _Steady(House):
    name = "steady"
    key_name = "STEADY_KEY"

    def search(self, query: Query, key: str) -> Data:
        return {"content": "always", "citations": []}


def test_names_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match="no provider is called 'bave'") as caught:
        web_searcher("bave")
    assert "brave" in caught.value.hint
    odd = _Steady()
    odd.name = "not a name"
    with pytest.raises(UsageError, match="cannot be the name of a provider"):
        add_provider(odd)
