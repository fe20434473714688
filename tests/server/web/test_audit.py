"""The audit log on pages says who it was, and finds them by what people call them."""

from __future__ import annotations

import re

import httpx

from tests.browser.recording import NAMED
from tests.server.house import House
from tests.server.traffic.puppet import Puppet, ask_for, exchange

HTML = {"Accept": "text/html"}


def rows(answer: httpx.Response) -> list[str]:
    body = answer.text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [re.sub("<[^>]*>", " ", row) for row in body.split("</tr>") if row]


def test_people_keys_and_apps_are_named(house: House) -> None:
    house.environment("staging")
    agent = Puppet(house)
    agent.register()
    agent.ingest(exchange())
    ada = house.user("ada@example.com", "replayer", "tenant admin")
    client = house.client(house.key(owner=ada), **HTML)
    assert ask_for(client).status_code == 202
    made = client.post(
        "/api/v1/keys", json={"kind": "agent", "name": "till", "app": "a", "environment": "b"}
    )
    assert made.status_code == 201
    found = client.get("/audit")
    replay = next(row for row in rows(found) if "replay.requested" in row)
    assert "ada@example.com" in replay
    assert "staging" in replay
    assert "shop" in replay
    key = next(row for row in rows(found) if "key.created" in row)
    assert "till" in key
    assert f'title="{ada} from 127.0.0.1"' in found.text
    seq = re.search(r'href="/audit/(\d+)"', found.text)
    assert seq is not None
    assert "ada@example.com" in client.get(f"/audit/{seq[1]}").text


def test_records_are_found_by_name(house: House) -> None:
    ada, eve = (house.user(f"{name}@example.com", "tenant admin") for name in ("ada", "eve"))
    clients = [house.client(house.key(owner=one), **HTML) for one in (ada, eve)]
    for number, client in enumerate(clients):
        client.put(f"/api/v1/environments/e{number}", json={"kind": "production"})
    for name in ("eve@example.com", eve):
        found = clients[0].get("/audit", params={"actor": name, "action": "environment.changed"})
        [row] = rows(found)
        assert "eve@example.com" in row
    assert rows(clients[0].get("/audit", params={"actor": "nobody@example.com"})) == []
    api = clients[0].get("/api/v1/audit/records", params={"actor": "eve@example.com"}).json()
    assert {one["record"]["actor"]["id"] for one in api["items"]} == {eve}


def test_who_is_gone_is_still_named(house: House) -> None:
    ada = house.user("ada@example.com", "tenant admin")
    bob = house.user("bob@example.com", "tenant admin")
    client = house.client(house.key(owner=ada), **HTML)
    assert client.delete(f"/api/v1/users/{bob}").status_code == 204
    removed = next(row for row in rows(client.get("/audit")) if "user.removed" in row)
    assert "bob@example.com" in removed


def test_hostile_names_are_text(house: House) -> None:
    ada = house.user("ada@example.com", "tenant admin")
    client = house.client(house.key(owner=ada), **HTML)
    key = {"kind": "agent", "name": NAMED, "app": "a", "environment": "b"}
    assert client.post("/api/v1/keys", json=key).status_code == 201
    found = client.get("/audit")
    assert "<img" not in found.text
    assert "&lt;img src=x" in found.text


def test_names_of_another_tenant_are_not_known(house: House) -> None:
    house.tenant("other")
    eve = house.user("eve@example.com", "tenant admin", tenant="other")
    house.client(house.key(owner=eve, tenant="other")).get("/api/v1/audit/records")
    ada = house.user("ada@example.com", "tenant admin")
    client = house.client(house.key(owner=ada), **HTML)
    assert rows(client.get("/audit", params={"actor": "eve@example.com"})) == []
