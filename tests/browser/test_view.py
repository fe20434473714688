"""``reenact view`` in a real browser: it shows what was recorded, and can be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import reenact
from reenact.cli.main import main
from reenact.views.html.run_page import run_page
from tests.browser.conftest import Page
from tests.browser.recording import World, ask, record


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with two lanes."""
    target = tmp_path_factory.mktemp("view") / "run"
    record(target)
    return target


@pytest.fixture(scope="module")
def address(run: Path) -> str:
    """A page about it."""
    target = run.with_suffix(".html")
    assert main(["view", str(run), "-o", str(target)]) == 0
    return target.as_uri()


def _go(page: Page, address: str, seq: int) -> None:
    """To an event, by its link."""
    page.open("about:blank")
    page.open(f"{address}#event-{seq}")


def test_the_page_begins_with_the_run_as_a_whole(page: Page, address: str) -> None:
    page.open(address)
    facts = page.texts("#facts")[0]
    assert "15 calls · 2 lanes" in facts
    assert "48 tokens in, 20 out" in facts
    sums = {row.split("\t")[0]: row.split("\t")[1:] for row in page.texts(".sums tbody tr")}
    assert sums["openai/gpt-5"][0] == "5"
    assert sums["network files.example"][:2] == ["9", "3"]
    assert sums["all together"][-2:] == ["48", "20"]
    assert {"0", "0.2"} <= set(sums)
    assert page.texts("#detail .plain li a")[-3:] == ["event 9", "event 10", "event 11"]
    page.page.locator("#detail .plain li a").last.click()
    page.page.wait_for_selector("#detail h2:text-is('POST https://files.example/form')")


def test_a_model_call_is_a_conversation(page: Page, address: str) -> None:
    _go(page, address, 14)
    assert page.texts("#detail h3") == ["3 MESSAGES", "ANSWER"]
    folded = page.page.locator(".said").first
    assert folded.get_attribute("open") is None
    folded.locator("summary").click()
    page.page.wait_for_selector(".said.user .text:text-is('Is it warm?')")
    assert folded.get_attribute("open") is not None
    assert any(text.startswith("result of <img") for text in page.texts(".said.tool summary"))
    assert page.count(".said.assistant .text:has-text('You said')") == 2
    assert "choice 2" in page.texts("#detail")[0]
    _go(page, address, 16)
    assert "It is warm." in page.texts(".said.assistant .text")
    assert "streamed" in page.texts("#detail p.facts")[1]
    page.page.locator("summary:text-is('reasoning')").click()
    page.page.wait_for_selector(".said.assistant .text:text-is('Hm: Bern.')")
    page.page.locator(".wire > summary").click()
    page.page.wait_for_selector(".events")
    assert page.count(".events li") == 4


def test_bodies_are_shown_as_what_they_are(page: Page, address: str) -> None:
    width = "image => image.decode().then(() => image.naturalWidth)"
    for seq in (3, 11, 18):
        _go(page, address, seq)
        assert page.page.locator("#detail img").evaluate(width) == 1
    for seq in (4, 5):
        _go(page, address, seq)
        assert page.count("#detail img, #detail svg, #detail iframe") == 0
        assert "<svg onload" in page.texts("#detail pre")[0]
    _go(page, address, 6)
    assert page.texts(".events .tag") == ["step"]
    assert page.texts(".events li .text") == ["half"]
    _go(page, address, 7)
    first, second = page.texts("#detail pre")[0].splitlines()[:2]
    assert first.startswith("000000  00 01 02 03")
    assert page.texts("#detail pre")[0].splitlines()[4].endswith("@ABCDEFGHIJKLMNO")
    assert second.startswith("000010")
    _go(page, address, 8)
    assert "unpacked:" in page.texts("#detail .json")[0]
    _go(page, address, 9)
    assert "1152921504606846977" in page.texts("#detail .json .num")
    _go(page, address, 10)
    assert page.texts("#detail td") == ["name", "<script>document.title='owned'</script>"]


def test_searching_marks_counts_and_goes_from_hit_to_hit(page: Page, address: str) -> None:
    page.open(address)
    page.press("/")
    page.page.keyboard.type("second question")
    assert page.page.locator("#list li").count() == 1
    assert set(page.texts("mark")) == {"second", "question"}
    assert page.texts("#hits") == ["1 of 1 step · 5 hits here"]
    page.press("Enter", "Enter")
    assert page.texts("#hits") == ["1 of 1 step · 2 of 5 hits here"]
    assert page.count("mark.now") == 1
    page.press("Escape")
    assert page.count("mark") == 0
    page.press("/")
    page.page.keyboard.type('"second question"')
    assert set(page.texts("mark")) == {"second question"}
    page.page.fill("#find", "celsius")
    assert page.texts("#hits") == ["1 of 1 step · 4 hits here"]
    page.page.fill("#find", "files.example failed")
    assert page.count("#list li") == 3
    page.page.locator("#detail").click(position={"x": 2, "y": 2})
    for _ in range(40):
        page.press("n")
        if page.texts("#hits")[0].startswith("3 of 3"):
            break
    assert page.texts("#detail h2") == ["POST https://files.example/form"]
    page.page.fill("#find", "no such thing")
    assert page.texts("#hits") == ["nothing"]
    assert page.page.locator("#none").is_visible()


def test_a_hit_on_the_wire_alone_is_unfolded(page: Page, address: str) -> None:
    _go(page, address, 1)
    page.press("/")
    page.page.keyboard.type("x-evil")
    page.page.wait_for_selector(".wire mark")
    assert page.texts("#hits")[0].endswith("here")


def test_links_and_keys(page: Page, address: str) -> None:
    page.open(address)
    page.press("j", "j")
    link = page.page.url
    assert link.endswith("#event-3")
    assert page.texts("#list li[aria-selected=true] b")[0].startswith("GET /picture?q=")
    page.open("about:blank")
    page.open(link)
    heading = page.texts("#detail h2")[0]
    assert heading.startswith("GET https://files.example/picture")
    page.press("k")
    assert page.texts("#detail h2") == ["openai/gpt-5"]
    page.press("k")
    assert page.page.url.endswith("#summary")
    page.press("End")
    assert page.page.url.endswith("#event-20")
    page.press("e")
    assert page.page.url.endswith("#event-9")
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.press("c")
    page.page.wait_for_selector("button.copy:text-is('copied')")
    assert page.page.evaluate("navigator.clipboard.readText()") == f"{address}#event-9"


def test_help_says_every_key_and_takes_the_others(page: Page, address: str) -> None:
    page.open(address)
    page.press("?")
    assert page.page.locator("#help").is_visible()
    keys = page.texts("#help kbd")
    assert {"j", "/", "?", "0", "↓"} <= set(keys)
    assert len(keys) == len(set(keys))
    before = page.page.url
    page.press("j")
    assert page.page.url == before
    page.press("Escape")
    assert not page.page.locator("#help").is_visible()


def test_time_can_be_zoomed_by_keys_wheel_and_dragging(page: Page, address: str) -> None:
    page.open(address)
    assert page.count("#lanes .lane") == 2
    drawn = "() => JSON.stringify(view)"
    whole = page.page.evaluate(drawn)
    box = page.page.locator("#axis").bounding_box()
    assert box is not None
    middle, row = box["x"] + box["width"] / 2, box["y"] + 10

    def changed() -> bool:
        found: bool = page.page.evaluate(drawn) != whole
        page.press("0")
        assert page.page.evaluate(drawn) == whole
        return found

    page.press("+")
    assert changed()
    page.page.mouse.move(middle, row)
    page.page.mouse.wheel(0, -100)
    page.page.evaluate(
        """async (whole) => {
            while (JSON.stringify(view) === whole) await new Promise(requestAnimationFrame);
        }""",
        whole,
    )
    assert changed()
    page.page.mouse.down()
    page.page.mouse.move(middle + 200, row, steps=3)
    assert page.page.locator("#range").is_visible()
    page.page.mouse.up()
    from_here, to_there = json.loads(page.page.evaluate(drawn))
    start, end = json.loads(whole)
    assert (to_there - from_here) / (end - start) == pytest.approx(200 / box["width"], abs=0.02)
    assert not page.page.locator("#range").is_visible()
    assert changed()
    page.press("o")
    page.page.wait_for_selector("#axis span:has-text('event')")
    assert page.page.locator("#order").get_attribute("aria-pressed") == "true"


def test_the_night_begins(page: Page, address: str) -> None:
    page.open(address)
    colour = "getComputedStyle(document.body).backgroundColor"
    day = page.page.evaluate(colour)
    page.press("t")
    assert page.page.evaluate(colour) != day


def test_on_a_phone_there_is_the_list_or_one_step(page: Page, address: str) -> None:
    page.page.set_viewport_size({"width": 390, "height": 800})
    page.open(address)
    assert page.page.locator("#list").is_visible()
    assert not page.page.locator("#detail").is_visible()
    page.page.locator("#list li").nth(1).click()
    assert not page.page.locator("#list").is_visible()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    page.page.locator(".back").click()
    assert page.page.locator("#list").is_visible()
    _go(page, address, 16)
    assert page.page.locator("#detail").is_visible()


def test_everything_has_a_name_and_the_list_says_what_is_chosen(page: Page, address: str) -> None:
    page.open(address)
    page.press("j")
    nameless = page.page.evaluate(
        "[...document.querySelectorAll('button, input, [role=listbox], main, section, dialog')]"
        ".filter((one) => !(one.ariaLabel || one.title || one.textContent.trim())).length"
    )
    assert nameless == 0
    chosen = page.page.locator("#list").get_attribute("aria-activedescendant")
    assert page.page.locator(f"#{chosen}").get_attribute("aria-selected") == "true"


def test_divergences_are_marked_in_place(page: Page, tmp_path: Path, run: Path) -> None:
    session = reenact.session(capture=run, mode="replay", strict=False, unused="allow")
    with httpx.Client(transport=World()) as client, session:
        ask(client, "first question", "another question")
    report = session.report().to_json()
    beyond = {**report["divergences"][0], "eventSeq": 9_999, "detail": "somewhere else"}
    report["divergences"].append(beyond)
    written = tmp_path / "report.json"
    written.write_text(json.dumps(report), encoding="utf-8")
    target = tmp_path / "marked.html"
    words = ["view", str(run), "-o", str(target), "--report", str(written)]
    assert main(words) == 0
    page.open(target.as_uri())
    assert page.count(".bar.bad") == 1
    assert "event_payload_mismatch" in page.texts(".diverged b")
    assert page.texts(".diverged .gone") == ["second question"]
    assert page.texts(".diverged .come") == ["another question"]
    assert page.count("#list .wrong[title=diverged]") == 1
    page.press("s")
    assert "somewhere else" in page.texts(".diverged")[0]
    page.press("d")
    assert page.texts("#detail h2") == ["openai/gpt-5"]


def _many(number: int) -> dict[str, Any]:
    lanes = [f"0.{lane}" for lane in range(200)]
    steps = [
        {
            "seq": seq,
            "closed": seq,
            "lane": lanes[seq % 200],
            "kind": "tool",
            "name": f"tool{seq}",
            "start": seq,
            "end": seq + 1 + 500 * (seq % 7 == 0),
            "detail": {"what": "tool", "given": {"$t": seq - 1}, "gave": None},
        }
        for seq in range(1, number + 1)
    ]
    about = {
        "status": "ok",
        "mode": "capture",
        "captureId": "cap_1",
        "events": number,
        "redaction": "default",
        "environment": {},
    }
    return {
        "name": "many",
        "about": about,
        "begun": 0,
        "lanes": lanes,
        "steps": steps,
        "draws": {},
        "table": [{"number": f"number {row}" + " and so on" * 8} for row in range(number)],
        "elsewhere": [],
    }


def test_of_ten_thousand_steps_only_those_in_sight_are_there(page: Page, tmp_path: Path) -> None:
    target = tmp_path / "many.html"
    target.write_text(run_page("many", _many(10_000)), encoding="utf-8")
    page.open(target.as_uri())
    there = "document.querySelectorAll('*').length"
    assert page.page.evaluate(there) < 4_000
    assert 5 < page.count("#lanes .lane") < 50
    assert 10 < page.count("#list li") < 50
    page.press("End")
    page.page.wait_for_selector("#step-10000")
    assert page.texts("#detail h2") == ["tool10000"]
    assert page.page.locator("#lanes .lane:has-text('0.0')").first.is_visible()
    page.press("/")
    page.page.keyboard.type('"number 7777 "')
    page.page.wait_for_selector("#hits:has-text('1 of 1 step')")
    assert page.texts("#detail h2") == ["tool7778"]
    assert page.page.evaluate(there) < 4_000
    assert page.said == []
