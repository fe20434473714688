"""``reenact view`` in a real browser: it shows what was recorded, and obeys nothing of it."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread

import httpx
import pytest

import reenact
from reenact.cli.main import main
from tests.browser.conftest import Page

URL = "https://api.openai.com/v1/chat/completions"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cfc00000"
    "030001017a3b9d0000000049454e44ae426082"
)

HOSTILE = [
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<svg onload=\"document.title='owned'\"><script>document.title='owned'</script></svg>",
    "javascript:document.title='owned'",
    "<!--<script>",
    "]]><iframe srcdoc=\"<script>parent.document.title='owned'</script>\"></iframe>",
    "\u2028\u2029<style>*{display:none}</style>",
]


class _World(httpx.BaseTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        if request.url.path == "/picture":
            return httpx.Response(200, content=PIXEL, headers={"content-type": "image/png"})
        if request.url.path == "/drawing":
            content = HOSTILE[3].encode()
            return httpx.Response(200, content=content, headers={"content-type": "image/svg+xml"})
        if request.url.path == "/bytes":
            return httpx.Response(200, content=bytes(range(256)))
        asked = json.loads(request.content)["messages"][-1]["content"]
        message = {"role": "assistant", "content": f"You said: {asked}"}
        body = {
            "model": "gpt-5",
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 5},
        }
        return httpx.Response(200, json=body, headers={"x-evil": HOSTILE[2]})


def _ask(client: httpx.Client, *words: str) -> None:
    messages = [{"role": "user", "content": word} for word in words]
    client.post(URL, json={"model": "gpt-5", "messages": messages})


@pytest.fixture
def address(tmp_path: Path) -> str:
    """A page about a run with two lanes."""
    with (
        httpx.Client(transport=_World()) as client,
        reenact.session(capture=tmp_path / "run", mode="record", redaction="none"),
    ):
        _ask(client, "first question", "second question")
        for place in ("picture", "drawing", "bytes"):
            client.get(f"https://files.example/{place}")
        thread = Thread(target=_ask, args=(client, *HOSTILE))
        thread.start()
        thread.join()
    target = tmp_path / "run.html"
    assert main(["view", str(tmp_path / "run"), "-o", str(target)]) == 0
    return target.as_uri()


def test_a_run_is_shown_and_nothing_is_loaded_or_run(page: Page, address: str) -> None:
    page.open(address)
    assert page.texts("#list li .what b") == [
        "openai/gpt-5",
        "GET https://files.example/picture",
        "GET https://files.example/drawing",
        "GET https://files.example/bytes",
        "openai/gpt-5",
    ]
    assert "24 tokens in, 10 out" in page.texts("#facts")[0]
    assert page.page.locator(".lane:not(.axis)").count() == 2
    assert page.page.locator(".bar").count() == 5
    for item in page.page.locator("#list li").all():
        item.click()
        folds = page.page.locator("#detail details:not([open]) > summary")
        while folds.count():
            folds.first.click()
    assert page.page.title() == "run"
    assert page.said == []
    assert [one for one in page.asked_for if not one.startswith("data:image/png")] == [address]


def test_what_is_hostile_is_text(page: Page, address: str) -> None:
    page.open(address)
    page.page.locator("#list li").last.click()
    shown = "\n".join(page.page.locator("#detail .text").all_text_contents())
    for text in HOSTILE:
        assert text in shown
    assert page.page.title() == "run"
    assert (
        page.page.locator("#detail img, #detail svg, #detail iframe, #detail script").count() == 0
    )


def test_pictures_are_shown_and_drawings_and_bytes_are_not(page: Page, address: str) -> None:
    page.open(address)
    page.page.locator("#list li").nth(1).click()
    picture = page.page.locator("#detail img")
    assert picture.evaluate("image => image.naturalWidth") == 1
    page.page.locator("#list li").nth(2).click()
    assert page.page.locator("#detail img, #detail svg").count() == 0
    page.page.locator("#list li").nth(3).click()
    assert "00 01 02 03" in page.texts("#detail pre")[0]


def test_searching_links_and_keys(page: Page, address: str) -> None:
    page.open(address)
    page.page.keyboard.press("/")
    page.page.keyboard.type("second question")
    assert page.page.locator("#list li:visible").count() == 1
    page.page.keyboard.press("Escape")
    assert page.page.locator("#list li:visible").count() == 5
    page.page.keyboard.press("j")
    link = page.page.url
    assert "#event-" in link
    assert page.texts("#detail h2") == ["GET https://files.example/picture"]
    page.open("about:blank")
    page.open(link)
    assert page.texts("#detail h2") == ["GET https://files.example/picture"]
    page.page.keyboard.press("k")
    assert page.texts("#detail h2") == ["openai/gpt-5"]


def test_time_can_be_zoomed_and_the_night_begins(page: Page, address: str) -> None:
    page.open(address)
    before = page.texts("#axis span")
    page.page.keyboard.press("+")
    assert page.texts("#axis span") != before
    page.page.keyboard.press("0")
    assert page.texts("#axis span") == before
    colour = "getComputedStyle(document.body).backgroundColor"
    day = page.page.evaluate(colour)
    page.page.keyboard.press("t")
    assert page.page.evaluate(colour) != day


def test_divergences_are_marked_in_place(page: Page, tmp_path: Path, address: str) -> None:
    session = reenact.session(capture=tmp_path / "run", mode="replay", strict=False, unused="allow")
    with httpx.Client(transport=_World()) as client, session:
        _ask(client, "first question", "another question")
    report = tmp_path / "report.json"
    report.write_text(json.dumps(session.report().to_json()), encoding="utf-8")
    target = tmp_path / "marked.html"
    words = ["view", str(tmp_path / "run"), "-o", str(target), "--report", str(report)]
    assert main(words) == 0
    page.open(target.as_uri())
    assert page.page.locator(".bar.bad").count() == 1
    assert "event_payload_mismatch" in page.texts(".diverged b")
    assert "another question" in page.texts(".diverged pre")[0]
