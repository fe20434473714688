"""Rules about noise: read strictly, and never a way to keep a server busy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.exchange.comparison.noise import (
    NoiseRule,
    check_pattern,
    covers,
    dump_rules,
    fits,
    merged,
    read_rules,
)


def test_rules_are_read_and_written() -> None:
    given_ = [
        {"path": "/result/body/id"},
        {"path": "/calls/**/at", "kind": "regex", "pattern": "[0-9]+", "note": "clock"},
        {"path": "/processors/*/output/n", "kind": "tolerance", "relative": 0.5},
    ]
    rules = read_rules(given_)
    assert read_rules(dump_rules(rules)) == rules
    assert dump_rules(rules)["version"] == 1
    assert rules[0] == NoiseRule("/result/body/id")


@pytest.mark.parametrize(
    "value, problem",
    [
        ({"path": "result/body"}, "slash"),
        ({"path": "/results/body"}, "begins with 'results'"),
        ({"path": "/result/a~b"}, "tilde"),
        ({"path": "/result", "kind": "sometimes"}, "kind"),
        ({"path": "/result", "kind": "regex"}, "needs a pattern"),
        ({"path": "/result", "pattern": "x"}, "cannot have a pattern"),
        ({"path": "/result", "kind": "regex", "pattern": "("}, "regular expression"),
        ({"path": "/result", "kind": "tolerance"}, "needs absolute or relative"),
        ({"path": "/result", "kind": "tolerance", "absolute": -1}, "absolute"),
        ({"path": "/result", "unknown": 1}, "unknown"),
        ({"path": "/result" + "/a" * 100}, "more than 64 steps"),
        ({}, "path"),
        ("/result", "object"),
    ],
)
def test_what_is_wrong_is_said_with_the_number_of_the_rule(value: Any, problem: str) -> None:
    with pytest.raises(UsageError, match="noise rule 2: ") as caught:
        read_rules([{"path": "/result/body/id"}, value])
    assert problem in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("value", [None, {"rules": []}, {"version": 2, "rules": []}, "x", 3])
def test_another_document_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="not a list of noise rules"):
        read_rules(value)


def test_too_many_rules_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 1000"):
        read_rules([{"path": "/result"}] * 1_001)


def test_rules_are_merged_by_path_and_kind() -> None:
    old = (NoiseRule("/result/a"), NoiseRule("/result/b", "tolerance", absolute=1.0))
    new = (NoiseRule("/result/b", "tolerance", absolute=2.0), NoiseRule("/result/c"))
    assert merged(old, new) == (old[0], new[0], new[1])


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|a)*b",
        "(a*)*",
        "((a|b)?)*",
        "a*a*a*a*b",
        "(a*){5}",
        "(?=a)b",
        r"(a)\1",
        "(?P<x>a)",
        "(?i)a",
        "a?" * 30,
        "(a{1,9}){2,9}",
        "x" * 501,
        "(a|b|c){20}",
    ],
)
def test_patterns_that_could_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="regular expression"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern, text",
    [
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "01234567-89ab-cdef-0123-456789abcdef"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?", "2026-01-02T03:04:05.6Z"),
        (r"order-\d+", "order-17"),
        (r"(?:a|b){3}", "aba"),
        (r"a{2,}b{,3}c{,}", "aabb"),
        (r"[]()*+?{|}\\]+", "]()*+?{|}\\"),
        (r"{}x{a}", "{}x{a}"),
    ],
)
def test_patterns_that_are_used_in_earnest_are_fine(pattern: str, text: str) -> None:
    check_pattern(pattern)
    assert fits(pattern, text)
    assert not fits(pattern, text + "\n")


def test_a_long_text_never_fits() -> None:
    assert not fits("a*", "a" * 1_000)


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
    assert covers(pattern, place) == _slowly(pattern, place)
    above = any(_slowly(pattern, place[:n]) for n in range(len(place) + 1))
    assert covers(pattern, place, below=True) == above
