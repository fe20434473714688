"""Saved searches on pages, asked for without a browser: what cannot be, and what is others'."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.browser.recording import NAMED
from tests.server.house import START, House

HTML = {"Accept": "text/html"}


@pytest.fixture
def ada(house: House) -> httpx.Client:
    return house.client(house.key(owner=house.user("ada@example.com", "replayer")), **HTML)


@pytest.fixture
def bob(house: House) -> httpx.Client:
    return house.client(house.key(owner=house.user("bob@example.com", "viewer")), **HTML)


def save(client: httpx.Client, name: str, search: str = '{"status":"failed"}') -> httpx.Response:
    return client.post("/searches", data={"name": name, "search": search, "within": ""})


def names(client: httpx.Client) -> list[str]:
    found = client.get("/api/v1/searches", headers={"Accept": "application/json"}).json()
    return [one["name"] for one in found["items"]]


def test_what_cannot_be_saved_is_told(ada: httpx.Client) -> None:
    answer = save(ada, NAMED)
    assert answer.status_code == 422
    assert "letters, digits" in answer.text
    for search in ("{", "[]", '{"status": 1}', '{"nothing": "like this"}'):
        assert save(ada, "one", search).status_code == 422
    assert names(ada) == []


def test_a_name_that_is_taken_is_not_given_again(ada: httpx.Client) -> None:
    for name in ("one", "two"):
        assert save(ada, name).status_code == 303
    taken = ada.post("/searches/one/rename", data={"name": "two"})
    assert taken.status_code == 409
    assert "already" in taken.text
    assert ada.post("/searches/one/rename", data={"name": NAMED}).status_code == 422
    assert ada.post("/searches/three/rename", data={"name": "x"}).status_code == 404
    assert ada.post("/searches/one/rename", data={"name": "one"}).status_code == 303
    assert ada.post("/searches/one/rename", data={"name": "1 a-b.c"}).status_code == 303
    assert names(ada) == ["1 a-b.c", "two"]


def test_those_of_others_are_opened_and_not_changed(ada: httpx.Client, bob: httpx.Client) -> None:
    search = {"text": NAMED, "status": "failed", "since": START, "replay": False}
    assert save(ada, "hers", json.dumps(search)).status_code == 303
    found = bob.get("/searches").text
    assert "<img" not in found
    assert "&lt;img" in found
    assert "<button>Rename it" not in found
    place = re.search(r'href="(/exchanges[^"]*)"[^>]*>hers', found)
    assert place is not None
    opened = bob.get(place[1].replace("&amp;", "&"))
    assert opened.status_code == 200
    assert 'value="2026-09-21T14:13:20"' in opened.text
    for path in ("rename", "remove"):
        answer = bob.post(f"/searches/hers/{path}", data={"name": "his"})
        assert answer.status_code == 409
        assert "ada@example.com" in answer.text
    assert save(bob, "hers").status_code == 409
    assert names(bob) == ["hers"]


def test_a_saved_search_that_is_gone_is_not_replayed(ada: httpx.Client) -> None:
    assert ada.get("/batches/new", params={"saved": "gone"}).status_code == 404
    assert ada.post("/batches", data={"saved": "gone"}).status_code == 404
