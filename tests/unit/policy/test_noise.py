"""Noise rules: one path in two notations, one filter for single values and for differences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.policy.noise import NoiseFilter, NoiseRule, parse_path_pattern

VALUE = {"a": [{"id": 1, "n": 1}, {"id": 2, "n": 2}], "b c": {"id": 3}, "id": 4}


@pytest.mark.parametrize(
    "json_path, pointer, left",
    [
        ("$.id", "/id", {"a": VALUE["a"], "b c": {"id": 3}}),
        ("$.a[0].id", "/a/0/id", {**VALUE, "a": [{"n": 1}, {"id": 2, "n": 2}]}),
        ("$.a[*].n", "/a/*/n", {**VALUE, "a": [{"id": 1}, {"id": 2}]}),
        ("$.a[1]", "/a/1", {**VALUE, "a": [{"id": 1, "n": 1}, None]}),
        ("$['b c'].*", "/b c/*", {**VALUE, "b c": {}}),
        ("$..id", "/**/id", {"a": [{"n": 1}, {"n": 2}], "b c": {}}),
    ],
)
def test_both_notations_of_a_path_name_the_same_parts(
    json_path: str, pointer: str, left: Any
) -> None:
    for path in (json_path, pointer):
        assert NoiseFilter([NoiseRule(path)]).strip(VALUE) == left


@pytest.mark.parametrize("text", ["id", "", "a/b"])
def test_a_path_without_a_beginning_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="begins with '\\$' or a slash"):
        parse_path_pattern(text)


def test_a_rule_above_a_value_removes_all_of_it() -> None:
    rules = NoiseFilter([NoiseRule("/calls/*", "present")])
    assert rules.strip({"request": 1}, path=("calls", "GET")) is None
    assert rules.strip({"request": 1}, path=("result",)) == {"request": 1}


def test_a_pattern_removes_only_texts_that_match_it() -> None:
    rules = NoiseFilter([NoiseRule("/**/id", "regex", "x-[0-9]+")])
    assert rules.strip({"id": "x-1", "in": {"id": "y-1"}}) == {"in": {"id": "y-1"}}


_steps = st.lists(st.sampled_from(["a", "b", "*", "**"]), max_size=5)
_places = st.lists(st.sampled_from(["a", "b"]), max_size=5)


def _slowly(pattern: list[str], place: list[str]) -> bool:
    if not pattern:
        return not place
    if pattern[0] == "**":
        return any(_slowly(pattern[1:], place[n:]) for n in range(len(place) + 1))
    return bool(place) and pattern[0] in ("*", place[0]) and _slowly(pattern[1:], place[1:])


@given(_steps, _places)
def test_a_pattern_names_a_place_as_its_definition_says(
    pattern: list[str], place: list[str]
) -> None:
    path, here = "/".join(("", "s", *pattern)), ("s", *place)
    exact = NoiseFilter([NoiseRule(path, "tolerance", absolute=1.0)])
    assert exact.about(here, 1, 2) == _slowly(pattern, place)
    above = any(_slowly(pattern, place[:n]) for n in range(len(place) + 1))
    assert NoiseFilter([NoiseRule(path)]).about(here, 1, 2) == above
