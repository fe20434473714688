"""Noise rules of a route: read strictly."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.errors import UsageError
from reenact.exchange.comparison.route_noise import dump_rules, merged, read_rules
from reenact.policy.noise import NoiseRule


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
