"""Saved searches on pages: saved from the history, opened, renamed, replayed, deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import Page
from tests.browser.desk import EMAIL, Desk, desk
from tests.server.house import START
from tests.server.traffic.puppet import exchange


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path, page) as found:
        found.agent.ingest(
            exchange("ex-1", status="failed"),
            exchange("ex-2", started_at=START - 200_000_000, status="failed"),
            exchange("ex-3"),
        )
        found.sign_in()
        yield found


def save(ada: Desk, place: str, name: str, within: str = "") -> None:
    page = ada.page.page
    ada.go(place)
    page.get_by_role("link", name="Save this search …").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Exchanges of").select_option(within)
    page.get_by_role("button", name="Save it").click()


def test_a_search_is_saved_opened_renamed_and_deleted(ada: Desk) -> None:
    page = ada.page.page
    save(ada, "/exchanges?status=failed&app=shop&replay=false", "failed orders", "86400000")
    row = page.locator("tr", has_text="failed orders")
    assert "app shop, status failed, originals only, the last 1 day" in row.inner_text()
    assert EMAIL in row.inner_text()
    row.get_by_role("link", name="failed orders").click()
    page.wait_for_url(re.compile("/exchanges"))
    assert ada.page.texts("td[data-head=Status]") == ["failed 200"]
    assert page.get_by_label("App").input_value() == "shop"
    page.get_by_role("link", name="Saved searches").click()
    row.get_by_text("Rename", exact=True).click()
    row.get_by_label("New name").fill("what went wrong")
    row.get_by_role("button", name="Rename it").click()
    renamed = page.locator("tr", has_text="what went wrong")
    renamed.wait_for()
    assert page.locator("tbody tr").count() == 1
    renamed.get_by_text("Delete", exact=True).click()
    renamed.get_by_role("button", name="Yes, delete").click()
    page.get_by_text("No saved searches yet").wait_for()


def test_a_saved_search_is_replayed(ada: Desk) -> None:
    page = ada.page.page
    save(ada, "/exchanges?status=failed", "failed")
    page.get_by_role("link", name="Replay all …").click()
    assert "All exchanges of failed" in ada.text()
    page.get_by_role("button", name="Plan it").click()
    page.wait_for_url(re.compile("/batches/bat"))
    assert page.get_by_role("button", name="Replay 2 exchanges").count() == 1
    ada.go("/batches")
    assert ada.page.texts("td[data-head=Batch]") == ["failed"]
