"""A real browser: Debian's chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.frameworks.environments import IN_CI

if TYPE_CHECKING:
    from tests.browser.desk import Desk

HINT = "apt-get install chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Skips where there is none; in CI that is an error. Not for longer than a module: as long as
    playwright is there, an event loop runs in this thread, and other tests have their own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        if IN_CI:
            pytest.fail(f"there is no chromium here (hint: {HINT})")
        pytest.skip(f"there is no chromium here: {HINT}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


class Page:
    """A page of ours, and everything that it did besides being looked at."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked_for: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self.asked_for.append(request.url))

    def _dialog(self, dialog: Any) -> None:
        self.said.append("dialog")
        dialog.dismiss()

    def open(self, address: str) -> None:
        self.page.goto(address)

    def texts(self, where: str) -> list[str]:
        found: list[str] = self.page.locator(where).all_inner_texts()
        return found

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def count(self, where: str) -> int:
        found: int = self.page.locator(where).count()
        return found

    def unfold(self) -> None:
        """Everything that is folded, and what is folded inside of that."""
        if self.count("#detail details:not([open])"):
            self.press("x")
            folded = self.page.locator("#detail details:not([open])")
            folded.first.wait_for(state="detached", timeout=10_000)


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    """A fresh page."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    yield Page(context.new_page())
    context.close()


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    """Somebody who is signed in, with one exchange to look at."""
    from tests.browser.desk import desk
    from tests.server.traffic.puppet import exchange

    with desk(tmp_path, page) as found:
        found.agent.ingest(exchange())
        found.sign_in()
        yield found
