"""The forms that a browser gets: they work without scripts, and take everything for text."""

from __future__ import annotations

import re

import pytest

from tests.server.house import PASSWORD, House, token_of
from tests.server.web.pages import Form, send


def test_from_the_printed_link_to_a_session_and_out_again(house: House) -> None:
    client = house.client()
    form = Form(client.get(f"/setup?token={house.setup_token}"))
    made = send(client, form, email="ada@example.com", password=PASSWORD)
    assert (made.status_code, made.headers["location"]) == (303, "/")
    start = client.get("/", follow_redirects=True)
    assert start.url.path == "/exchanges"
    assert "ada@example.com" in start.text
    out = send(client, Form(start))
    assert (out.status_code, out.headers["location"]) == (303, "/signin")
    assert client.get("/").headers["location"] == "/signin"
    signed = send(client, Form(client.get("/signin")), email="ada@example.com", password=PASSWORD)
    assert (signed.status_code, signed.headers["location"]) == (303, "/")
    actions = [one["action"] for one in house.records()]
    assert actions.count("session.opened") == 2


def test_an_invitation_in_a_browser(house: House) -> None:
    admin = house.client(house.key("tenant admin"))
    link = admin.post("/api/v1/users", json={"email": "bob@example.com"}).json()["link"]
    client = house.client()
    form = Form(client.get(f"/invite?token={token_of(link)}"))
    short = send(client, form, password="short")
    assert short.status_code == 422
    assert "10 to 1000 characters" in short.text
    assert send(client, Form(short), password=PASSWORD).headers["location"] == "/"
    assert "bob@example.com" in client.get("/").text
    assert client.get(f"/invite?token={token_of(link)}").status_code == 410
    assert send(client, form, password=PASSWORD).status_code == 410


def test_a_wrong_password_is_told_on_the_page(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    answer = send(client, Form(client.get("/signin")), email="ada@example.com", password="x")
    assert answer.status_code == 401
    assert "wrong" in answer.text
    assert "reenact" not in client.cookies


def test_a_tenant_is_asked_for_only_where_it_is_needed(house: House) -> None:
    house.tenant("other")
    for tenant in ("default", "other"):
        house.user("ada@example.com", tenant=tenant)
    client = house.client()
    form = Form(client.get("/signin"))
    assert "tenant" not in form.fields
    asked = send(client, form, email="ada@example.com", password=PASSWORD)
    again = Form(asked)
    assert again.fields["email"] == "ada@example.com"
    assert again.fields["password"] == ""
    assert re.findall('<option value="([^"]*)"', asked.text) == ["default", "other"]
    wrong = send(client, again, email="ada@example.com", password="no")
    assert "<option" not in wrong.text  # who does not know the password is told nothing
    answer = send(client, again, email="ada@example.com", password=PASSWORD, tenant="other")
    assert answer.status_code == 303


def test_used_links_say_so(house: House) -> None:
    for path in ("/setup", "/setup?token=x", "/invite", "/invite?token=x"):
        answer = house.client().get(path)
        assert answer.status_code == 410
        assert "form" not in Form(answer).tags


def test_what_is_put_into_a_page_is_text(house: House) -> None:
    evil = '"><script>alert(1)</script>'
    form = {"token": evil, "email": "a@b.c", "password": PASSWORD}
    answer = house.client().post("/setup", data=form)
    assert answer.status_code == 403
    assert "<script>" not in answer.text
    assert Form(answer).fields["token"] == evil


@pytest.mark.parametrize("path", ["/signin", "/setup", "/invite"])
def test_the_policy_lets_nothing_else_in(house: House, path: str) -> None:
    answer = house.client().get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.text.count("<script") == 1
    assert '<script type="module" src="/static/' in answer.text


@pytest.mark.parametrize("path", ["/signin", "/setup", "/invite", "/signout"])
def test_another_site_sends_no_forms(house: House, path: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    answer = house.client().post(path, data={"email": "a@b"}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "csrf_failed")


def test_signing_out_needs_the_token_of_the_form(house: House) -> None:
    house.user("ada@example.com")
    client = house.client()
    send(client, Form(client.get("/signin")), email="ada@example.com", password=PASSWORD)
    assert client.post("/signout", data={"csrf": "0" * 64}).status_code == 403
    assert client.get("/").status_code == 200


def test_a_form_is_a_form(house: House) -> None:
    client = house.client()
    assert client.post("/signin", json={}).status_code == 415
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/signin", content="a=&" * 3_000, headers=headers).status_code == 400
    assert client.post("/signin", data={"email": "x" * 20_000}).status_code == 413
