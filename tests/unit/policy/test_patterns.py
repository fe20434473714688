from __future__ import annotations

import re

import pytest

from reenact.errors import UsageError
from reenact.policy.patterns import check_pattern, fits, lazy_pattern


def test_a_late_pattern_finds_what_the_compiled_one_finds() -> None:
    text = "tea TEA coffee"
    ours, theirs = lazy_pattern("tea", re.IGNORECASE), re.compile("tea", re.IGNORECASE)
    for _ in ("compiles", "is compiled"):
        assert ours.findall(text) == theirs.findall(text)
        assert ours.sub("x", text) == theirs.sub("x", text)
        assert [one.span() for one in ours.finditer(text)] == [(0, 3), (4, 7)]
        assert ours.match("milk") is None


def test_the_source_is_known_before_anything_is_compiled() -> None:
    assert lazy_pattern("(").pattern == "("


def test_a_mistake_shows_at_the_first_use() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("text")


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
