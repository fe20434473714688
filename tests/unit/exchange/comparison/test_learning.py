"""Rules out of two unchanged replays."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.exchange.comparison.compare import compare
from reenact.exchange.comparison.route_noise import dump_rules, learn, read_rules
from reenact.policy.noise import NoiseRule
from tests.unit.exchange.comparison.samples import call, exchange, of_results, step


def _learnt(before: Any, after: Any) -> tuple[NoiseRule, ...]:
    return learn(of_results(before, after))


@pytest.mark.parametrize(
    "before, after, again, broken",
    [
        (
            "0a1b2c3d-0000-4000-8000-000000000001",
            "0a1b2c3d-0000-4000-8000-0000000000ff",
            "ffffffff-0000-4000-8000-000000000002",
            "none",
        ),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06.123Z", "2027-01-02T03:04:05+01:00", "never"),
        ("deadbeef01", "deadbeef02", "0123456789", "012345678"),
        (1.5, 1.6, 2.2, 99.0),
        (1001, 1002, 5_000_000, None),
        ("worker-a", "worker-b", "worker-zz", None),
    ],
)
def test_a_rule_is_as_narrow_as_what_was_seen(
    before: Any, after: Any, again: Any, broken: Any
) -> None:
    (rule,) = _learnt({"v": before}, {"v": after})
    assert rule.path == "/result/body/v"
    (given,) = dump_rules((rule,))["rules"]
    assert of_results({"v": before}, {"v": again}, given).verdict == "equivalent"
    without = {} if broken is None else {"v": broken}
    assert of_results({"v": before}, without, given).verdict == "diverged"


def test_what_differs_in_items_of_a_list_is_one_rule() -> None:
    before = {"items": [{"id": f"worker-{n}", "k": 1} for n in range(5)]}
    after = {"items": [{"id": f"other-{n}", "k": 1} for n in range(5)]}
    (rule,) = _learnt(before, after)
    assert (rule.path, rule.kind) == ("/result/body/items/*/id", "present")


def test_a_list_in_another_order_is_unordered() -> None:
    (rule,) = _learnt({"tags": ["a", "b", "c"]}, {"tags": ["c", "a", "b"]})
    assert (rule.path, rule.kind) == ("/result/body/tags", "unordered")


def test_what_is_learnt_of_processors_and_calls() -> None:
    before = exchange(processors=[step("a/b", 1, output={"n": "x"}), step("cache", 2)])
    after = exchange(processors=[step("a/b", 1, output={"n": "y"})])
    calls = ([call(1, response={"at": 1})], [call(1, response={"at": 2})])
    rules = learn(compare(before, after, *calls))
    assert [(one.path, one.kind) for one in rules] == [
        ("/calls/GET https:~1~1a.example~1x/response/at", "present"),
        ("/processors/a~1b/output/n", "present"),
        ("/processors/cache", "ignore"),
    ]
    assert compare(before, after, *calls, rules=rules).verdict == "equivalent"
    assert read_rules(dump_rules(rules)) == rules


def test_two_that_are_the_same_teach_nothing() -> None:
    assert _learnt({"a": 1}, {"a": 1}) == ()


def test_that_one_failed_is_never_noise() -> None:
    before, after = exchange(), exchange(error="KeyError")
    rules = learn(compare(before, after))
    assert compare(before, after, rules=rules).verdict == "regressed"


def test_shapes_that_disagree_become_the_weaker_rule() -> None:
    before = {"items": [{"v": 1.0}, {"v": "x"}, {}]}
    after = {"items": [{"v": 2.0}, {"v": "y"}, {}]}
    (rule,) = _learnt(before, after)
    assert (rule.path, rule.kind) == ("/result/body/items/*/v", "present")
