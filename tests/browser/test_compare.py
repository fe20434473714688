"""``reenact diff --html`` in a real browser: it shows what differs, and obeys nothing of it."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

import reenact
from reenact.cli.main import main
from tests.browser.conftest import Page
from tests.browser.reading import SCREENS, Screen, violations_at
from tests.browser.recording import CHAT, HOSTILE, PIXEL

OTHER_PIXEL = PIXEL[:41] + b"\x61" + PIXEL[42:]


class _World(httpx.BaseTransport):
    """Answers in two ways, ``one`` and another."""

    def __init__(self, one: bool) -> None:
        self._one = one

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        if request.url.path == "/picture":
            content = PIXEL if self._one else OTHER_PIXEL
            return httpx.Response(200, content=content, headers={"content-type": "image/png"})
        if request.url.path == "/bytes":
            return httpx.Response(200, content=bytes(range(128 + self._one)))
        if request.url.path == "/weather":
            return httpx.Response(200, json={"celsius": 21 if self._one else 19, "sky": "dry"})
        asked = json.loads(request.content)["messages"][-1]["content"]
        text = "It is warm in Bern." if self._one else "It is cold in Bern."
        message = {"role": "assistant", "content": f"{text} {asked}"}
        body = {
            "model": "gpt-5",
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 5 if self._one else 6},
        }
        return httpx.Response(200, json=body, headers={"x-evil": HOSTILE[2]})


def _run(path: Path, one: bool) -> None:
    with (
        httpx.Client(transport=_World(one)) as client,
        reenact.session(capture=path, mode="record", redaction="none") as session,
    ):
        _talk(client, one)
        client.get("https://files.example/weather")
        for place in ("picture", "bytes"):
            client.get(f"https://files.example/{place}")
        for name in ("a", "b", "c") if one else ("b", "c", "a"):
            session.call("look", {"name": name}, lambda: "found")
        if not one:
            for text in HOSTILE:
                session.call(text, {text: text}, lambda text=text: {text: text})  # type: ignore[misc]
        thread = Thread(target=session.call, args=("job", {"n": 1}, lambda: HOSTILE[0]))
        thread.start()
        thread.join()


def _talk(client: httpx.Client, one: bool) -> None:
    """Two turns, of which the second says again what was said in the first."""
    first = HOSTILE[0] if one else f"{HOSTILE[0]} {HOSTILE[2]}"
    said: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": first},
    ]
    for question in ("Warm?", "Warm?"):
        said.append({"role": "user", "content": question})
        answer = client.post(CHAT, json={"model": "gpt-5", "messages": said}).json()
        said.append(answer["choices"][0]["message"])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page about two runs."""
    folder = tmp_path_factory.mktemp("runs")
    _run(folder / "one", one=True)
    _run(folder / "other", one=False)
    target = folder / "diff.html"
    assert main(["diff", str(folder / "one"), str(folder / "other"), "--html", str(target)]) == 1
    return target.as_uri()


def test_both_runs_are_shown_and_nothing_is_loaded_or_run(page: Page, address: str) -> None:
    page.open(address)
    assert page.texts("#kinds button") == ["5 changed", f"{len(HOSTILE)} added", "1 moved"]
    assert page.texts("#facts") == ["3 the same"]
    rows = [row.split("\t") for row in page.texts(".total tr")]
    assert [row[6:8] for row in rows] == [["tokens in", "tokens out"], ["24", "10"], ["24", "12"]]
    shown = page.texts(".change .kind")
    assert [kind.lower() for kind in shown] == ["changed"] * 5 + ["added"] * len(HOSTILE) + [
        "moved"
    ]
    folds = page.page.locator("main details:not([open]) > summary")
    while folds.count():
        folds.first.click(position={"x": 5, "y": 5})
    assert page.page.title() == "one ↔ other"
    assert page.page.locator("main svg, main iframe, main script, main style").count() == 0
    assert page.said == []
    assert [one for one in page.asked_for if not one.startswith("data:image/png")] == [address]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("screen", SCREENS, ids=["-".join(map(str, one)) for one in SCREENS])
def test_everybody_can_read_it(page: Page, address: str, screen: Screen) -> None:
    assert violations_at(page, address, screen) == []


def test_words_paths_and_pictures_stand_side_by_side(page: Page, address: str) -> None:
    page.open(address)
    talk = page.page.locator(".change").first
    assert "Warm?" in talk.locator(".side.gone").last.inner_text()
    assert talk.locator("del").all_inner_texts() == ["warm"]
    assert talk.locator("ins").all_inner_texts() == [f" {HOSTILE[2]}", "cold"]
    assert talk.locator(".same summary").all_inner_texts() == ["1 message the same"] * 2
    weather = page.page.locator(".change").nth(2)
    assert weather.locator(".path").all_inner_texts() == ["$.response.body.celsius"]
    assert weather.locator(".side.gone .leaf").all_inner_texts() == ["21"]
    assert weather.locator(".side.new .leaf").all_inner_texts() == ["19"]
    wide = "image => image.naturalWidth"
    pictures = page.page.locator(".change").nth(3).locator("img")
    assert [one.evaluate(wide) for one in pictures.all()] == [1, 1]
    assert "00 01 02" in page.page.locator(".change").nth(4).locator("pre").first.inner_text()


def test_what_a_conversation_repeats_leads_to_where_it_was_said(page: Page, address: str) -> None:
    page.open(address)
    second = page.page.locator(".change").nth(1)
    assert second.locator(".gist").inner_text() == "only what differed before"
    second.locator("summary").first.click()
    second.locator(".over a").first.click()
    page.page.wait_for_selector(".change.picked")
    assert page.page.url.endswith("#change-A1-B1")
    assert "picked" in str(page.page.locator(".change").first.get_attribute("class"))


def test_keys_links_and_search(page: Page, address: str) -> None:
    page.open(address)
    for key in "nnp":
        page.page.keyboard.press(key)
    assert page.page.url.endswith("#change-A1-B1")
    page.page.keyboard.press("/")
    page.page.keyboard.type("celsius 19")
    assert page.texts(".change:visible > summary b") == ["GET https://files.example/weather"]
    assert page.page.locator(".same:visible > summary", has_text="call").count() == 0
    page.page.keyboard.press("Escape")
    assert page.page.locator(".change:visible").count() == 6 + len(HOSTILE)
    page.page.keyboard.press("n")
    link = page.page.url
    page.open("about:blank")
    page.open(link)
    picked = page.page.locator(".change.picked")
    assert picked.locator("summary b").first.inner_text() == "openai/gpt-5"
    page.page.keyboard.press("o")
    assert picked.get_attribute("open") is None
    colour = "getComputedStyle(document.body).backgroundColor"
    day = page.page.evaluate(colour)
    page.page.keyboard.press("t")
    assert page.page.evaluate(colour) != day


def test_kinds_can_be_left_out_and_a_link_brings_them_back(page: Page, address: str) -> None:
    page.open(address)
    page.page.locator("#kinds button", has_text="changed").click()
    assert page.page.locator(".change.changed:visible").count() == 0
    assert page.page.locator(".change:visible").count() == 1 + len(HOSTILE)
    page.page.evaluate("location.hash = '#change-A1-B1'")
    page.page.wait_for_selector(".change.picked")
    assert page.page.locator(".change.changed:visible").count() == 5


def test_a_narrow_screen_shows_one_below_the_other(page: Page, address: str) -> None:
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.open(address)
    boxes = [
        page.page.locator(f".change >> nth=2 >> .side.{name}").bounding_box()
        for name in ("gone", "new")
    ]
    assert boxes[0]["x"] == boxes[1]["x"]
    assert boxes[0]["y"] < boxes[1]["y"]
    assert page.page.evaluate("document.documentElement.scrollWidth") == 390


def test_many_differences_are_shown_a_part_at_a_time(page: Page, tmp_path: Path) -> None:
    for name, said in (("one", "x"), ("other", "y")):
        with reenact.session(capture=tmp_path / name, mode="record") as session:
            for number in range(450):
                session.call("look", {"number": number}, lambda said=said: said)  # type: ignore[misc]
    target = tmp_path / "many.html"
    words = ["diff", str(tmp_path / "one"), str(tmp_path / "other"), "--html", str(target)]
    assert main(words) == 1
    page.open(target.as_uri())
    assert page.page.locator(".change").count() == 200
    page.page.locator("button", has_text="250 more").click()
    assert page.page.locator(".change").count() == 400
    page.open(f"{target.as_uri()}#change-A899-B899")
    page.page.reload()
    assert page.page.locator(".change").count() == 450
    assert page.page.locator(".change.picked").is_visible()
