"""Signing in and out, and everything that must not get in."""

from __future__ import annotations

import sqlite3

import httpx
import pytest

from reenact.server.auth.sign_in import ACCOUNT, ADDRESS
from tests.server.house import PASSWORD, House


def sign_in(client: httpx.Client, email: str = "ada@example.com", **more: str) -> httpx.Response:
    asked = {"email": email, "password": PASSWORD, **more}
    return client.post("/api/v1/session", json=asked)


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["error"]["code"]
    return found


def test_a_session_from_beginning_to_end(house: House) -> None:
    user = house.user("ada@example.com", "viewer")
    client = house.client()
    opened = sign_in(client)
    assert opened.status_code == 201
    shown = client.get("/api/v1/session").json()
    assert shown == opened.json()
    assert shown["actor"] == {"type": "user", "id": user, "name": "ada@example.com"}
    token = {"X-CSRF-Token": shown["csrfToken"]}
    assert client.delete("/api/v1/session", headers=token).status_code == 204
    assert "reenact" not in client.cookies
    assert code(client.get("/api/v1/session")) == "unauthenticated"
    actions = [record["action"] for record in house.records()]
    assert actions == ["log.opened", "session.opened", "session.closed"]


def test_a_closed_session_is_closed_for_every_copy_of_its_cookie(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    token = sign_in(client).json()["csrfToken"]
    copy = house.client(Cookie=f"reenact={client.cookies['reenact']}")
    assert copy.get("/api/v1/session").status_code == 200
    client.delete("/api/v1/session", headers={"X-CSRF-Token": token})
    assert code(copy.get("/api/v1/session")) == "session_expired"


def test_the_cookie_is_for_the_server_only(house: House) -> None:
    house.user("ada@example.com")
    cookie = sign_in(house.client()).headers["set-cookie"]
    assert cookie.startswith("reenact=")
    for part in ("HttpOnly", "Path=/", "SameSite=lax"):
        assert part in cookie
    assert "Domain" not in cookie


def test_signing_in_again_changes_the_secret_and_ends_the_old_one(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    sign_in(client)
    old = client.cookies["reenact"]
    sign_in(client)
    assert client.cookies["reenact"] != old
    assert code(house.client(Cookie=f"reenact={old}").get("/api/v1/session")) == "session_expired"


def test_a_session_that_nobody_uses_ends(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    sign_in(client)
    house.clock.move(house.server.timings.session_idle - 1)
    assert client.get("/api/v1/session").status_code == 200
    house.clock.move(house.server.timings.session_idle - 1)
    assert client.get("/api/v1/session").status_code == 200
    house.clock.move(house.server.timings.session_idle + 1)
    assert code(client.get("/api/v1/session")) == "session_expired"


def test_a_session_ends_however_much_it_is_used(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    sign_in(client)
    step = house.server.timings.session_idle - 1
    for _ in range(int(house.server.timings.session_longest / step)):
        assert client.get("/api/v1/session").status_code == 200
        house.clock.move(step)
    house.clock.move(step)
    assert code(client.get("/api/v1/session")) == "session_expired"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-origin, none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "0" * 64},
    ],
)
def test_another_site_cannot_use_a_session(house: House, headers: dict[str, str]) -> None:
    house.user("ada@example.com", "tenant admin")
    client = house.client()
    good = {"X-CSRF-Token": sign_in(client).json()["csrfToken"]}
    answer = client.post("/api/v1/users", json={"email": "eve@x.y"}, headers=good | headers)
    assert (answer.status_code, code(answer)) == (403, "csrf_failed")
    assert [user["email"] for user in client.get("/api/v1/users").json()["items"]] == [
        "ada@example.com"
    ]
    assert house.records()[-1]["action"] == "access.denied"
    assert house.records()[-1]["code"] == "csrf_failed"


@pytest.mark.parametrize(
    "headers", [{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": ""}]
)
def test_the_own_site_can(house: House, headers: dict[str, str]) -> None:
    house.user("ada@example.com", "tenant admin")
    client = house.client()
    if "Origin" in headers:
        headers = {"Origin": house.url}
    good = {"X-CSRF-Token": sign_in(client).json()["csrfToken"]}
    answer = client.post("/api/v1/users", json={"email": "eve@x.y"}, headers=good | headers)
    assert answer.status_code == 201


def test_another_site_cannot_sign_somebody_in(house: House) -> None:
    house.user("ada@example.com")
    client = house.client(**{"Sec-Fetch-Site": "cross-site"})
    assert code(sign_in(client)) == "csrf_failed"
    assert "reenact" not in client.cookies


def test_wrong_passwords_and_unknown_accounts_look_the_same(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    answers = [sign_in(client, password="wrong wrong"), sign_in(client, "bob@example.com")]
    errors = [answer.json()["error"] | {"requestId": ""} for answer in answers]
    assert errors[0] == errors[1]
    assert {answer.status_code for answer in answers} == {401}
    refused = house.records("session.refused")
    assert [record["subject"]["type"] for record in refused] == ["user"]


def test_an_account_without_a_password_cannot_be_signed_in_to(house: House) -> None:
    house.user("ada@example.com", password="")
    for password in ("", PASSWORD):
        assert code(sign_in(house.client(), password=password)) == "credentials_wrong"


def test_many_wrong_passwords_have_to_wait_and_a_good_one_ends_it(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    for _ in range(ACCOUNT):
        assert code(sign_in(client, password="wrong wrong")) == "credentials_wrong"
    answer = sign_in(client)  # also the right one
    assert (answer.status_code, code(answer)) == (429, "rate_limited")
    assert answer.headers["retry-after"] == "1"
    house.clock.move(1)
    assert code(sign_in(client, password="wrong wrong")) == "credentials_wrong"
    assert sign_in(client).headers["retry-after"] == "2"
    house.clock.move(2)
    assert sign_in(client).status_code == 201
    for _ in range(ACCOUNT):
        assert code(sign_in(client, password="wrong wrong")) == "credentials_wrong"


def test_an_unknown_account_is_throttled_alike(house: House) -> None:
    client = house.client()
    found = [code(sign_in(client, "nobody@example.com")) for _ in range(ACCOUNT + 1)]
    assert found == ["credentials_wrong"] * ACCOUNT + ["rate_limited"]


def test_an_address_that_tries_many_accounts_has_to_wait(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    for number in range(ADDRESS):
        assert code(sign_in(client, f"{number}@example.com")) == "credentials_wrong"
    assert code(sign_in(client)) == "rate_limited"


def test_people_behind_one_address_do_not_lock_each_other_out(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    assert {sign_in(client).status_code for _ in range(ADDRESS + 5)} == {201}


def test_failures_are_forgotten_after_a_while(house: House) -> None:
    client = house.client()
    for _ in range(ACCOUNT - 1):
        sign_in(client, "nobody@example.com")
    house.clock.move(3601)
    found = [code(sign_in(client, "nobody@example.com")) for _ in range(ACCOUNT)]
    assert found == ["credentials_wrong"] * ACCOUNT


def test_an_address_in_several_tenants_says_which(house: House) -> None:
    house.tenant("other")
    house.user("ada@example.com")
    house.user("ada@example.com", tenant="other")
    answer = sign_in(house.client())
    assert code(answer) == "invalid"
    assert answer.json()["error"]["details"] == {"tenants": ["default", "other"]}
    assert sign_in(house.client(), tenant="other").json()["tenant"]["id"] == "other"


def test_sign_in_finds_a_tenant_by_its_name(house: House) -> None:
    admin = house.client(house.key("platform admin"))
    asked = {"name": "acme corp", "admin": "ada@example.com"}
    made = admin.post("/api/v1/tenants", json=asked).json()
    token = made["admin"]["link"].partition("token=")[2]
    taken = {"token": token, "password": PASSWORD}
    assert house.client().post("/api/v1/invite", json=taken).status_code == 201
    house.user("ada@example.com")
    refused = sign_in(house.client()).json()["error"]
    assert "acme corp" in refused["message"]
    signed = sign_in(house.client(), tenant="acme corp")
    assert signed.json()["tenant"] == {"id": made["id"], "name": "acme corp"}
    assert code(sign_in(house.client(), tenant="acme")) == "credentials_wrong"


def test_a_removed_account_has_no_session(house: House) -> None:
    house.user("ada@example.com", "tenant admin")
    bob = house.user("bob@example.com")
    client = house.client()
    sign_in(client, "bob@example.com")
    admin = house.client(house.key("tenant admin"))
    assert admin.delete(f"/api/v1/users/{bob}").status_code == 204
    assert code(client.get("/api/v1/session")) == "session_expired"
    assert code(sign_in(house.client(), "bob@example.com")) == "credentials_wrong"


@pytest.mark.sqlite_file
def test_nothing_of_a_session_is_in_the_database(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    token = sign_in(client).json()["csrfToken"]
    raw = sqlite3.connect(house.server.data / "reenact.db")
    text = "\n".join(raw.iterdump())
    raw.close()
    for secret in (client.cookies["reenact"], token, PASSWORD):
        assert secret not in text
