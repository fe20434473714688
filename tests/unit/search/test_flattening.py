"""JSON as text to search in."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.search.extraction import MOST, flatten
from reenact.search.query import Term, excerpt


@pytest.mark.parametrize(
    "value,expected",
    [
        (
            {"city": "Bern", "people": 2, "warm": True, "no": None},
            "city: Bern\npeople: 2\nwarm: true",
        ),
        ({"a": {"b": ["x", 1]}, "c": []}, "a:\nb: x 1"),
        ([{"q": "one"}, {"q": "two"}], "q: one\nq: two"),
        ("a\n{", "a\n{"),
        (b"gr\xc3\xbc\xc3\x9fe", "grüße"),
        ({"picture": b"\x89PNG\xff"}, ""),
        (None, ""),
        ({"vector": [0.5] * 100, "near": [1, 2]}, "near: 1 2"),
    ],
)
def test_what_stands_in_it(value: Any, expected: str) -> None:
    assert flatten(value) == expected


def test_what_is_encoded_is_cut_and_so_is_what_is_endless() -> None:
    assert len(flatten({"data": "QUJD" * 5_000, "after": "end"})) < 300
    assert flatten({"data": "QUJD" * 5_000, "after": "end"}).endswith("after: end")
    assert len(flatten(["ab cd"] * (MOST // 4))) == MOST


@pytest.mark.parametrize("room", [1, 12, 13, 30, 200])
@pytest.mark.parametrize("before", [0, 3, 40])
def test_excerpts_have_room_for_what_was_found(room: int, before: int) -> None:
    text = "x" * before + "needle" + "\ty\n" * 20
    found = excerpt(text, [Term("NEEDLE"), Term("y", unwanted=True)], room)
    assert len(found.text) <= max(room, 12)
    assert found.marks
    start, end = found.marks[0]
    assert "needle".startswith(found.text[start:end])
    assert "\n" not in found.text
    assert "".join(piece for piece, _ in found.pieces()) == found.text


def test_marks_that_touch_are_one() -> None:
    assert excerpt("abcd", [Term("ab"), Term("bc"), Term("d")], 80).marks == [(0, 4)]
