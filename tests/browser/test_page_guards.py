"""What must not happen on a page: others' data, dead sessions, lost connections, things done twice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from reenact.server.auth.permissions import Grant
from reenact.server.runtime import Timings
from tests.browser.conftest import Page
from tests.browser.desk import EMAIL, EVERYTHING, Desk, desk
from tests.browser.relay import relaying
from tests.server.house import PASSWORD
from tests.server.traffic.puppet import Puppet, exchange


def test_two_tenants_do_not_see_each_other(ada: Desk, browser: Any) -> None:
    house = ada.house
    house.tenant("other")
    house.user("eve@example.com", *EVERYTHING, tenant="other")
    mine = ada.ask_for_replay()
    context = browser.new_context()
    eve = Page(context.new_page())
    desk = ada.page
    ada.page = eve
    ada.sign_in("eve@example.com")
    for place in ("/exchanges", "/replays", "/agents", "/recordings", "/audit", "/people", "/keys"):
        ada.go(place)
        shown = eve.page.locator("main").inner_html()
        for secret in ("ex-1", mine, "agent-1", EMAIL, "orders"):
            assert secret not in shown, (place, secret)
    for place in ("/exchanges/ex-1", "/exchanges/ex-1/replay", f"/replays/{mine}"):
        ada.go(place)
        assert eve.texts("h1") == ["Not found"]
    ada.page = desk
    context.close()


def test_a_viewer_is_offered_nothing_that_they_may_not(ada: Desk, browser: Any) -> None:
    ada.house.user("bob@example.com", "viewer")
    context = browser.new_context()
    ada.page = Page(context.new_page())
    ada.sign_in("bob@example.com")
    sections = ada.page.texts("header nav a")
    assert sections == ["History", "Replays", "Batches", "Agents", "Recordings", "Environments"]
    ada.go("/exchanges/ex-1")
    assert ada.page.count("a.button.main") == 0
    ada.go("/exchanges/ex-1/replay")
    assert ada.page.texts("h1") == ["Not allowed"]
    assert "replay:execute" in ada.text()
    [denied] = ada.house.records("access.denied")
    assert denied["details"]["route"] == "GET /exchanges/{id}/replay"
    context.close()


def test_limits_of_a_grant_hold_on_pages(ada: Desk, browser: Any) -> None:
    Puppet(ada.house, agent_id="a-3", app="bank").register()
    ada.live.ingest(exchange("in-live"))
    ada.house.user("kim@example.com", Grant("viewer", environment="staging"))
    context = browser.new_context()
    ada.page = Page(context.new_page())
    ada.sign_in("kim@example.com")
    ada.go("/exchanges")
    assert ada.page.texts("td[data-head=Environment]") == ["staging"]
    ada.go("/exchanges/in-live")
    assert ada.page.texts("h1") == ["Not allowed"]
    context.close()


def test_a_session_that_has_ended_is_begun_again(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    ada.house.clock.move(3 * 3600)
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_text("Your session has ended").wait_for()
    assert "Nothing was done" in ada.text()
    assert ada.house.records("replay.requested") == []
    ada.go("/agents")
    page.get_by_label("E-mail address").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/agents")


def test_a_form_of_another_session_is_refused(ada: Desk) -> None:
    ada.go("/people")
    ada.page.page.evaluate(
        "document.querySelectorAll('[name=csrf]').forEach((one) => { one.value = '0'; })"
    )
    ada.page.page.locator("main").get_by_label("E-mail address").fill("eve@example.com")
    ada.page.page.get_by_role("button", name="Invite", exact=True).click()
    ada.page.page.get_by_text("Not allowed").wait_for()
    assert "csrf_failed" in ada.text()
    assert ada.house.records("user.created") == []


def test_another_site_cannot_send_a_form(ada: Desk) -> None:
    form = f"""<form method=post action="{ada.house.url}/people"><input name=email value=e@x.y></form>
    <script>document.forms[0].submit()</script>"""
    page = ada.page.page
    page.route(
        "http://elsewhere.example/",
        lambda route: route.fulfill(body=form, content_type="text/html"),
    )
    page.goto("http://elsewhere.example/")
    page.wait_for_url(f"{ada.house.url}/**")
    assert ada.house.records("user.created") == []
    assert "Invite a user" not in page.content()


def test_a_form_that_is_sent_twice_is_one_replay(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    page.get_by_role("button", name="Replay", exact=True).dblclick()
    page.wait_for_url(re.compile("/replays/"))
    assert len(ada.house.records("replay.requested")) == 1


def test_two_buttons_pressed_at_once_are_one_replay(ada: Desk) -> None:
    ada.go("/exchanges/ex-1/replay")
    places = ada.page.page.evaluate("""async () => {
      const form = document.querySelector("form.editor");
      const send = () => fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      return (await Promise.all([send(), send(), send()])).map((one) => one.url.split("?")[0]);
    }""")
    assert len(set(places)) == 1
    assert len(ada.house.records("replay.requested")) == 1


def test_a_lost_connection_is_told_and_found_again(page: Page, tmp_path: Path) -> None:
    with desk(tmp_path, page, timings=Timings(retry=0.05)) as ada:
        ada.agent.ingest(exchange())
        with relaying(int(ada.house.url.rpartition(":")[2])) as relay:
            ada.house.url = relay.url
            ada.sign_in()
            ada.ask_for_replay()
            page.page.get_by_text("Waiting for the agent").wait_for()
            relay.cut()
            page.page.get_by_text("The connection is lost").wait_for()
            relay.mend()
            page.page.get_by_text("Waiting for the agent").wait_for()
            ada.run_it()
            page.page.locator(".verdict.identical").wait_for()
            assert len(ada.house.records("replay.requested")) == 1
            page.page.goto("about:blank")


def test_a_check_that_gets_no_answer_says_so(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    page.context.set_offline(True)
    page.locator("#body").fill("[]")
    page.get_by_text("the server does not answer").wait_for()
    page.context.set_offline(False)
    page.locator("#body").fill("[1]")
    page.get_by_text("What is changed").wait_for()
    assert "does not answer" not in ada.text()


def test_a_replay_is_cancelled(ada: Desk) -> None:
    ada.ask_for_replay()
    ada.page.page.get_by_role("button", name="Cancel the replay").click()
    ada.page.page.locator(".way", has_text="Cancelled").wait_for()
    assert len(ada.house.records("replay.cancelled")) == 1


def test_somebody_is_invited_granted_something_and_removed(ada: Desk, browser: Any) -> None:
    page = ada.page.page
    ada.go("/people")
    page.get_by_label("E-mail address").fill("bob@example.com")
    page.get_by_role("button", name="Invite", exact=True).click()
    link = page.locator(".once pre").inner_text()
    context = browser.new_context()
    guest = context.new_page()
    guest.goto(link)
    guest.get_by_label(re.compile("Password")).fill(PASSWORD)
    guest.get_by_role("button").click()
    guest.get_by_role("heading", name="Signed in").wait_for()
    context.close()
    ada.go("/people")
    row = page.locator("tr", has_text="bob@example.com")
    row.get_by_text("Grant …").click()
    row.locator("select[name=role]").select_option("viewer")
    row.get_by_label("Only in environment").fill("staging")
    row.get_by_role("button", name="Grant").click()
    page.locator("tr", has_text="viewer in staging").wait_for()
    row.get_by_text("Revoke", exact=True).click()
    row.get_by_role("button", name="Yes, revoke").click()
    page.locator("tr", has_text="viewer in staging").wait_for(state="detached")
    row.get_by_text("Remove", exact=True).click()
    row.get_by_role("button", name="Yes, remove").click()
    row.wait_for(state="detached")
    assert [one["action"] for one in ada.house.records()][-3:] == [
        "role.granted",
        "role.revoked",
        "user.removed",
    ]


def test_the_last_administrator_stays(ada: Desk) -> None:
    ada.go("/people")
    ada.page.page.get_by_text("Remove", exact=True).click()
    ada.page.page.get_by_role("button", name="Yes, remove").click()
    ada.page.page.get_by_role("alert").wait_for()
    assert "without an administrator" in ada.text()


def test_a_key_is_shown_once_and_revoked(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/keys")
    form = page.locator("section", has_text="A key for an agent")
    for label, text in (("Name", "till"), ("App", "bank"), ("Environment", "staging")):
        form.get_by_label(label, exact=True).fill(text)
    form.get_by_role("button").click()
    key = page.locator(".once pre").first.inner_text()
    client = ada.house.client(key)
    assert client.get("/api/v1/session").json()["actor"]["type"] == "agent"
    ada.go("/keys")
    assert key not in page.content()
    row = page.locator("tr", has_text="till")
    row.get_by_text("Revoke", exact=True).click()
    row.get_by_role("button", name="Yes, revoke").click()
    row.wait_for(state="detached")
    assert client.get("/api/v1/session").status_code == 401


def test_environments_and_tenants_are_changed(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/environments")
    page.get_by_label("Name").fill("test")
    page.get_by_role("button", name="Set").click()
    page.locator(".badge.safe", has_text="test").wait_for()
    ada.go("/tenants")
    form = page.locator("section", has_text="Another tenant")
    form.get_by_label("Name").fill("north")
    form.get_by_label("First administrator").fill("nora@example.com")
    form.get_by_role("button").click()
    assert "/invite?token=" in page.locator(".once pre").inner_text()
    ada.go("/tenants")
    row = page.locator("tr", has_text="north")
    row.locator("select[name=tier]").select_option("high")
    row.get_by_role("button", name="Change").click()
    page.locator("td[data-head=Tier]", has_text=re.compile("^high$")).wait_for()
    assert "tier.changed" in {one["action"] for one in ada.house.records()}
