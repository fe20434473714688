"""Views undo escapes, and every place in them leads back to the text as it is."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.policy.redaction.text import View, fold, unquote

ROW = "中文字"
"""Written as JSON it is nothing but escapes."""


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


@pytest.mark.parametrize(
    "text, plain",
    [
        ("no escapes", "no escapes"),
        (_ascii(ROW), ROW),
        (_ascii(f"a{ROW}\n{ROW}b"), f"a{ROW}\n{ROW}b"),
        (r"\u0073k-x", "sk-x"),
        (r"\\\\u0073k", "sk"),
        (r"\u0073\u0022\u0074", r"s\"t"),
        (r"a\"b", r"a\"b"),
        (r"\u005c\u0041\u005C", r"\u005cA\u005C"),
        (r"\ud83d\ude00\u0041", r"\ud83d\ude00A"),
        (r"\x00\x9fz\x41", "\0\0z\\x41"),
        (r"\u12\u004g", r"\u12\u004g"),
    ],
    ids=repr,
)
def test_escapes_are_undone(text: str, plain: str) -> None:
    assert fold(text).text == plain


@pytest.mark.parametrize(
    "text, plain",
    [("%73k%2Dx", "sk-x"), ("a%20b", "a b"), ("%41%42%43", "ABC"), ("%%41%4", "%A%4")],
    ids=repr,
)
def test_percent_encoding_is_undone(text: str, plain: str) -> None:
    view = unquote(View(text))
    assert view is not None
    assert view.text == plain


def test_without_percent_encoding_there_is_no_other_view() -> None:
    assert unquote(View("100 %, %zz, %c3%bc")) is None


def test_places_in_a_long_row_lead_back() -> None:
    view = fold(_ascii(ROW * 10_000) + " end")
    assert [view.original(place) for place in (0, 1, 29_999, 30_000)] == [0, 6, 179_994, 180_000]
    assert view.original(len(view.text)) == 180_004


_ESCAPES = re.compile(r"\\(?:u[0-9a-f]{4}|[nrtbf])|%[2-7][0-9a-f]", re.IGNORECASE)


@given(st.text(st.sampled_from("aü中\n\r\t😀 "), max_size=40))
def test_each_character_leads_back_to_its_own_escape(text: str) -> None:
    written = _ascii(text)
    view = fold(written)
    for place, char in enumerate(view.text):
        start, end = view.original(place), view.original(place + 1)
        assert fold(written[start:end]).text == char


@given(st.text(st.sampled_from("a=b&/ü ?"), max_size=40))
def test_each_character_leads_back_through_two_views(text: str) -> None:
    written = _ascii(quote(text, safe="=&"))
    view = unquote(fold(written)) or fold(written)
    assert view.original(0) == 0
    assert view.original(len(view.text)) == len(written)
    for place in range(len(view.text)):
        piece = written[view.original(place) : view.original(place + 1)]
        assert piece == view.text[place] or _ESCAPES.fullmatch(piece)
