"""What is long, wide, many or deep is laid out so that it can be read, on paper as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.exchange.model import Body, ErrorFacts, Payload
from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk
from tests.browser.reading import flaws_of
from tests.server.traffic.puppet import exchange

WORD = "Donaudampfschiff" * 20
ROUTE = "GET /" + "/".join(["segment-of-a-path-{that_is_long}"] * 6)
HEADERS = tuple((f"x-header-{number:03}", str(number)) for number in range(200))
LONG = Payload(
    headers=((f"x-{'long' * 20}", WORD), ("x-name", WORD)),
    body=Body(type="json", text=f'{{"word": "{WORD}"}}'),
)


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    """Signed in, with an exchange of long words and one of many headers."""
    with desk(tmp_path, page) as found:
        wrong = ErrorFacts(type="ValueError", message=WORD)
        found.agent.ingest(
            exchange("ex-1"),
            exchange("long", route_id=ROUTE, start=LONG, error=wrong, status="failed"),
            exchange("many", start=Payload(headers=HEADERS, body=Body(type="json", text="[7]"))),
        )
        found.sign_in()
        yield found


def box(page: Any, where: str) -> dict[str, float]:
    found: dict[str, float] = page.locator(where).first.bounding_box()
    return found


def test_a_long_word_does_not_break_the_short_ones_beside_it(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges")
    line = page.evaluate("parseFloat(getComputedStyle(document.body).lineHeight)")
    assert {one.bounding_box()["height"] < 2 * line for one in page.locator(".whole").all()} == {
        True
    }
    ada.go("/exchanges/long")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert box(page, ".pairs th:text-is('x-name')")["width"] > 80


def test_many_headers_do_not_hide_the_body(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/many")
    assert box(page, ".inout pre")["y"] < 800
    page.get_by_text("All 200 of them").click()
    assert page.get_by_text("x-header-199").is_visible()
    ada.go("/exchanges/many/replay")
    assert ada.page.count(".rows .header") == 202
    assert box(page, "#body")["y"] < 1_000


def test_names_in_a_graph_stay_in_their_boxes(ada: Desk) -> None:
    ada.go("/exchanges/long/related")
    page = ada.page.page
    inner, outer = page.locator(".graph a > svg"), page.locator(".graph a rect")
    name, took = page.locator(".graph a > svg > svg"), page.locator(".graph text[text-anchor=end]")
    for one in (inner, name):
        assert one.evaluate("(one) => getComputedStyle(one).overflow") == "hidden"
    right = "(one) => one.x.baseVal.value + one.width.baseVal.value"
    assert inner.evaluate(right) < outer.evaluate(right)
    assert name.evaluate(right) < took.evaluate("(one) => one.getBBox().x")


@pytest.mark.parametrize("width", [320, 640])
def test_a_page_that_is_enlarged_is_not_wider_than_the_screen(ada: Desk, width: int) -> None:
    """A window of 1280 pixels at 200 % and at 400 %."""
    ada.page.page.set_viewport_size({"width": width, "height": 450})
    places = ("", "/exchanges/long", "/exchanges/long/replay", "/exchanges/long/related")
    for place in (*places, "/exchanges/ex-1/compare/long", "/audit", "/people", "/noise"):
        ada.go(place)
        assert flaws_of(ada.page.page) == [], place


def test_what_is_printed_is_not_cut_off(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/long")
    page.emulate_media(media="print")
    tall = "[...document.querySelectorAll('pre')].map((one) => one.scrollHeight - one.clientHeight)"
    assert set(page.evaluate(tall)) == {0}
    assert not page.locator("header").is_visible()


def test_what_has_the_focus_is_not_behind_the_buttons(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    page.locator("#properties").fill('{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}')
    patch = page.locator("#plan summary")
    patch.wait_for()
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    height = int(patch.bounding_box()["y"]) + 45  # there it would be just behind them
    page.set_viewport_size({"width": 1280, "height": height})
    patch.focus()
    one, bar = patch.bounding_box(), box(page, ".editor .actions")
    assert one["y"] + one["height"] <= bar["y"]
