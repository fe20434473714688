"""``reenact serve --demo``: one command, and every view has something in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.conftest import Page

FILLED = ("/exchanges", "/replays", "/agents", "/recordings", "/audit", "/people", "/keys")


@pytest.mark.slow
def test_a_newcomer_sees_everything_with_one_command(page: Page, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reenact", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as demo:
        try:
            assert demo.stderr is not None
            link = next(line.strip() for line in demo.stderr if "/demo?token=" in line)
            look_around(page, link)
        finally:
            demo.terminate()
        rest = demo.stderr.read()
    assert (demo.returncode, rest) == (0, "")
    assert [*tmp_path.iterdir()] == []


def look_around(page: Page, link: str) -> None:
    url = link.partition("/demo")[0]
    page.open(link)
    page.page.wait_for_url("**/exchanges")
    for place in FILLED:
        page.open(f"{url}{place}")
        assert page.count("table.list tbody tr") > 0, place
    page.open(f"{url}/exchanges?text=advice")
    page.page.get_by_role("link", name="POST /advice").click()
    page.page.locator(".talk .said.answer").wait_for()
    page.open(f"{url}/replays")
    page.page.locator("td[data-head=Verdict]", has_text="fixed").wait_for()
    page.page.context.clear_cookies()
    page.open(link)
    assert "this link was used" in page.page.locator("main").inner_text()
