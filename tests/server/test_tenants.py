"""Tenants and environments."""

from __future__ import annotations

import httpx
import pytest

from tests.server.house import PASSWORD, House, token_of

pytestmark = pytest.mark.both_databases


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["error"]["code"]
    return found


def test_a_tenant_is_made_with_its_first_administrator(house: House) -> None:
    root = house.client(house.key("platform admin"))
    asked = {"name": "Acme", "tier": "high", "dedicated": True, "admin": "ada@acme.example"}
    made = root.post("/api/v1/tenants", json=asked)
    assert made.status_code == 201
    tenant = made.json()["id"]
    taken = {"token": token_of(made.json()["admin"]["link"]), "password": PASSWORD}
    client = house.client()
    assert client.post("/api/v1/invite", json=taken).json()["tenant"] == tenant
    signed = client.post(
        "/api/v1/session", json={"email": "ada@acme.example", "password": PASSWORD}
    ).json()
    assert signed["tenant"] == {"id": tenant, "name": "Acme"}
    assert [grant["role"] for grant in signed["grants"]] == ["tenant admin"]
    assert client.get("/api/v1/users").json()["items"][0]["email"] == "ada@acme.example"
    inside = [record["action"] for record in house.records(tenant=tenant)]
    assert inside == [
        "log.opened",
        "tenant.created",
        "user.created",
        "role.granted",
        "user.changed",
        "session.opened",
    ]
    assert [record["action"] for record in house.records()] == ["log.opened", "tenant.created"]


def test_a_change_of_tier_is_in_both_logs(house: House) -> None:
    house.tenant("acme", "low", dedicated=False)
    root = house.client(house.key("platform admin"))
    changed = root.patch("/api/v1/tenants/acme", json={"tier": "high", "dedicated": True})
    assert changed.json() == {"id": "acme", "name": "acme", "tier": "high", "dedicated": True}
    for tenant in ("acme", "default"):
        (record,) = house.records("tier.changed", tenant)
        assert (record["tier"], record["details"]["before"]) == ("high", "low")
        assert len(house.records("tenant.changed", tenant)) == 1
    root.patch("/api/v1/tenants/acme", json={"tier": "high"})
    assert len(house.records("tier.changed", "acme")) == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"name": ""},
        {"name": "../etc"},
        {"name": "a/b"},
        {"name": "ok", "tier": "platinum"},
        {"name": "ok", "dedicated": "yes"},
        {"name": "ok", "id": "default"},
        {"name": "ok", "admin": "no address"},
        {},
    ],
)
def test_tenants_that_make_no_sense(house: House, asked: dict[str, object]) -> None:
    root = house.client(house.key("platform admin"))
    assert code(root.post("/api/v1/tenants", json=asked)) == "invalid"
    assert [tenant["id"] for tenant in root.get("/api/v1/tenants").json()["items"]] == ["default"]


def test_what_is_not_listed_counts_as_production(house: House) -> None:
    admin = house.client(house.key("tenant admin"))
    assert admin.get("/api/v1/environments").json()["items"] == []
    answer = admin.put("/api/v1/environments/dev", json={"kind": "non-production"})
    assert answer.json() == {"name": "dev", "kind": "non-production"}
    admin.put("/api/v1/environments/live", json={"kind": "production"})
    admin.put("/api/v1/environments/live", json={"kind": "production"})
    assert [one["name"] for one in admin.get("/api/v1/environments").json()["items"]] == [
        "dev",
        "live",
    ]
    assert len(house.records("environment.changed")) == 3


@pytest.mark.parametrize("name", ["a b", "%2e%2e", "ä", "x" * 65])
def test_environments_that_make_no_sense(house: House, name: str) -> None:
    admin = house.client(house.key("tenant admin"))
    answer = admin.put(f"/api/v1/environments/{name}", json={"kind": "non-production"})
    assert answer.status_code in (404, 422)
    assert admin.get("/api/v1/environments").json()["items"] == []


def test_a_kind_is_one_of_two(house: House) -> None:
    admin = house.client(house.key("tenant admin"))
    assert code(admin.put("/api/v1/environments/dev", json={"kind": "test"})) == "invalid"
