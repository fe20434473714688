"""Noise on pages: a difference is hidden from now on, rules are learnt, written and removed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact.exchange.model import Body, Payload, Processor
from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk
from tests.browser.reading import BOTH, flaws_of, look_at, violations_of
from tests.browser.recording import NAMED
from tests.server.traffic.puppet import exchange


def came_out(number: int, total: int = 10, **more: Any) -> Payload:
    """With an id that is another one each time."""
    values = {"id": f"{number:08x}-0000-4000-8000-000000000000", "total": total, **more}
    return Payload(body=Body(type="json", text=msgspec.json.encode(values).decode()))


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path, page) as found:
        found.agent.ingest(exchange(result=came_out(1)))
        found.sign_in()
        yield found


def replayed(ada: Desk, result: Payload, **more: Any) -> str:
    replay = ada.ask_for_replay()
    ada.run_it(result=result, **more)
    ada.page.page.locator(".verdict").wait_for()
    return replay


def rules(ada: Desk) -> list[dict[str, Any]]:
    client = ada.house.client(ada.house.key("viewer"))
    return [rule for one in client.get("/api/v1/noise").json()["items"] for rule in one["rules"]]


def all_of(page: Any) -> list[str]:
    """What somebody could not read, on either screen."""
    found: list[str] = []
    for screen in BOTH:
        look_at(page, screen)
        found += [*flaws_of(page), *violations_of(page)]
    return found


def test_a_difference_is_hidden_from_now_on(ada: Desk) -> None:
    page = ada.page.page
    replay = replayed(ada, came_out(2))
    assert ada.page.count(".verdict.diverged") == 1
    page.get_by_role("link", name="hide /result/body/id").click()
    assert all_of(page) == []
    first = page.locator("section", has_text="regex")
    assert "It would be equivalent: 1 hidden, 0 differences count" in first.inner_text()
    assert page.locator("section h2").all_inner_texts()[1:] == ["present", "ignore"]
    first.get_by_role("button").click()
    page.wait_for_url(re.compile(f"/replays/{replay}"))
    page.locator(".verdict.equivalent").wait_for()
    assert ada.page.count("a.hide") == 0
    page.go_back()
    page.get_by_text("nothing differs there any more").wait_for()
    [rule] = rules(ada)
    assert (rule["kind"], rule["note"]) == ("regex", "hidden by hand")
    [changed] = ada.house.records("noise.changed")
    assert changed["subject"]["id"] == "shop orders"
    replayed(ada, came_out(3, total=11))
    assert ada.page.count(".verdict.diverged") == 1
    assert ada.page.count("a.hide") == 1


def test_rules_are_learnt_written_and_removed(ada: Desk) -> None:
    page = ada.page.page
    for number in (2, 3):
        replayed(ada, came_out(number))
    page.get_by_role("link", name="Noise rules of this route").click()
    assert "There are none." in ada.text()
    page.get_by_role("button", name="Learn from them").click()
    learnt = page.locator("tbody tr")
    learnt.wait_for()
    assert "differed between two unchanged replays" in learnt.inner_text()
    page.get_by_label("Path, such as").fill("/result/body/total")
    page.get_by_label("What may differ").select_option("tolerance")
    page.get_by_label("Absolute").fill("2")
    page.get_by_role("button", name="Add it").click()
    page.locator("tr", has_text="tolerance").wait_for()
    assert "absolute 2" in page.locator("tr", has_text="tolerance").inner_text()
    assert [one["kind"] for one in rules(ada)] == ["regex", "tolerance"]
    learnt.first.get_by_role("button", name="Remove").click()
    page.locator("tr", has_text="regex").wait_for(state="detached")
    assert [one["kind"] for one in rules(ada)] == ["tolerance"]
    ada.go("/noise")
    assert ada.page.texts("td[data-head=Rules]") == ["1 rule"]


def test_hostile_names_are_text(ada: Desk) -> None:
    page = ada.page.page
    one = Processor(processor_id=NAMED, seq=1, output=1)
    ada.agent.ingest(exchange("ex-9", route_id="orders", processors=(one,)))
    ada.ask_for_replay("ex-9")
    ada.run_it(processors=(msgspec.structs.replace(one, output=NAMED),))
    page.locator("a.hide").first.click()
    page.get_by_role("button", name="Hide it from now on").last.click()
    page.locator(".verdict").wait_for()
    page.get_by_role("link", name="Noise rules of this route").click()
    assert NAMED in ada.text()
    assert page.title() == "Noise rules – Reenact"
    assert "dialog" not in ada.page.said
