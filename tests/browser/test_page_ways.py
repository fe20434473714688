"""From any page to what one wants next, in one click; and what one is looking at has a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.exchange.model import Body, ErrorFacts, Payload
from reenact.server.runtime import Timings
from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk
from tests.server.house import START
from tests.server.traffic.puppet import Puppet, exchange, start

DAY = 86_400_000


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    """Signed in, with one of today that failed, and one of last week."""
    wrong = ErrorFacts(type="ValueError", message="none are left")
    with desk(tmp_path, page, timings=Timings(poll=0.05)) as found:
        found.agent.ingest(
            exchange("ex-1", agent_id="agent-1", correlation_id="order-7"),
            exchange("ex-2", status="failed", error=wrong, result=None),
            exchange("old", started_at=START - 9 * DAY, correlation_id="order-7"),
        )
        found.sign_in()
        yield found


def listed(ada: Desk) -> int:
    return ada.page.count("table.list tbody tr")


def test_an_exchange_leads_to_its_kind_its_agents_and_itself(ada: Desk) -> None:
    page = ada.page.page
    facts = page.locator("dl.facts")
    for name, place in (
        ("all of this route", "/exchanges?app=shop&route=orders"),
        ("shop", "/exchanges?app=shop"),
        ("shop in staging", "/agents?app=shop"),
        ("order-7", "/exchanges?correlationId=order-7"),
    ):
        ada.go("/exchanges/ex-1")
        facts.get_by_role("link", name=name, exact=True).click()
        page.wait_for_url(f"{ada.house.url}{place}")
    ada.go("/exchanges/ex-1")
    assert "HTTP status\n200" in facts.inner_text()
    facts.get_by_role("link", name="JSON").click()
    page.wait_for_url("**/api/v1/exchanges/ex-1")
    ada.go("/exchanges/ex-2")
    assert "the exchange failed before a response" in ada.text()


def test_the_history_leads_to_what_belongs_together(ada: Desk) -> None:
    ada.page.page.get_by_role("link", name="order-7").first.click()
    ada.page.page.wait_for_url("**/exchanges?correlationId=order-7")
    assert listed(ada) == 2


def test_filters_offer_what_is_there_and_are_cleared(ada: Desk) -> None:
    page = ada.page.page
    assert page.get_by_role("link", name="Clear").count() == 0
    for name, words in (("app", ["shop"]), ("environment", ["live", "staging"])):
        assert page.locator(f"input[name={name}]").get_attribute("list") == f"known-{name}"
        offered = page.locator(f"#known-{name} option")
        assert [one.get_attribute("value") for one in offered.all()] == words
    ada.go("/exchanges?app=nothing")
    page.get_by_role("link", name="Clear").click()
    page.wait_for_url("**/exchanges")
    assert listed(ada) == 3


def test_the_last_day_is_one_choice_and_stays_one(ada: Desk) -> None:
    page = ada.page.page
    page.get_by_label("When").select_option("the last day")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url(re.compile(f"within={DAY}"))
    assert listed(ada) == 2
    page.get_by_role("link", name="Save this search …").click()
    assert page.get_by_label("Exchanges of").input_value() == str(DAY)
    page.get_by_label("Name").fill("of today")
    page.get_by_role("button", name="Save it").click()
    page.get_by_role("link", name="of today").click()
    page.wait_for_url(re.compile(f"within={DAY}"))
    ada.house.clock.move(3 * 86_400)
    ada.sign_in()
    ada.go(f"/exchanges?within={DAY}")
    assert listed(ada) == 0
    ada.go("/exchanges?within=soon")
    assert "Within is a number" in ada.text()
    page.get_by_role("link", name="Show it without these filters").click()
    page.wait_for_url("**/exchanges")
    assert listed(ada) == 3


def test_tabs_can_be_told_apart(ada: Desk) -> None:
    replay = ada.ask_for_replay()
    for place, title in (
        ("/exchanges/ex-1", "orders"),
        ("/exchanges/ex-1/replay", "Edit and replay orders"),
        ("/exchanges/ex-1/related", "Related to orders"),
        (f"/replays/{replay}", "Replay of orders"),
        ("/exchanges/ex-1/compare/ex-2", "orders, side by side"),
    ):
        ada.go(place)
        assert ada.page.page.title() == f"{title} – Reenact"
    icon = ada.page.page.locator("link[rel=icon]").get_attribute("href")
    answer = ada.house.client().get(icon)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")


def test_a_comparison_is_come_back_to_from_hiding(ada: Desk) -> None:
    page = ada.page.page
    replay = ada.ask_for_replay()
    ada.run_it(result=Payload(body=Body(type="json", text='{"total": 12}')))
    page.locator(".verdict.diverged").wait_for()
    assert re.search("Delivered\n.*\nafter ", page.locator(".way").inner_text())
    page.get_by_role("link", name="hide /result/body/total").click()
    page.get_by_role("link", name="Comparison").click()
    page.wait_for_url(f"**/replays/{replay}")


def test_records_lead_to_each_other(ada: Desk) -> None:
    page = ada.page.page
    replay = ada.ask_for_replay()
    ada.run_it()
    page.locator(".verdict.identical").wait_for()
    page.get_by_role("link", name="№").click()
    page.get_by_role("link", name="All of this replay").click()
    page.wait_for_url(f"**/audit?replay={replay}")
    assert ada.page.texts("td[data-head=Did]") == ["replay.finished", "replay.requested"]
    assert ada.page.texts("td[data-head=About]") == ["replay of orders"] * 2
    assert ada.page.texts("td[data-head=Outcome]")[0].split() == ["ok", "identical"]
    page.get_by_role("link", name="replay.finished").click()
    last = ada.page.texts("h1")
    page.get_by_role("link", name="Older").click()
    page.get_by_role("link", name="Newer").click()
    assert ada.page.texts("h1") == last


def test_a_batch_shows_the_exchanges_of_one_verdict(ada: Desk) -> None:
    page = ada.page.page
    ada.go(f"/batches/new?within={DAY}")
    page.get_by_role("button", name="Plan it").click()
    page.get_by_role("button", name="Replay 2 exchanges").click()
    with ada.agent.stream() as stream:
        for _ in range(2):
            ada.agent.run(ada.agent.read_command(stream.next()["data"]))
    page.get_by_text("2 of 2 exchanges").wait_for()
    assert ada.page.texts("h1") == ["Batch: the last 1 day"]
    page.locator("dl.facts").get_by_role("link", name="fixed").click()
    page.wait_for_url("**/batches/*?verdict=fixed")
    assert ada.page.texts("td[data-head=Id]") == ["ex-2"]
    page.get_by_role("link", name="Show all").click()
    page.wait_for_url(lambda url: "verdict" not in url)
    page.get_by_role("link", name="In the history").click()
    page.wait_for_url(f"**/exchanges?within={DAY}")
    page.go_back()
    page.get_by_role("link", name="Plan it again …").click()
    page.wait_for_url(f"**/batches/new?within={DAY}")


def test_what_was_typed_stays_when_a_batch_is_refused(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges?status=failed")
    page.get_by_role("link", name="Save this search …").click()
    page.get_by_label("Name").fill("failed")
    page.get_by_role("button", name="Save it").click()
    page.get_by_role("link", name="Replay all …").click()
    page.get_by_label("Reason (required in production and for live calls)").fill("are they fixed?")
    page.get_by_label("Code").select_option("same")
    page.get_by_label("At a time, per agent").fill("65")
    page.get_by_role("button", name="Plan it").click()
    page.get_by_role("alert").wait_for()
    typed = ("Reason (required in production and for live calls)", "Code", "At a time, per agent")
    assert [page.get_by_label(one).input_value() for one in typed] == [
        "are they fixed?",
        "same",
        "65",
    ]
    assert "every exchange" not in ada.text()
    page.get_by_label("At a time, per agent").fill("")
    page.get_by_role("button", name="Plan it").click()
    page.get_by_role("button", name="Replay 1 exchange").wait_for()


def test_an_environment_is_changed_where_it_is_listed(ada: Desk) -> None:
    page = ada.page.page
    assert Puppet(ada.house, agent_id="a-9", environment="lab").register().status_code == 200
    ada.go("/environments")
    assert "not said: production" in page.locator("tr", has_text="lab").inner_text()
    row = page.locator("tr", has_text="staging")
    row.get_by_text("Make it production", exact=True).click()
    assert "a reason" in row.inner_text()
    row.get_by_role("button", name="Yes, make it production").click()
    page.locator(".badge.production", has_text="staging").wait_for()
    row.get_by_role("link", name="exchanges").click()
    page.wait_for_url("**/exchanges?environment=staging")


def test_a_viewer_of_replays_and_batches_is_offered_nothing(ada: Desk, browser: Any) -> None:
    ada.house.user("bob@example.com", "viewer")
    replay = ada.ask_for_replay()
    ada.go("/batches/new?status=failed")
    ada.page.page.get_by_role("button", name="Plan it").click()
    ada.page.page.wait_for_url(re.compile("/batches/bat"))
    batch = ada.place
    context = browser.new_context()
    ada.page = Page(context.new_page())
    ada.sign_in("bob@example.com")
    for place in (f"/replays/{replay}", batch):
        ada.go(place)
        assert ada.page.texts("main button, main summary") == []
        assert ada.page.texts("main a[href^='/audit'], main a[href$='/replay']") == []
    context.close()


def test_a_key_is_copied_and_times_are_told_where_one_is(ada: Desk, browser: Any) -> None:
    rights = ["clipboard-read", "clipboard-write"]
    context = browser.new_context(timezone_id="Asia/Kolkata", permissions=rights)
    ada.page = Page(context.new_page())
    ada.sign_in()
    page = ada.page.page
    ada.go("/exchanges/ex-1")
    told = page.locator("dl.facts time").get_attribute("title")
    assert re.fullmatch(r"2026-09-21 14:13:20.000 UTC, .*7:43:20.* here", told)
    ada.go("/keys")
    form = page.locator("section", has_text="A key for a program")
    form.get_by_label("Name", exact=True).fill("reports")
    form.get_by_role("button").click()
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert ada.house.client(copied).get("/api/v1/session").status_code == 200
    assert "REENACT_API_KEY" in page.locator(".once").inner_text()
    page.get_by_role("link", name="the API").click()
    page.wait_for_url("**/api/docs")
    context.close()


def test_any_two_exchanges_are_compared(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1")
    page.get_by_role("link", name="Compare with …").click()
    page.wait_for_url("**/exchanges?app=shop&route=orders&compare=ex-1")
    page.get_by_label("Status").select_option("failed")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="side by side").click()
    page.wait_for_url("**/exchanges/ex-1/compare/ex-2")
    assert "The first went well; the second did not." in ada.text()
    ada.agent.ingest(exchange("edited", start=start(7)))
    ada.go("/exchanges/ex-1/compare/edited")
    assert "Only the start payload differs." in ada.page.texts(".verdict.equivalent")[0]
    ada.go("/exchanges/ex-1/compare/ex-2")
    assert ada.page.texts(".pairs.both thead th") == ["First", "Second"]


def test_a_failure_leads_to_others_like_it(ada: Desk) -> None:
    ada.go("/exchanges/ex-2")
    ada.page.page.get_by_role("link", name="Others that failed like this").click()
    ada.page.page.wait_for_url("**/exchanges?app=shop&status=failed&text=ValueError")
    assert listed(ada) == 1


def test_an_edit_is_gone_on_with(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    page.locator("#body").fill('{"amount": 8}')
    page.get_by_label(re.compile("^Reason")).fill("eight of them")
    page.get_by_label("only if it is unchanged").check()
    page.get_by_role("button", name="Replay", exact=True).click()
    page.wait_for_url(re.compile("/replays/"))
    page.get_by_text("Waiting for the agent").wait_for()
    ada.run_it()
    page.locator(".verdict").wait_for()
    page.get_by_role("link", name="Edit further …").click()
    page.wait_for_url("**/replay?like=*&form=*")
    assert page.locator("#body").input_value() == '{"amount": 8}'
    assert page.get_by_label(re.compile("^Reason")).input_value() == "eight of them"
    assert page.get_by_label("only if it is unchanged").is_checked()
    assert ada.page.texts("#plan td.ins") == ['    "amount": 8']
    replay = ada.place.partition("like=")[2].partition("&")[0]
    ada.go(f"/exchanges/ex-2/replay?like={replay}")
    assert ada.page.texts("h1") == ["Not found"]
