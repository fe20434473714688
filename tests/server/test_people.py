"""Users, invitations, grants and keys."""

from __future__ import annotations

import httpx
import pytest

from reenact.server.auth.permissions import Grant
from tests.server.house import PASSWORD, START, House, token_of


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["error"]["code"]
    return found


def test_an_invitation_is_followed_once(house: House) -> None:
    admin = house.client(house.key("tenant admin"))
    invited = admin.post("/api/v1/users", json={"email": "bob@example.com"})
    assert invited.status_code == 201
    assert invited.json()["link"].startswith(f"{house.url}/invite?token=")
    assert admin.get("/api/v1/users").json()["items"][0]["state"] == "invited"
    taken = {"token": token_of(invited.json()["link"]), "password": PASSWORD}
    client = house.client()
    assert client.post("/api/v1/invite", json=taken).json()["id"] == invited.json()["id"]
    assert code(client.post("/api/v1/invite", json=taken)) == "gone"
    asked = {"email": "bob@example.com", "password": PASSWORD}
    assert client.post("/api/v1/session", json=asked).status_code == 201
    actions = [record["action"] for record in house.records()[1:]]
    assert actions == ["user.created", "user.changed", "session.opened"]


def test_an_invitation_does_not_last_for_ever(house: House) -> None:
    admin = house.client(house.key("tenant admin"))
    link = admin.post("/api/v1/users", json={"email": "bob@example.com"}).json()["link"]
    house.clock.move(house.server.timings.invitation)
    taken = {"token": token_of(link), "password": PASSWORD}
    assert code(house.client().post("/api/v1/invite", json=taken)) == "gone"


def test_another_invitation_ends_password_and_sessions(house: House) -> None:
    bob = house.user("bob@example.com")
    client = house.client()
    asked = {"email": "bob@example.com", "password": PASSWORD}
    client.post("/api/v1/session", json=asked)
    admin = house.client(house.key("tenant admin"))
    again = admin.post(f"/api/v1/users/{bob}/invite").json()
    assert code(client.get("/api/v1/session")) == "session_expired"
    assert code(client.post("/api/v1/session", json=asked)) == "credentials_wrong"
    taken = {"token": token_of(again["link"]), "password": PASSWORD}
    assert house.client().post("/api/v1/invite", json=taken).status_code == 201


def test_an_address_is_there_once(house: House) -> None:
    admin = house.client(house.key("tenant admin"))
    assert admin.post("/api/v1/users", json={"email": "bob@example.com"}).status_code == 201
    again = admin.post("/api/v1/users", json={"email": " BOB@example.com"})
    assert (again.status_code, code(again)) == (409, "conflict")


@pytest.mark.parametrize("email", ["", "bob", "a@b@c", "a b@c", "@", "x@" + "y" * 300, "a\n@b"])
def test_what_is_no_address_is_refused(house: House, email: str) -> None:
    admin = house.client(house.key("tenant admin"))
    assert code(admin.post("/api/v1/users", json={"email": email})) == "invalid"


def test_grants_hold_at_once_and_end_at_once(house: House) -> None:
    house.user("root@example.com", "tenant admin")
    bob = house.user("bob@example.com")
    own = house.client(house.key(owner=bob))
    admin = house.client(house.key("tenant admin"))
    assert code(own.get("/api/v1/users")) == "permission_denied"
    grant = admin.post(f"/api/v1/users/{bob}/grants", json={"role": "tenant admin"})
    assert grant.status_code == 201
    assert own.get("/api/v1/users").status_code == 200
    gone = admin.delete(f"/api/v1/users/{bob}/grants/{grant.json()['id']}")
    assert gone.status_code == 204
    assert code(own.get("/api/v1/users")) == "permission_denied"
    actions = [record["action"] for record in house.records()[1:]]
    assert actions == ["access.denied", "role.granted", "role.revoked", "access.denied"]
    assert house.records("role.granted")[0]["details"]["what"] == "tenant admin"


def test_a_grant_ends_when_it_says(house: House) -> None:
    bob = house.user("bob@example.com")
    own = house.client(house.key(owner=bob))
    admin = house.client(house.key("tenant admin"))
    asked = {"role": "tenant:admin", "expiresAt": START + 10_000}
    assert admin.post(f"/api/v1/users/{bob}/grants", json=asked).status_code == 201
    assert own.get("/api/v1/keys").status_code == 200
    house.clock.move(10)
    assert code(own.get("/api/v1/keys")) == "permission_denied"


@pytest.mark.parametrize(
    "asked",
    [
        {"role": "agent key"},
        {"role": "agent:connect"},
        {"role": "*"},
        {"role": "replay:execute:*"},
        {"role": ""},
        {"role": "viewer", "expiresAt": START},
        {"role": "viewer", "expiresAt": -1},
        {"role": "viewer", "environment": "e" * 201},
        {"role": "viewer", "tenant": "other"},
        {"role": ["viewer"]},
    ],
)
def test_what_cannot_be_granted(house: House, asked: dict[str, object]) -> None:
    bob = house.user("bob@example.com")
    admin = house.client(house.key("tenant admin", "platform admin"))
    assert code(admin.post(f"/api/v1/users/{bob}/grants", json=asked)) == "invalid"
    assert admin.get("/api/v1/users").json()["items"][0]["grants"] == []


@pytest.mark.parametrize("role", ["platform admin", "platform:admin"])
def test_a_tenant_administrator_makes_no_platform_administrator(house: House, role: str) -> None:
    bob = house.user("bob@example.com")
    admin = house.client(house.key("tenant admin"))
    assert code(admin.post(f"/api/v1/users/{bob}/grants", json={"role": role})) == (
        "permission_denied"
    )
    key = {"kind": "user", "name": "k", "grants": [{"role": role}]}
    assert code(admin.post("/api/v1/keys", json=key)) == "permission_denied"
    both = house.client(house.key("tenant admin", "platform admin"))
    assert both.post(f"/api/v1/users/{bob}/grants", json={"role": role}).status_code == 201


def test_a_tenant_administrator_cannot_take_over_a_platform_administrator(house: House) -> None:
    root = house.user("root@example.com", "platform admin", "tenant admin")
    admin = house.client(house.key("tenant admin"))
    grant = admin.get("/api/v1/users").json()["items"][0]["grants"][0]["id"]
    for answer in (
        admin.post(f"/api/v1/users/{root}/invite"),
        admin.delete(f"/api/v1/users/{root}"),
        admin.delete(f"/api/v1/users/{root}/grants/{grant}"),
    ):
        assert (answer.status_code, code(answer)) == (403, "permission_denied")


def test_the_last_administrator_stays(house: House) -> None:
    ada = house.user("ada@example.com", "tenant admin")
    admin = house.client(house.key("tenant admin"))
    grant = admin.get("/api/v1/users").json()["items"][0]["grants"][0]["id"]
    for answer in (
        admin.delete(f"/api/v1/users/{ada}"),
        admin.delete(f"/api/v1/users/{ada}/grants/{grant}"),
    ):
        assert (answer.status_code, code(answer)) == (409, "conflict")
    assert admin.get("/api/v1/users").json()["items"][0]["grants"][0]["id"] == grant
    house.user("bob@example.com", "tenant admin")
    assert admin.delete(f"/api/v1/users/{ada}").status_code == 204


def test_a_key_works_until_it_is_revoked(house: House) -> None:
    admin = house.client(house.key("tenant admin"))
    asked = {"kind": "user", "name": "ci", "grants": [{"role": "tenant admin"}]}
    made = admin.post("/api/v1/keys", json=asked).json()
    assert made["key"].startswith("rnk_user_")
    other = house.client(made["key"])
    assert other.get("/api/v1/session").json()["actor"]["type"] == "key"
    listed = {key["id"]: key for key in admin.get("/api/v1/keys").json()["items"]}
    assert listed[made["id"]]["lastUsedAt"] == START
    assert "key" not in listed[made["id"]]
    assert "hash" not in listed[made["id"]]
    assert admin.delete(f"/api/v1/keys/{made['id']}").status_code == 204
    assert code(other.get("/api/v1/session")) == "unauthenticated"
    assert code(admin.delete(f"/api/v1/keys/{made['id']}")) == "not_found"
    assert [record["action"] for record in house.records()[1:]] == ["key.created", "key.revoked"]


def test_a_key_ends_when_it_says(house: House) -> None:
    key = house.client(house.key("viewer", expires_at=START + 1000))
    assert key.get("/api/v1/session").status_code == 200
    house.clock.move(1)
    assert code(key.get("/api/v1/session")) == "unauthenticated"


def test_a_key_of_ones_own_does_what_its_owner_can(house: House) -> None:
    ada = house.user("ada@example.com", "tenant admin")
    client = house.client()
    asked = {"email": "ada@example.com", "password": PASSWORD}
    token = client.post("/api/v1/session", json=asked).json()["csrfToken"]
    made = client.post("/api/v1/keys/own", json={}, headers={"X-CSRF-Token": token})
    assert made.status_code == 201
    own = house.client(made.json()["key"])
    shown = own.get("/api/v1/session").json()
    assert (shown["actor"]["id"], shown["csrfToken"]) == (ada, "")
    assert own.get("/api/v1/users").status_code == 200
    assert code(own.post("/api/v1/keys/own", json={})) == "permission_denied"
    assert own.delete("/api/v1/keys/own").status_code == 204
    assert code(own.get("/api/v1/session")) == "unauthenticated"


def test_keys_go_with_their_owner(house: House) -> None:
    house.user("root@example.com", "tenant admin")
    bob = house.user("bob@example.com", "viewer")
    own = house.client(house.key(owner=bob))
    assert own.get("/api/v1/session").status_code == 200
    assert house.client(house.key("tenant admin")).delete(f"/api/v1/users/{bob}").status_code == 204
    assert code(own.get("/api/v1/session")) == "unauthenticated"


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "agent", "name": "a"},
        {"kind": "agent", "name": "a", "app": "shop"},
        {
            "kind": "agent",
            "name": "a",
            "app": "s",
            "environment": "e",
            "grants": [{"role": "viewer"}],
        },
        {"kind": "user", "name": "a"},
        {"kind": "user", "name": "", "grants": [{"role": "viewer"}]},
        {"kind": "user", "name": "a", "app": "shop", "grants": [{"role": "viewer"}]},
        {"kind": "root", "name": "a"},
    ],
)
def test_keys_that_make_no_sense(house: House, asked: dict[str, object]) -> None:
    admin = house.client(house.key("tenant admin"))
    assert code(admin.post("/api/v1/keys", json=asked)) == "invalid"
    assert len(admin.get("/api/v1/keys").json()["items"]) == 1


def test_a_limited_administrator_does_not_administer_the_tenant(house: House) -> None:
    limited = house.client(house.key(Grant("tenant admin", environment="staging")))
    for path in ("users", "keys", "audit/records"):
        assert code(limited.get(f"/api/v1/{path}")) == "permission_denied"


def test_lists_come_in_parts(house: House) -> None:
    for number in range(5):
        house.clock.move(1)
        house.user(f"{number}@example.com")
    admin = house.client(house.key("tenant admin"))
    found, cursor = [], ""
    while cursor is not None:
        part = admin.get("/api/v1/users", params={"limit": 2, "cursor": cursor}).json()
        found += [user["email"][0] for user in part["items"]]
        cursor = part["next"]
    assert found == ["4", "3", "2", "1", "0"]
