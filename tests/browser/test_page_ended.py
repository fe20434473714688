"""A session that ends while a form is filled in: nothing is done, and nothing that was typed is lost."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.browser.conftest import Page
from tests.browser.desk import EMAIL, Desk
from tests.browser.reading import flaws_of, unfold, violations_of
from tests.server.house import PASSWORD

TYPED = '{"amount": 6, "note": "<b>ä & \\" €</b>"}'


def end_session(ada: Desk) -> None:
    ada.house.clock.move(3 * 3600)
    for agent in (ada.agent, ada.live):
        agent.heartbeat()


def sign_in_here(page: Any, password: str = PASSWORD) -> None:
    page.get_by_label("E-mail address").fill(EMAIL)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_the_form_of_a_replay_comes_back_as_it_was(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    page.locator("#body").fill(TYPED)
    page.get_by_label("Reason").fill("after the fix")
    page.locator("[name=header-name]").last.fill("X-Extra")
    page.locator("[name=header-value]").nth(3).fill("yes")
    end_session(ada)
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_text("Your session has ended").wait_for()
    assert "Nothing was done" in ada.text()
    unfold(page)
    assert [*flaws_of(page), *violations_of(page)] == []
    sign_in_here(page, "wrong")
    page.get_by_text("password is wrong").wait_for()
    sign_in_here(page)
    page.wait_for_url("**/replay/preview")
    assert page.locator("#body").input_value() == TYPED
    assert page.get_by_label("Reason").input_value() == "after the fix"
    assert ada.house.records("replay.requested") == []
    page.get_by_role("button", name="Replay", exact=True).click()
    page.wait_for_url(re.compile("/replays/"))
    ada.run_it()
    page.locator(".verdict").wait_for()
    [asked] = ada.house.records("replay.requested")
    assert asked["reason"] == "after the fix"
    client = ada.house.client(ada.house.key("viewer"))
    [replay] = client.get("/api/v1/replays").json()["items"]
    done = client.get(f"/api/v1/exchanges/{replay['exchangeId']}").json()
    assert json.loads(done["start"]["body"]["text"]) == json.loads(TYPED)


def test_any_other_form_is_looked_at_and_sent_again(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/people")
    page.locator("main").get_by_label("E-mail address").fill("bob@example.com")
    end_session(ada)
    page.get_by_role("button", name="Invite", exact=True).click()
    page.get_by_text("Your session has ended").wait_for()
    sign_in_here(page)
    page.get_by_text("nothing was sent yet").wait_for()
    assert ada.house.records("user.created") == []
    page.get_by_text("What you sent").click()
    assert "bob@example.com" in ada.text()
    page.get_by_role("button", name="Send it now").click()
    page.locator(".once pre").wait_for()
    assert len(ada.house.records("user.created")) == 1


def test_without_scripts_there_is_a_button(ada: Desk, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    ada.page = Page(context.new_page())
    ada.sign_in()
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    page.locator("#body").fill(TYPED)
    end_session(ada)
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_text("What you sent").click()
    assert "amount" in ada.text()
    sign_in_here(page)
    page.get_by_role("button", name="Back to the form").click()
    assert page.locator("#body").input_value() == TYPED
    assert ada.house.records("replay.requested") == []
    context.close()


def test_who_signed_in_in_another_window_sends_it_once_more(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/people")
    page.locator("main").get_by_label("E-mail address").fill("bob@example.com")
    end_session(ada)
    other = page.context.new_page()
    other.goto(f"{ada.house.url}/signin")
    sign_in_here(other)
    other.wait_for_url(lambda url: "/signin" not in url)
    page.get_by_role("button", name="Invite", exact=True).click()
    page.get_by_text("csrf_failed").wait_for()
    assert ada.house.records("user.created") == []
    page.get_by_role("button", name="Send it once more").click()
    page.locator(".once pre").wait_for()
    assert len(ada.house.records("user.created")) == 1
