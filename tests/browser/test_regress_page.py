"""``reenact regress --html`` in a real browser: one entry per cause, and nothing is obeyed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from reenact.engine.divergence.model import Divergence, Gap, Recorded, Seen
from reenact.runs.regression.jobs import Job
from reenact.runs.regression.outcomes import Outcome, Tally, diverged
from reenact.runs.regression.report import Header
from reenact.runs.regression.report import html_page as document
from tests.browser.conftest import Page
from tests.browser.reading import SCREENS, Screen, violations_at

HOSTILE = [
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<svg onload=\"document.title='owned'\"></svg>",
    "javascript:document.title='owned'",
    "<!--<script>",
    "\u2028\u2029<style>*{display:none}</style>",
]
EVIL = " ".join(HOSTILE)
UNFOLD = "document.querySelectorAll('details:not([open]) > summary').forEach((one) => one.click())"


def _divergence(before: str, now: str) -> Divergence:
    said: Any = {"type": "llm_request", "operation": f"openai/{EVIL}", "lane": "0"}
    said["data"] = {EVIL: [EVIL]}
    recorded = Recorded(version=1, capture_id=EVIL, run_id=EVIL, seq=7, ts=1, **said)
    gap = Gap(
        path="$.request.body.messages[3].content",
        normalised="$['request']",
        kind="changed",
        expected=before,
        observed=now,
    )
    return Divergence(
        code="event_payload_mismatch",
        detail=f"They differ. {EVIL}",
        lane="0",
        expected=recorded,
        observed=Seen(**said),
        event_seq=7,
        paths=[gap],
        hint=f"Do this.\n{EVIL}",
    )


def _outcomes() -> Tally:
    tally = Tally()
    for number in range(700):
        before, now = f"You are run {number}.", f"You are now run {number}. {HOSTILE[0]}"
        tally.add(diverged(Path(f"runs/{number:04}"), _divergence(before, now)))
    failed = Outcome(recording="runs/it's", status="failed", cause=f"KeyError: {EVIL}", detail=EVIL)
    known = Outcome(recording="runs/old", status="timeout", cause="no end after 3 s", known=True)
    for one in (failed, known, *(Outcome(recording=f"fine/{n}", status="ok") for n in range(500))):
        tally.add(one)
    return tally


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    job = Job(target=f"agent:{EVIL}")
    account = Header(paths=["runs", EVIL], job=job, total=1_210, seconds=4.0, ended="interrupted")
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(document(account, _outcomes()), encoding="utf-8")
    return file.as_uri()


def test_a_thousand_failures_with_one_cause_are_one(page: Page, address: str) -> None:
    page.open(address)
    assert page.texts("#list h2") == ["NEW", "KNOWN", "FINE"]
    assert page.texts("#list li b") == ["700", "1", "1", "500"]
    assert "1,202 recordings · 2 new causes · 300.5/s · 4.00 s" in page.texts("#facts")
    assert page.texts(".notice") == ["Interrupted: 8 of 1,210 recordings not re-enacted."]
    assert page.texts(".gap > code") == ["$.request.body.messages[3].content"]
    assert page.texts(".gap ins") == ["now ", f" {HOSTILE[0]}"]
    assert page.page.locator(".rows li").count() == 100
    page.page.locator("#detail .more").click()
    assert page.page.locator(".rows li").count() == 600
    page.page.locator(".rows li").nth(2).locator("button").click()
    assert "runs/0002" in page.texts("#detail .copy code")[0]
    assert not page.said


@pytest.mark.thinned(2)
@pytest.mark.parametrize("screen", SCREENS, ids=["-".join(map(str, one)) for one in SCREENS])
def test_everybody_can_read_it(page: Page, address: str, screen: Screen) -> None:
    assert violations_at(page, address, screen) == []


def test_finding_choosing_and_linking(page: Page, address: str) -> None:
    page.open(address)
    page.page.keyboard.press("/")
    page.page.keyboard.type("0699")
    assert page.page.locator("#list li:not(.head)").count() == 1
    assert page.texts(".rows code") == ["runs/0699"]
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("j")
    assert page.texts("#detail .copy code")[0] == """reenact view 'runs/it'"'"'s'"""
    link = page.page.url
    assert re.search(r"#group-[0-9a-f]{10}$", link)
    page.page.locator("#chips button", has_text="known").click()
    assert page.texts("#list li code") == ["no end after 3 s"]
    page.page.locator("#chips button", has_text="ok").click()
    assert page.page.locator("#list li:not(.head)").count() == 2
    page.page.keyboard.press("t")
    assert page.page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.page.goto("about:blank")
    page.open(link)
    assert page.texts("#list li.picked b") == ["1"]
    assert "KeyError" in page.texts("#detail h2")[0]


def test_nothing_in_it_is_obeyed(page: Page, address: str) -> None:
    page.open(address)
    for _ in range(4):
        page.page.evaluate(UNFOLD)
        page.page.keyboard.press("j")
    assert page.page.title() == "reenact regress"
    assert page.asked_for == [address]
    assert not page.said
    assert (
        page.page.locator("main script, main img, main svg, main iframe, main style").count() == 0
    )


def test_it_fits_on_a_phone(page: Page, address: str) -> None:
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.open(address)
    assert page.page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.page.locator("#detail .gap").is_visible()


@pytest.mark.parametrize(
    "name, commands",
    [
        ("runs/1", ["reenact view runs/1", "reenact regress runs/1"]),
        (
            "capture:cap_1",
            ["reenact pull cap_1", "reenact view cap_1", "reenact regress capture:cap_1"],
        ),
        ("exchange:e-1", ["reenact exchange show e-1 --calls", "reenact regress exchange:e-1"]),
        ("s3://b/runs/1", ["reenact regress s3://b/runs/1"]),
    ],
    ids=["here", "capture", "exchange", "s3"],
)
def test_commands_that_can_be_copied(
    page: Page, tmp_path: Path, name: str, commands: list[str]
) -> None:
    tally = Tally()
    tally.add(Outcome(recording=name, status="failed", cause="KeyError", detail="KeyError"))
    account = Header(paths=[name], job=Job(), total=1)
    (tmp_path / "page.html").write_text(document(account, tally), encoding="utf-8")
    page.open((tmp_path / "page.html").as_uri())
    assert page.texts("#detail .copy code") == commands
