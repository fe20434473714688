"""What the page about two runs is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import reenact
from reenact.views.compare import Comparison
from reenact.views.content import message_pairs, without_messages
from reenact.views.html.compare_page import compare_contents, compare_page
from reenact.views.html.values import key_of, page_value

PNG = b"\x89PNG\r\n\x1a\n and more"


@pytest.mark.parametrize(
    "value, expected",
    [
        ({"a": [1, None, "x"]}, {"json": {"a": [1, None, "x"]}}),
        (PNG, {"image": "image/png", "data": "iVBORw0KGgogYW5kIG1vcmU="}),
        (b"RIFF....WEBP", {"image": "image/webp", "data": "UklGRi4uLi5XRUJQ"}),
        (b"\x00\xff", {"hex": "00 ff", "size": 2}),
        (2**60, {"json": str(2**60)}),
        ({"$image": "text/html", "data": "x"}, {"json": {"$image": "text/html", "data": "x"}}),
    ],
    ids=["json", "png", "webp", "bytes", "large", "hostile"],
)
def test_values_become_what_a_browser_can_show(value: Any, expected: Any) -> None:
    assert page_value(value) == expected


def test_bytes_and_long_texts_inside_are_told_of() -> None:
    told = page_value({"file": b"abc", "text": "x" * 300_000})["json"]
    assert told["file"].startswith("3 bytes, sha256:")
    assert told["text"].endswith("x … (300,000 characters)")


def test_keys_tell_what_json_tells_apart() -> None:
    values = [1, "1", True, None, "None", [1], {"a": 1}, "\ud800", b"a"]
    assert len({key_of(value) for value in values}) == len(values)


def test_messages_of_the_same_role_stand_against_each_other() -> None:
    def said(*words: str) -> list[dict[str, Any]]:
        return [{"role": word[0], "text": word} for word in words]

    mine, theirs = said("s1", "u1", "a1", "u2"), said("s1", "u9", "t1", "a1", "u2", "a2")
    pairs = [
        (one and one["text"], other and other["text"]) for one, other in message_pairs(mine, theirs)
    ]
    assert pairs == [
        ("s1", "s1"),
        ("u1", "u9"),
        (None, "t1"),
        ("a1", "a1"),
        ("u2", "u2"),
        (None, "a2"),
    ]


def test_the_conversation_is_not_told_twice() -> None:
    said = {"request": {"url": "u", "body": {"model": "m", "messages": [1, 2]}}, "response": 3}
    assert without_messages(said) == {
        "request": {"url": "u", "body": {"model": "m"}},
        "response": 3,
    }
    assert without_messages({"request": "text"}) == {"request": "text"}


class _Model(httpx.BaseTransport):
    def __init__(self, first: str) -> None:
        self._first = first

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.read())["messages"]
        text = self._first if len(asked) == 1 else "Fine."
        message = {"role": "assistant", "content": text}
        body = json.dumps({"model": "m", "choices": [{"message": message}]})
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})


def _talk(path: Path, first: str, turns: int) -> Path:
    url = "https://api.openai.com/v1/chat/completions"
    messages: list[Any] = []
    with (
        httpx.Client(transport=_Model(first)) as client,
        reenact.session(capture=path, mode="record"),
    ):
        for number in range(turns):
            messages.append({"role": "user", "content": f"Question {number}. {'And so on. ' * 40}"})
            answer = client.post(url, json={"model": "m", "messages": messages}).json()
            messages.append(answer["choices"][0]["message"])
    return path


def _contents(one: Path, other: Path) -> Any:
    with reenact.open_recording(one) as first, reenact.open_recording(other) as second:
        found = Comparison(first, second)
        return compare_contents(found, found.lanes(), ("one", first), ("other", second))


def test_a_page_grows_with_what_is_new(tmp_path: Path) -> None:
    sizes = []
    for turns in (10, 20, 40):
        folder = tmp_path / str(turns)
        runs = _talk(folder / "a", "Warm.", turns), _talk(folder / "b", "Cold.", turns)
        sizes.append(len(json.dumps(_contents(*runs))))
    assert sizes[2] - sizes[1] < 2.5 * (sizes[1] - sizes[0])


def test_a_turn_that_says_again_what_differed_is_marked(tmp_path: Path) -> None:
    runs = _talk(tmp_path / "a", "Warm.", 3), _talk(tmp_path / "b", "Cold.", 3)
    (lane,) = _contents(*runs)["lanes"]
    assert [part["repeats"] for part in lane["parts"]] == [False, True, True]
    second = lane["parts"][1]["talk"]
    assert [turn.get("again") for turn in second] == [None, 1, None]


def test_half_characters_and_markup_are_text_in_the_page(tmp_path: Path) -> None:
    runs = _talk(tmp_path / "a", "\ud800 </script>", 1), _talk(tmp_path / "b", "\u2028<b>", 1)
    page = compare_page(_contents(*runs))
    assert page.encode()
    assert page.count("</script>") == 2
    assert "<b>" not in page
