"""``reenact serve --demo``: one command, and every view has something in it. An operator's way through
it, from the link to the proof; the pictures of README and guides are taken on it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.conftest import Page
from tests.browser.pictures import picture

FILLED = (
    *(
        "/exchanges",
        "/replays",
        "/batches",
        "/searches",
        "/noise",
        "/noise?app=shop&route=POST+/orders",
    ),
    *("/agents", "/recordings", "/audit", "/people", "/keys", "/environments", "/tenants"),
)
FAILED = "/exchanges?app=shop&environment=staging&status=failed"
EDITED = '{"id": "o-003", "items": [{"sku": "cup", "quantity": 4}]}'


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """A demo; the link that it prints."""
    command = [sys.executable, "-m", "reenact", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as demo:
        try:
            assert demo.stderr is not None
            yield next(line.strip() for line in demo.stderr if "/demo?token=" in line)
        finally:
            demo.terminate()
        rest = demo.stderr.read()
    assert (demo.returncode, rest) == (0, "")
    assert [*folder.iterdir()] == []


@pytest.mark.slow
def test_a_newcomer_sees_everything_with_one_command(page: Page, tmp_path: Path) -> None:
    with running(tmp_path) as link:
        url = link.partition("/demo")[0]
        page.open(link)
        page.page.wait_for_url("**/exchanges")
        for place in FILLED:
            page.open(f"{url}{place}")
            assert page.count("table.list tbody tr") > 0, place
        look_around(page, url)
        mend_an_order(page, url)
        replay_them_all(page, url)
        page.open(f"{url}/exchanges?app=shop")
        assert page.count(".notes .badge.busy") == 0  # replays are hidden
        picture(page.page, "page-history")
        page.open(f"{url}/exchanges?app=shop&replay=any")
        assert page.count(".notes .badge.busy") >= 6  # replays
        page.page.context.clear_cookies()
        page.open(link)
        assert "This link was used" in page.page.locator("main").inner_text()


def look_around(page: Page, url: str) -> None:
    """What an agent said to a model, and what an order led to."""
    form = page.page
    page.open(f"{url}/exchanges?text=advice")
    form.get_by_role("link", name="POST /advice").click()
    form.locator(".talk .said.answer").first.wait_for()
    assert page.texts(".talk summary") == ["3 messages as above"]
    picture(form, "page-talk", dark=True, top="h2")
    page.open(f"{url}/exchanges?app=shop&environment=staging&text=o-002")
    form.get_by_role("link", name="POST /orders").click()
    form.get_by_role("link", name="Related").click()
    form.get_by_role("heading", name="Who called whom").wait_for()
    assert page.count(".waterfall .went") > 10
    picture(form, "page-related")


def mend_an_order(page: Page, url: str) -> None:
    """One that failed is edited and replayed; then what the log says about that."""
    form = page.page
    page.open(f"{url}{FAILED}")
    form.get_by_role("link", name="POST /orders").first.click()
    form.get_by_role("heading", name="What happened").wait_for()
    form.locator("details.row", has_text="reserve").first.click()
    picture(form, "page-exchange")
    form.get_by_role("link", name="Edit and replay").click()
    form.locator("#body").fill(EDITED)
    form.get_by_label(re.compile("^Reason")).fill("an order of none")
    form.get_by_text("What is changed").wait_for()
    picture(form, "page-edit", dark=True)
    form.get_by_role("button", name="Replay", exact=True).click()
    form.locator(".verdict.fixed").wait_for()
    picture(form, "page-replay")
    form.get_by_role("link", name="№").click()
    form.get_by_text("verified", exact=True).wait_for()
    picture(form, "page-audit")


def replay_them_all(page: Page, url: str) -> None:
    """All orders of staging, as a batch whose calls go out: the warehouse gives other reservations."""
    form = page.page
    page.open(f"{url}/exchanges?app=shop&environment=staging&route=POST+/orders")
    form.get_by_role("link", name="Replay all of these").click()
    form.get_by_label("Outbound calls").select_option("live")
    form.get_by_label(re.compile("^Reason")).fill("are they as they were?")
    form.get_by_role("button", name="Plan it").click()
    form.get_by_role("button", name="Replay 5 exchanges").click()
    form.locator(".title .badge", has_text="completed").wait_for()
    form.wait_for_load_state()
    assert "5 of 5 exchanges" in form.locator("main").inner_text()
    why = "processor reserve: /output/reservation differs"
    assert page.texts("td[data-head='First difference']") == [why]
    picture(form, "page-batch")
