"""Saved searches, and batches of them."""

from __future__ import annotations

import httpx

from tests.server.batches.following import planned
from tests.server.house import START, House
from tests.server.traffic.puppet import Puppet, code_of, exchange

PATH = "/api/v1/searches"


def test_a_search_is_saved_and_replayed_as_a_batch(agent: Puppet, operator: httpx.Client) -> None:
    agent.ingest(exchange("bad", status="failed"))
    answer = operator.put(f"{PATH}/failed orders", json={"status": "failed", "app": "shop"})
    assert answer.status_code == 200
    assert answer.json()["filters"] == {"status": "failed", "app": "shop"}
    assert [one["name"] for one in operator.get(PATH).json()["items"]] == ["failed orders"]
    batch = planned(operator, saved="failed orders")
    assert (batch["plan"]["exchanges"], batch["saved"]) == (1, "failed orders")
    assert batch["search"] == {"status": "failed", "app": "shop"}


def test_within_counts_back_from_when_it_is_used(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    operator.put(f"{PATH}/lately", json={"within": 3_600_000})
    assert planned(operator, saved="lately")["plan"]["exchanges"] == 6
    house.clock.move(7200)
    agent.ingest(exchange("new", started_at=START + 7_000_000))
    assert planned(operator, saved="lately")["plan"]["exchanges"] == 1


def test_nobody_replaces_the_search_of_somebody_else(house: House, operator: httpx.Client) -> None:
    operator.put(f"{PATH}/mine", json={"app": "shop"})
    other = house.client(house.key("viewer"))
    assert other.get(f"{PATH}/mine").json()["filters"] == {"app": "shop"}
    assert code_of(other.put(f"{PATH}/mine", json={})) == (409, "conflict")
    assert code_of(other.delete(f"{PATH}/mine")) == (409, "conflict")
    admin = house.client(house.key("tenant admin"))
    assert admin.delete(f"{PATH}/mine").status_code == 204
    assert code_of(operator.get(f"{PATH}/mine")) == (404, "not_found")
    assert code_of(operator.delete(f"{PATH}/mine")) == (404, "not_found")


def test_searches_come_in_pieces_and_belong_to_a_tenant(
    house: House, operator: httpx.Client
) -> None:
    for name in ("b", "a", "c"):
        operator.put(f"{PATH}/{name}", json={})
    first = operator.get(PATH, params={"limit": 2}).json()
    assert [one["name"] for one in first["items"]] == ["a", "b"]
    rest = operator.get(PATH, params={"cursor": first["next"]}).json()
    assert [one["name"] for one in rest["items"]] == ["c"]
    house.tenant("other")
    stranger = house.client(house.key("viewer", tenant="other"))
    assert stranger.get(PATH).json()["items"] == []


def test_bad_names_and_filters_are_refused(operator: httpx.Client) -> None:
    assert code_of(operator.put(f"{PATH}/.hidden", json={})) == (422, "invalid")
    assert code_of(operator.put(f"{PATH}/x", json={"since": -1})) == (422, "invalid")
