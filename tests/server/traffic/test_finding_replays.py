"""Replays are found by what they were, where, what came of them and who asked; by those who may see them."""

from __future__ import annotations

import re
from typing import Any

import httpx
import msgspec
import pytest

from reenact.exchange.model import ErrorFacts
from reenact.server.auth.permissions import Grant
from tests.server.house import House
from tests.server.traffic.puppet import ROUTE, Puppet, ask_for, code_of, exchange, result
from tests.server.web.pages import offered

REFUNDS = "POST /refunds/{id}"
FAILED: dict[str, Any] = {
    "status": "failed",
    "error": ErrorFacts(type="ValueError"),
    "result": None,
}
HTML = {"Accept": "text/html"}


class Replayed:
    """``default`` has four replays, each with a name; ``other`` has one that is like the first.

    ========  =====  ===========  =======  =========  ===
    name      app    environment  route    verdict    by
    ========  =====  ===========  =======  =========  ===
    same      shop   staging      orders   identical  ann
    changed   shop   staging      orders   diverged   bob
    worse     shop   dev          orders   regressed  ann
    refused   pay    staging      refunds  (none)     bob
    ========  =====  ===========  =======  =========  ===
    """

    def __init__(self, house: House) -> None:
        self.house = house
        house.tenant("other")
        for tenant in ("default", "other"):
            for name in ("staging", "dev"):
                house.environment(name, tenant=tenant)
        self.names: dict[str, str] = {}
        self.ann, self.bob = self._person("ann"), self._person("bob")
        shop = Puppet(house, agent_id="shop-s")
        self._replay("same", shop, self.ann)
        self._replay("changed", shop, self.bob, result=result(11))
        self._replay(
            "worse", Puppet(house, agent_id="shop-d", environment="dev"), self.ann, **FAILED
        )
        self._replay("refused", Puppet(house, agent_id="pay-s", app="pay"), self.bob, REFUNDS)
        self.stranger = self._person("ann", "other")
        foreign = Puppet(house, agent_id="foreign", tenant="other")
        self._replay("foreign", foreign, self.stranger)

    def _person(self, name: str, tenant: str = "default") -> httpx.Client:
        owner = self.house.user(f"{name}@example.com", "replayer", tenant=tenant)
        return self.house.client(self.house.key(tenant=tenant, owner=owner))

    def _replay(
        self, name: str, agent: Puppet, who: httpx.Client, route: str = "orders", **came: Any
    ) -> None:
        told = msgspec.structs.replace(ROUTE, route_id=route)
        assert agent.register(routes=[msgspec.to_builtins(told)]).status_code == 200
        agent.ingest(exchange(f"ex-{name}", route_id=route))
        self.house.clock.move(1)
        with agent.stream() as stream:
            asked = ask_for(who, f"ex-{name}")
            assert asked.status_code == 202, asked.text
            command = agent.read_command(stream.next()["data"])
            if name == "refused":
                assert agent.say(command.replay_id, "refused", code="busy").status_code == 204
            else:
                agent.run(command, route_id=route, **came)
        self.names[asked.json()["replayId"]] = name

    def found(self, client: httpx.Client, **query: str) -> list[str]:
        """The names of what a filter finds, in its order."""
        answer = client.get("/api/v1/replays", params=query)
        assert answer.status_code == 200, answer.text
        return [self.names[one["replayId"]] for one in answer.json()["items"]]

    def shown(self, client: httpx.Client, **query: str) -> list[str]:
        """The same from the page."""
        page = client.get("/replays", params=query, headers=HTML)
        assert page.status_code == 200, page.text
        return [self.names[one] for one in re.findall(r'href="/replays/(rpl_[^"]+)"', page.text)]


@pytest.fixture
def replayed(house: House) -> Replayed:
    return Replayed(house)


FOUND: list[tuple[dict[str, str], list[str]]] = [
    ({}, ["refused", "worse", "changed", "same"]),
    ({"app": "shop"}, ["worse", "changed", "same"]),
    ({"app": "pay"}, ["refused"]),
    ({"app": "sho"}, []),
    ({"environment": "dev"}, ["worse"]),
    ({"environment": "staging"}, ["refused", "changed", "same"]),
    ({"route": REFUNDS}, ["refused"]),
    ({"route": "orders"}, ["worse", "changed", "same"]),
    ({"verdict": "identical"}, ["same"]),
    ({"verdict": "diverged"}, ["changed"]),
    ({"verdict": "regressed"}, ["worse"]),
    ({"verdict": "fixed"}, []),
    ({"verdict": "equivalent"}, []),
    ({"by": "ann@example.com"}, ["worse", "same"]),
    ({"by": "bob@example.com"}, ["refused", "changed"]),
    ({"by": "ann"}, []),
    ({"state": "refused"}, ["refused"]),
    ({"state": "completed"}, ["worse", "changed", "same"]),
    ({"exchange": "ex-changed"}, ["changed"]),
    ({"app": "shop", "environment": "staging"}, ["changed", "same"]),
    ({"app": "shop", "by": "ann@example.com", "verdict": "regressed"}, ["worse"]),
    ({"app": "pay", "verdict": "identical"}, []),
    ({"by": "bob@example.com", "state": "refused", "route": REFUNDS}, ["refused"]),
    ({"by": "bob@example.com", "route": "orders"}, ["changed"]),
    ({"environment": "staging", "verdict": "regressed"}, []),
]


def test_each_filter_alone_and_together(replayed: Replayed) -> None:
    assert [(query, replayed.found(replayed.ann, **query)) for query, _ in FOUND] == FOUND
    assert [(query, replayed.shown(replayed.ann, **query)) for query, _ in FOUND] == FOUND


def test_a_filtered_list_goes_on_where_its_page_ended(replayed: Replayed) -> None:
    cursor: str | None = ""
    seen: list[str] = []
    while cursor is not None:
        asked = {"app": "shop", "state": "completed", "limit": "1", "cursor": cursor}
        page = replayed.ann.get("/api/v1/replays", params=asked).json()
        seen += [replayed.names[one["replayId"]] for one in page["items"]]
        cursor = page["next"]
    assert seen == ["worse", "changed", "same"]


def test_a_filter_does_not_show_what_one_may_not_see(replayed: Replayed) -> None:
    """Neither of another tenant, where names are the same, nor outside of a grant."""
    key, client = replayed.house.key, replayed.house.client
    dev, pay = Grant("viewer", environment="dev"), Grant("viewer", app="pay")
    may = {
        client(key(Grant("viewer", environment="staging", app="shop"))): {"changed", "same"},
        client(key(dev)): {"worse"},
        client(key(dev, pay)): {"worse", "refused"},
    }
    nobody = client(key("agent:read"))
    for query, names in FOUND:
        for somebody, those in may.items():
            assert replayed.found(somebody, **query) == [one for one in names if one in those]
        alike = ["foreign"] if "same" in names else []
        assert replayed.found(replayed.stranger, **query) == alike
        assert code_of(nobody.get("/api/v1/replays", params=query)) == (403, "permission_denied")
    for somebody, those in may.items():
        assert set(replayed.shown(somebody, by="ann@example.com")) == those & {"worse", "same"}
    assert replayed.shown(replayed.stranger, by="ann@example.com") == ["foreign"]


@pytest.mark.parametrize(
    "place, name, words",
    [
        ("replays", "verdict", "identical, "),
        ("replays", "state", "requested, "),
        ("exchanges", "status", "completed, "),
    ],
)
def test_a_word_that_is_none_of_them_is_told(
    house: House, place: str, name: str, words: str
) -> None:
    client = house.client(house.key("viewer"))
    for value in ("nonsense", "IDENTICAL", " ", "completed,failed"):
        answer = client.get(f"/api/v1/{place}", params={name: value})
        assert code_of(answer) == (422, "invalid")
        assert answer.json()["error"]["details"]["field"] == name
        assert f"{name} is one of {words}" in answer.json()["error"]["message"]
        page = client.get(f"/{place}", params={name: value}, headers=HTML)
        assert page.status_code == 422
        assert f"{name} is one of {words}" in page.text


def test_the_page_offers_what_it_has_found(replayed: Replayed) -> None:
    page = replayed.ann.get("/replays", params={"by": "bob@example.com"}, headers=HTML).text
    assert {name: offered(page, name) for name in ("app", "environment", "route", "by")} == {
        "app": ["pay", "shop"],
        "environment": ["dev", "staging"],
        "route": [REFUNDS, "orders"],
        "by": ["bob@example.com"],
    }
    assert offered(page, "verdict") == []
    assert 'value="bob@example.com"' in re.findall(r'<input[^>]*name="by"[^>]*>', page)[0]
    assert re.findall(r'<td data-head="Verdict">(.*?)</td>', page)[0] == "", "no lonely dash"
    more = "<details open><summary>More filters"
    assert more in page, "what was asked for is not hidden"
    assert more not in replayed.ann.get("/replays?app=shop", headers=HTML).text
