"""Another value at a path, where a run is forked."""

from __future__ import annotations

from typing import Any

import pytest

from reenact import UsageError
from reenact.engine.fork.plan import replace_at_path
from reenact.format.json_path import parse

DATA: dict[str, Any] = {"a": [{"b": 1}, {"b": 2}], "text": '{"c": {"d": 1}}', "empty": {}}


@pytest.mark.parametrize(
    "path, value, expected",
    [
        ("$.a[1].b", 9, {**DATA, "a": [{"b": 1}, {"b": 9}]}),
        ("$.a", None, {**DATA, "a": None}),
        ("$.text.c.d", "x", {**DATA, "text": '{"c":{"d":"x"}}'}),
        ("$.text", "x", {**DATA, "text": "x"}),
        ("$", 1, 1),
    ],
)
def test_a_value_is_replaced_in_a_copy(path: str, value: Any, expected: Any) -> None:
    before = repr(DATA)
    assert replace_at_path(DATA, parse(path), value) == expected
    assert repr(DATA) == before


@pytest.mark.parametrize(
    "path, hint",
    [
        ("$.a[2].b", "$.a with 2 items"),
        ("$.a[0].c", "$.a[0] with b"),
        ("$.b", "$ with a, text, empty"),
        ("$.empty.x", "$.empty (empty)"),
        ("$.text.c.e", "$.text.c with d"),
        ("$.a[0].b.c", "$.a[0].b"),
        ("$.text[0]", "$.text with c"),
    ],
)
def test_a_path_that_leads_nowhere_says_how_far_it_leads(path: str, hint: str) -> None:
    with pytest.raises(UsageError, match="leads nowhere") as raised:
        replace_at_path(DATA, parse(path), 1)
    assert raised.value.hint == f"the nearest that there is: {hint}"
