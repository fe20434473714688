"""Every page for everybody: hostile content, no scripts, keyboards, screen readers, small and dark
screens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk, hostile
from tests.browser.reading import flaws_of
from tests.browser.recording import DO, NAMED, record
from tests.server.traffic.puppet import exchange, packed

Evil = tuple[Desk, dict[str, str]]
SIZES = ((1280, 800), (390, 800))
PLACES = (
    "/exchanges",
    "/exchanges/ex-1",
    "/exchanges/ex-1/replay",
    "/exchanges/ex-1/related",
    "/exchanges/ex-1/compare/other",
    "/replays",
    "/replays/{replay}",
    "/batches",
    "/batches/new?text=%3Cscript%3E",
    "/batches/{batch}",
    "/agents",
    "/recordings",
    "/audit",
    "/audit/1",
    "/people",
    "/keys",
    "/environments",
    "/tenants",
    "/exchanges/nothing",
    "/signin",
)


@pytest.fixture(scope="module")
def evil(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evil]:
    """A server in which every text that can be is hostile, and the ids of a replay and a batch."""
    folder = tmp_path_factory.mktemp("evil")
    context = browser.new_context(color_scheme="light")
    with desk(folder, Page(context.new_page())) as found:
        route = {"routeId": NAMED, "revision": NAMED, "processors": [NAMED]}
        found.agent.register(name=NAMED, version=NAMED, routes=[route])
        one, data = hostile(folder)
        other, _ = hostile(folder / "again", "other", processors=())
        found.agent.ingest(one, blobs=(data,))
        found.agent.ingest(other, blobs=(data,))
        found.sign_in()
        replay = found.ask_for_replay()
        found.page.page.get_by_text("Waiting for the agent").wait_for()
        found.run_it(route_id=NAMED, recording=one.recording, processors=one.processors[1:])
        found.page.page.locator(".verdict").wait_for()
        record(folder / "pushed")
        key = found.house.key("capture:write")
        headers = {"Content-Type": "application/octet-stream"}
        pushed = found.house.client(key).post(
            "/api/v1/captures", content=packed(folder / "pushed"), headers=headers
        )
        assert pushed.status_code == 201
        wanted = {"search": {"text": "ex-1"}, "reason": NAMED}
        planner = found.house.client(found.house.key("replayer"))
        batch = planner.post("/api/v1/batches", json=wanted).json()["batchId"]
        yield found, {"replay": replay, "batch": batch}
    context.close()


def path_of(place: str, ids: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda part: ids[part[1]], place)


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_was_recorded_is_obeyed(evil: Evil, place: str) -> None:
    desk, ids = evil
    page = desk.page
    page.said.clear()
    page.asked_for.clear()
    page.page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.log(e.violatedDirective))"
    )
    desk.go(path_of(place, ids))
    page.page.evaluate(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    title = page.page.title()
    assert DO not in title or NAMED in title
    assert title != "owned"
    assert page.count("body script, body iframe, body style, body img, body object") == 0
    assert page.count("[onerror], [onload], [style], [srcdoc], a[href^='javascript:']") == 0
    missing = "Failed to load resource: the server responded with a status of 404 (Not Found)"
    assert [one for one in page.said if one != missing] == []
    assert {re.sub(r"//[^/]*", "//", one)[:5] for one in page.asked_for} == {"http:"}
    assert all(one.startswith(desk.house.url) for one in page.asked_for)


def test_what_was_recorded_is_shown_as_it_is(evil: Evil) -> None:
    desk, _ = evil
    desk.go("/exchanges/ex-1")
    assert desk.page.texts("h1") == [NAMED]
    shown = desk.page.page.locator("main").text_content()
    assert f"<script>{DO}</script>" in shown
    desk.go("/exchanges/ex-1/replay")
    body = desk.page.page.locator("#body").input_value()
    assert f"<script>{DO}</script>" in body


def test_a_hostile_recording_is_viewed(evil: Evil) -> None:
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_every_page_can_be_read_by_everybody(
    evil: Evil, scheme: str, size: tuple[int, int]
) -> None:
    desk, ids = evil
    page = desk.page.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme)
    found = {}
    for place in PLACES:
        desk.go(path_of(place, ids))
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        found[place] = flaws_of(page)
    assert {place: flaws for place, flaws in found.items() if flaws} == {}


def test_a_reader_needs_no_scripts(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    with desk(tmp_path, Page(context.new_page())) as found:
        found.agent.ingest(exchange(), exchange("other"))
        found.sign_in()
        page = found.page.page
        for place in PLACES[:4]:
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
        page.press("Tab", "Enter", "Tab", "Tab")  # over the navigation, and a button
        assert page.page.evaluate("document.activeElement.name") == "text"
        found.go("/exchanges/ex-1")
        page.page.locator("details.row > summary").first.focus()
        page.press("Enter")
        assert page.page.locator("details.row").first.get_attribute("open") is not None
