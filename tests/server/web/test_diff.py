"""Differences on pages: what was and what is can be told apart, also without colours."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reenact.exchange.model import Change
from reenact.server.web.components.diff import path_changes
from tests.browser.recording import HOSTILE

BOTH = {"type": "ValueError", "message": "first\nsecond"}


def shown(before: Any, after: Any, path: str = "/body/a") -> str:
    found = path_changes([Change(op="replace", path=path, before=before, after=after)])
    assert found is not None
    return str(found)


@pytest.mark.parametrize("one, other", [("tea", "kettle"), ("135", "35"), ("", "new")])
def test_short_words_do_not_run_into_each_other(one: str, other: str) -> None:
    assert re.findall(r'<code class="value">([^<]*)</code>', shown(one, other)) == [
        f"&quot;{one}&quot;",
        f"&quot;{other}&quot;",
    ]


def test_what_is_mostly_the_same_is_told_word_by_word() -> None:
    found = shown("http://stock.example/stock/tea", "http://stock.example/stock/kettle")
    assert "<del>tea</del><ins>kettle</ins>" in found


def test_an_error_has_its_lines() -> None:
    found = shown(None, BOTH, path="/error")
    assert "<b>ValueError</b> first\nsecond" in found
    assert "\\n" not in found


def test_a_body_that_looks_like_an_error_is_json() -> None:
    assert "&quot;type&quot;" in shown(None, BOTH)
    assert "&quot;type&quot;" in shown(None, {**BOTH, "more": 1}, path="/error")


def test_what_is_hostile_is_text() -> None:
    for evil in HOSTILE:
        for path in ("/error", "/body"):
            found = shown(evil, {"type": evil, "message": evil}, path=path)
            assert not re.search("<(script|img|svg|iframe|a)", found)
