"""Anything, made small enough to show."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reenact.engine.divergence.excerpts import Truncator, json_size, truncate_text
from reenact.policy.redaction.redactor import Redactor
from tests.property.values import VALUES

BOUNDS = Truncator(Redactor())
FILL = st.sampled_from(["", "x" * 500, "\U0001f600" * 400, "\x00" * 900, "é" * 3_000, "\\" * 99])
LONG = st.builds(lambda one, middle, two: one + middle + two, FILL, st.text(max_size=8), FILL)


@given(LONG, st.integers(60, 3_000))
def test_a_text_keeps_to_its_room(text: str, room: int) -> None:
    shown = truncate_text(text, room)
    assert json_size(shown) <= room
    assert (shown == text) == (json_size(text) <= room)


def test_a_cut_text_says_how_much_is_missing() -> None:
    assert truncate_text("x" * 1_300, 100) == "x" * 50 + "… (1,250 more characters)"


@given(st.one_of(VALUES, LONG, st.lists(LONG, max_size=70)), st.integers(60, 3_000))
def test_a_value_keeps_to_its_room(value: Any, room: int) -> None:
    shown, cut = BOUNDS.fitted(value, room)
    assert json_size(shown) <= room
    if not cut and not _has_marks(value):
        assert shown == value


def _has_marks(value: Any) -> bool:
    if isinstance(value, dict):
        return any("$" in key for key in value) or any(map(_has_marks, value.values()))
    if isinstance(value, list):
        return any(map(_has_marks, value))
    return isinstance(value, bytes)


@given(FILL, st.text(max_size=5), st.text(max_size=5), FILL, st.integers(100, 4_000))
@example("", "00000", "00001", "\U0001f600" * 400, 100)
def test_two_texts_that_differ_look_different(
    start: str, one: str, other: str, end: str, room: int
) -> None:
    left, right = start + one + end, start + other + end
    for mine, theirs in ((left, right), (left.encode(), right.encode())):
        shown = BOUNDS.pair(mine, theirs, room)
        assert (shown[0] == shown[1]) == (mine == theirs)
        assert max(map(json_size, shown)) <= room


def test_two_long_numbers_that_differ_look_different() -> None:
    one, other = BOUNDS.pair(10**300, 10**300 + 1, 100)
    assert one != other


@pytest.mark.parametrize(
    "value, shown",
    [
        (list(range(60)), [*range(50), "… (10 more items)"]),
        ({"$bytes": 1, "$x": 2}, {"$$bytes": 1, "$x": 2}),
        (b"abc", {"$bytes": "YWJj"}),
        (10**45, "1" + "0" * 39 + "… (46 digits)"),
        ([[[]]], [[[]]]),
        ((1, 2), [1, 2]),
    ],
)
def test_what_is_shown(value: Any, shown: Any) -> None:
    assert BOUNDS.value(value, 3_000) == shown


def test_deep_values_end_somewhere() -> None:
    value: Any = 1
    for _ in range(40):
        value = [value]
    shown = BOUNDS.value(value, 3_000)
    for _ in range(16):
        (shown,) = shown
    assert shown == "… (nested deeper)"


def test_many_fields() -> None:
    shown = BOUNDS.value({f"{number:03}": 1 for number in range(60)}, 3_000)
    assert list(shown)[-2:] == ["049", "…"]
    assert shown["…"] == "10 more fields"


def test_a_name_that_is_a_token_is_not_shown() -> None:
    token = "gh" + "p_" + "A1b2C3d4" * 5
    assert BOUNDS.value({token: {"a": 1}}, 3_000) == {"***REDACTED***": {"a": 1}}
    assert BOUNDS.path((token, 0), 200) == ("$['***REDACTED***'][0]", "$['***REDACTED***'][0]")
