"""Editing what came in: JSON that came in one line is laid out to be read, and stays what it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.exchange.model import Body, Payload
from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk
from tests.server.traffic.puppet import exchange

TEXT = (
    '{"id":12345678901234567890,"price":1.0,"tiny":1e-7,"empty":{},"none":[ ],'
    '"say":"a \\"quoted, {brace}: [x]\\" \\\\","lines":[{"sku":"cup","quantity":0},null,true]}'
)
LAID = """\
{
  "id": 12345678901234567890,
  "price": 1.0,
  "tiny": 1e-7,
  "empty": {},
  "none": [],
  "say": "a \\"quoted, {brace}: [x]\\" \\\\",
  "lines": [
    {
      "sku": "cup",
      "quantity": 0
    },
    null,
    true
  ]
}"""


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path, page) as found:
        found.agent.ingest(exchange(start=Payload(body=Body(type="json", text=TEXT))))
        found.sign_in()
        found.go("/exchanges/ex-1/replay")
        yield found


def test_json_in_one_line_is_laid_out_and_nothing_in_it_changes(ada: Desk) -> None:
    page = ada.page.page
    body = page.locator("#body")
    assert json.loads(TEXT) == json.loads(LAID)
    assert body.input_value() == TEXT
    page.get_by_role("button", name="Lay it out").click()
    assert body.input_value() == LAID
    page.get_by_role("button", name="Lay it out").click()
    assert body.input_value() == LAID
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert body.input_value() == TEXT


def test_what_is_no_json_stays_as_it_is(ada: Desk) -> None:
    page = ada.page.page
    page.locator("#body").fill('{"a":[1,2}')
    page.locator(".mistakes").wait_for()
    page.get_by_role("button", name="Lay it out").click()
    assert page.locator("#body").input_value() == '{"a":[1,2}'
    page.locator("select[name=body-type]").select_option("text")
    assert not page.get_by_role("button", name="Lay it out").is_visible()


def test_a_mistake_leads_to_its_place(ada: Desk) -> None:
    page = ada.page.page
    page.locator("#body").fill('{"a": "😀",\n "😀": NaN}')
    page.get_by_role("link", name="body, line 2, column 7").click()
    selected = "document.activeElement.value.slice(document.activeElement.selectionStart)"
    assert page.evaluate(selected) == "NaN}"
    page.locator("#body").fill(TEXT)
    names, values = (page.locator(f"input[name=header-{one}]") for one in ("name", "value"))
    values.nth(1).fill("nobody's")
    page.get_by_role("link", name="headers, number 1").click()
    assert page.evaluate("document.activeElement.ariaLabel") == "Name of header 2"
    assert names.nth(1).get_attribute("aria-invalid") == "true"
    page.keyboard.type("X-Whose")
    page.locator(".mistakes").wait_for(state="detached")
    assert names.nth(1).get_attribute("aria-invalid") is None
    assert page.get_by_text("What is changed").is_visible()


def test_filters_are_folded_on_a_narrow_screen_until_one_is_set(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges")
    assert page.get_by_label("Status").is_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_label("Status").wait_for(state="hidden")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**/exchanges?text=orders**")
    assert page.get_by_label("Status").is_visible()
    ada.go("/exchanges")
    assert not page.get_by_label("Status").is_visible()
    page.get_by_text("Search and filter").click()
    assert page.get_by_label("Status").is_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.get_by_label("Status").is_visible()
