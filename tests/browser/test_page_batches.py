"""Many replays at once, from a search to the verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.server.runtime import Timings
from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk
from tests.server.traffic.puppet import exchange


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    """Signed in, with two failed exchanges of three."""
    with desk(tmp_path, page, timings=Timings(poll=0.05)) as found:
        found.agent.ingest(
            exchange("ex-1"), exchange("ex-2", status="failed"), exchange("ex-3", status="failed")
        )
        found.sign_in()
        yield found


def _plan(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges?status=failed")
    page.get_by_role("link", name="Replay all of these").click()
    page.wait_for_url("**/batches/new?status=failed")
    assert "failed" in ada.text()
    page.get_by_label("Reason (required in production and for live calls)").fill("are they fixed?")
    page.get_by_role("button", name="Plan it").click()
    page.wait_for_url(re.compile("/batches/bat"))


def test_a_search_becomes_a_batch_that_counts_first(ada: Desk) -> None:
    page = ada.page.page
    _plan(ada)
    assert ada.house.records("replay.requested") == []
    assert ada.page.texts("td[data-head=Replayable]") == ["2"]
    page.get_by_role("button", name="Replay 2 exchanges").click()
    page.locator("progress").wait_for()
    with ada.agent.stream() as stream:
        for _ in range(2):
            command = ada.agent.read_command(stream.next()["data"])
            ada.agent.run(command)
    page.locator(".title .badge", has_text="completed").wait_for()
    page.wait_for_load_state()
    assert "2 of 2 exchanges" in ada.text()
    why = "it completed, and failed before"
    assert ada.page.texts("td[data-head=Verdict]") == ["fixed", *[f"fixed {why}"] * 2]
    assert ada.page.texts("td[data-head='First difference']") == [why]
    page.get_by_role("link", name=why).click()
    page.wait_for_url(re.compile("verdict=fixed&cause=it"))
    assert f"Only fixed {why}. Show all" in ada.text()
    assert ada.page.count("td[data-head=Exchange]") == 2
    page.get_by_role("link", name="one of them").click()
    page.locator(".verdict.fixed").wait_for()
    assert {one["reason"] for one in ada.house.records("replay.requested")} == {"are they fixed?"}
    ada.go("/batches")
    assert ada.page.texts("td[data-head=State]") == ["completed"]
    assert ada.page.texts("td[data-head=Batch]") == ["status failed"]


def test_a_batch_goes_on_below_what_somebody_is_about_to_press(ada: Desk) -> None:
    page = ada.page.page
    _plan(ada)
    page.get_by_role("button", name="Replay 2 exchanges").click()
    page.get_by_text("0 of 2 exchanges").wait_for()
    page.get_by_text("Cancel", exact=True).click()
    with ada.agent.stream() as stream:
        commands = [ada.agent.read_command(stream.next()["data"]) for _ in range(2)]
        ada.agent.run(commands[0])
        page.get_by_text("1 of 2 exchanges").wait_for()
        page.locator("td[data-head=Verdict]", has_text="fixed").first.wait_for()
        assert page.get_by_role("button", name="Yes, cancel").is_visible()
        ada.agent.run(commands[1])
    page.locator(".title .badge", has_text="completed").wait_for()
    assert page.get_by_role("button", name="Yes, cancel").count() == 0


def test_a_plan_is_dropped(ada: Desk) -> None:
    _plan(ada)
    ada.page.page.get_by_text("Drop the plan", exact=True).click()
    ada.page.page.get_by_role("button", name="Yes, drop the plan").click()
    ada.page.page.locator(".title .badge", has_text="cancelled").wait_for()
    assert ada.house.records("replay.requested") == []


def test_a_number_that_is_none_is_told(ada: Desk) -> None:
    ada.go("/batches/new?status=failed")
    ada.page.page.get_by_label("At a time, per agent").fill("65")
    ada.page.page.get_by_role("button", name="Plan it").click()
    ada.page.page.get_by_role("alert").wait_for()
    assert "concurrency" in ada.text()
    assert "failed" in ada.text()


def test_what_happened_before_the_page_listened_is_shown(ada: Desk) -> None:
    page = ada.page.page
    _plan(ada)

    def late(route: Any) -> None:
        """The events are asked for once the page is out of date, and nothing more will happen."""
        with ada.agent.stream() as stream:
            stream.next(), stream.next()
        route.continue_()

    page.route("**/events", late, times=1)
    page.get_by_role("button", name="Replay 2 exchanges").click()
    page.get_by_text("2 under way").wait_for()
    assert len(ada.house.records("replay.requested")) == 2


def test_a_plan_says_first_what_would_be_refused(ada: Desk) -> None:
    page = ada.page.page
    ada.live.ingest(exchange("in-live", status="failed"))
    ada.agent.ingest(exchange("part", status="failed", not_replayable="it was clipped"))
    ada.go("/batches/new?status=failed")
    page.get_by_role("button", name="Plan it").click()
    page.wait_for_url(re.compile("/batches/bat"))
    said = page.locator(".doubts").inner_text()
    assert said.startswith("1 of 3 exchanges would be refused now: reason required 1")
    row = page.locator("tr", has_text="skipped")
    assert "it was clipped" in row.inner_text()
    assert page.locator(".doubts .badge").get_attribute("title") == "reason_required"
