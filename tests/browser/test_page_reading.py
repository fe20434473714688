"""Every page for everybody: with hostile content, without scripts, with a keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Page
from tests.browser.desk import desk, hostile
from tests.browser.haunted import Haunted, haunted
from tests.browser.places import ALL, path_of
from tests.browser.reading import unfold
from tests.browser.recording import DO, NAMED
from tests.server.traffic.puppet import exchange

OURS = [place for place in ALL if not place.endswith("/view")]
"""Those that are not the page of ``reenact view``, which has tests of its own."""
_MISSING = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d .*")


@pytest.fixture(scope="module")
def evil(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Haunted]:
    with haunted(browser, tmp_path_factory.mktemp("evil")) as found:
        yield found


@pytest.mark.parametrize("place", OURS)
def test_nothing_that_was_recorded_is_obeyed(evil: Haunted, place: str) -> None:
    desk, ids = evil
    page = desk.page
    page.said.clear()
    page.asked_for.clear()
    page.page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.log(e.violatedDirective))"
    )
    desk.go(path_of(place, ids))
    unfold(page.page)
    title = page.page.title()
    assert DO not in title or NAMED in title
    assert title != "owned"
    assert page.count("body script, body iframe, body style, body img, body object") == 0
    assert page.count("[onerror], [onload], [style], [srcdoc], a[href^='javascript:']") == 0
    assert [one for one in page.said if not _MISSING.fullmatch(one)] == []
    assert {re.sub(r"//[^/]*", "//", one)[:5] for one in page.asked_for} == {"http:"}
    assert all(one.startswith(desk.house.url) for one in page.asked_for)


def test_what_was_recorded_is_shown_as_it_is(evil: Haunted) -> None:
    desk, _ = evil
    desk.go("/exchanges/ex-1")
    assert desk.page.texts("h1") == [NAMED]
    shown = desk.page.page.locator("main").text_content()
    assert f"<script>{DO}</script>" in shown
    desk.go("/exchanges/ex-1/replay")
    body = desk.page.page.locator("#body").input_value()
    assert f"<script>{DO}</script>" in body


def test_a_hostile_recording_is_viewed(evil: Haunted) -> None:
    desk, _ = evil
    page = desk.page
    for place in ("/exchanges/ex-1/view", ""):
        if not place:
            desk.go("/recordings")
            place = page.page.locator("td a").first.get_attribute("href")
        page.said.clear()
        page.asked_for.clear()
        desk.go(place)
        assert page.count("#list li") > 5
        for _ in range(12):
            page.press("x", "j")
        assert page.said == []
        assert page.page.title() != "owned"
        loaded = [one for one in page.asked_for if not one.startswith("data:image/png;")]
        assert loaded == [f"{desk.house.url}{place}"]


def test_a_reader_needs_no_scripts(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    with desk(tmp_path, Page(context.new_page())) as found:
        found.agent.ingest(exchange(), exchange("other"))
        found.sign_in()
        page = found.page.page
        for place in (
            "/exchanges",
            "/exchanges/ex-1",
            "/exchanges/ex-1/replay",
            "/exchanges/ex-1/related",
        ):
            found.go(place)
            assert found.page.count("main h1") == 1
        found.go("/exchanges/ex-1/replay")
        page.locator("#properties").fill("{")
        page.get_by_role("button", name="Check").click()
        page.wait_for_url("**/preview")
        assert "properties, line 1, column 2" in found.text()
        page.locator("#properties").fill('{"http.method": "PUT"}')
        page.get_by_role("button", name="Check").click()
        page.get_by_text("What is changed").wait_for()
        page.get_by_role("button", name="Replay", exact=True).click()
        page.wait_for_url(re.compile("/replays/"))
        found.run_it()
        page.locator(".verdict").wait_for()  # the page comes again by itself
    context.close()


def test_a_keyboard_is_enough(page: Page, tmp_path: Path) -> None:
    with desk(tmp_path, page) as found:
        one, data = hostile(tmp_path, route_id="orders")
        found.agent.ingest(one, blobs=(data,))
        found.sign_in()
        found.go("/exchanges")
        page.press("Tab", "Enter")  # over the navigation
        passed: list[str] = []
        while not passed or (passed[-1] != "text" and len(passed) < 5):  # and over a few buttons
            page.press("Tab")
            passed.append(page.page.evaluate("document.activeElement.name"))
        assert passed[-1] == "text"
        found.go("/exchanges/ex-1")
        page.page.locator("details.row > summary").first.focus()
        page.press("Enter")
        assert page.page.locator("details.row").first.get_attribute("open") is not None
