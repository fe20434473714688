"""A form whose session has ended, as it is sent on: kept for its sender, and never sent by itself."""

from __future__ import annotations

import httpx
import pytest

from tests.server.house import PASSWORD, House
from tests.server.web.pages import Form, send

HTML = {"Accept": "text/html"}
EMAIL = "ada@example.com"


def signed_in(house: House) -> httpx.Client:
    house.user(EMAIL, "tenant admin")
    client = house.client(**HTML)
    send(client, Form(client.get("/signin")), email=EMAIL, password=PASSWORD)
    return client


def ended(house: House, client: httpx.Client, **fields: str) -> httpx.Response:
    house.clock.move(3 * 3600)
    headers = {"Sec-Fetch-Site": "same-origin"}
    return client.post("/people", data={"csrf": "old", **fields}, headers=headers)


def test_what_was_sent_is_given_back_and_not_done(house: House) -> None:
    client = signed_in(house)
    evil = '"><script>alert(1)</script>&=+'
    answer = ended(house, client, email="bob@example.com", note=evil)
    assert answer.status_code == 401
    assert "<script>alert" not in answer.text
    form = Form(answer)
    assert form.action == "/again"
    assert "csrf" not in form.fields["kept-fields"]
    again = send(client, form, email=EMAIL, password=PASSWORD)
    assert again.status_code == 200
    assert "<script>alert" not in again.text
    assert (Form(again).action, Form(again).fields["note"]) == ("/people", evil)
    assert house.records("user.created") == []


@pytest.mark.parametrize(
    "action", ["//evil.example/x", "/\\evil.example", "https://evil.example/", "/a?b=c", "", "x"]
)
def test_it_leads_nowhere_else(house: House, action: str) -> None:
    signed_in(house)
    form = {"kept-action": action, "kept-fields": "a=b", "email": EMAIL, "password": PASSWORD}
    answer = house.client(**HTML).post("/again", data=form)
    assert answer.status_code == 400
    assert "evil" not in answer.text


def test_a_wrong_password_keeps_it_and_is_counted(house: House) -> None:
    client = signed_in(house)
    form = Form(ended(house, client, email="bob@example.com"))
    wrong = send(client, form, email=EMAIL, password="wrong")
    assert wrong.status_code == 401
    assert Form(wrong).fields["kept-fields"] == form.fields["kept-fields"]
    answers = {send(client, form, email=EMAIL, password="wrong").status_code for _ in range(12)}
    assert answers == {401, 429}


def test_another_site_is_given_nothing(house: House) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", **HTML}
    client = house.client()
    asked = client.post("/people", data={"email": "bob@example.com"}, headers=headers)
    assert asked.status_code == 401
    assert "bob@example.com" not in asked.text
    form = {"kept-action": "/people", "kept-fields": "email=bob"}
    assert client.post("/again", data=form, headers=headers).status_code == 403


def test_what_is_too_large_is_said_not_to_be_kept(house: House) -> None:
    answer = ended(house, signed_in(house), note="x" * (2 << 20))
    assert answer.status_code == 401
    assert "too large to be stored" in answer.text


def test_programs_are_answered_as_ever(house: House) -> None:
    answer = house.client().post("/people", data={"email": "bob@example.com"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
