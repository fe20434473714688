from __future__ import annotations

import re

import pytest

from reenact.policy.patterns import lazy_pattern


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
