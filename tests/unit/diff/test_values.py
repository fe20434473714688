"""Every place where two values differ."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.diff.values import Difference, differences
from reenact.errors import ValueRefused
from reenact.format.json_path import Path, join, normalised_path


def found(expected: Any, observed: Any) -> list[tuple[str, str, Any, Any]]:
    return [
        (join(one.path), one.kind, one.expected, one.observed)
        for one in differences(expected, observed)
    ]


@pytest.mark.parametrize(
    "one, other",
    [
        (1, 1.0),
        (0, -0.0),
        ([1, 2], (1.0, 2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (b"x", b"x"),
        (10**20, 1e20),
        (123456789012345680000, 1.2345678901234568e20),
        ([], ()),
    ],
)
def test_equal_in_canonical_json_is_equal(one: Any, other: Any) -> None:
    assert differences(one, other) == []


@pytest.mark.parametrize(
    "one, other",
    [
        (1, True),
        (0, False),
        (None, False),
        ("1", 1),
        ("x", b"x"),
        ({}, []),
        ("", None),
        (2**53, 2**53 + 1),
        (10**22, 1e22),
        ({"$bytes": "eA=="}, b"x"),
        (0.1, 0.1 + 2**-55),
    ],
)
def test_what_is_not_the_same_differs_as_a_whole(one: Any, other: Any) -> None:
    assert differences(one, other) == [Difference((), "changed", one, other)]


def test_all_places_in_the_order_of_a_walk() -> None:
    expected = {"b": [1, {"y": 1, "x": 1}, 3], "a": "old", "gone": None, "same": [1]}
    observed = {"new": 0, "same": [1], "b": [1, {"x": 2, "z": 1}, 3], "a": "new"}
    assert found(expected, observed) == [
        ("$.a", "changed", "old", "new"),
        ("$.b[1].x", "changed", 1, 2),
        ("$.b[1].y", "removed", 1, None),
        ("$.b[1].z", "added", None, 1),
        ("$.gone", "removed", None, None),
        ("$.new", "added", None, 0),
    ]


@pytest.mark.parametrize(
    "expected, observed, places",
    [
        ("abc", "abXc", [("$[2]", "added")]),
        ("abc", "Xabc", [("$[0]", "added")]),
        ("abc", "abcX", [("$[3]", "added")]),
        ("abc", "ac", [("$[1]", "removed")]),
        ("abc", "", [("$[0]", "removed"), ("$[1]", "removed"), ("$[2]", "removed")]),
        ("aa", "aaa", [("$[2]", "added")]),
        ("abc", "aXc", [("$[1]", "changed")]),
        ("abcd", "aXYZd", [("$[1]", "changed"), ("$[2]", "changed"), ("$[3]", "added")]),
        ("abcd", "aXd", [("$[1]", "changed"), ("$[2]", "removed")]),
    ],
)
def test_lists_are_aligned_at_both_ends(
    expected: str, observed: str, places: list[tuple[str, str]]
) -> None:
    assert [one[:2] for one in found(list(expected), list(observed))] == places


def test_one_inserted_message_is_one_difference() -> None:
    messages = [{"role": "user", "content": str(number)} for number in range(40)]
    longer = [*messages[:20], {"role": "system", "content": "new"}, *messages[20:]]
    assert found({"messages": messages}, {"messages": longer}) == [
        ("$.messages[20]", "added", None, {"role": "system", "content": "new"})
    ]


def test_limit_gives_the_first_ones() -> None:
    one, other = {str(n): n for n in range(9)}, {str(n): -n - 1 for n in range(9)}
    assert differences(one, other, limit=3) == differences(one, other)[:3]
    assert differences(one, other, limit=0) == []
    assert differences(one, one, limit=3) == []


def test_twenty_thousand_elements() -> None:
    expected = [{"n": number, "tags": ["a", "b"]} for number in range(20_000)]
    observed = [*expected[:10_000], "new", *expected[10_000:]]
    assert found(expected, observed) == [("$[10000]", "added", None, "new")]
    assert len(differences(expected, ["x"] * 20_000)) == 20_000


def test_wide_at_every_one_of_200_levels() -> None:
    """A difference at the bottom must not make every level compare all that is below it again."""
    expected: Any = "old"
    observed: Any = "new"
    for _ in range(199):
        expected, observed = [*range(500), expected], [*range(500), observed]
    (one,) = differences(expected, observed)
    assert (one.path, one.expected, one.observed) == ((500,) * 199, "old", "new")


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueRefused):
        differences(float("nan"), 1)
    with pytest.raises(ValueRefused):
        differences({"a": object()}, {"a": 1})


@pytest.mark.parametrize(
    "path, text",
    [
        ((), "$"),
        (("messages", 0, "content"), "$['messages'][0]['content']"),
        (("it's", "a\\b"), r"$['it\'s']['a\\b']"),
        (("\n\t\x00\x1f\x7fü\u2028",), "$['\\n\\t\\u0000\\u001f\x7fü\u2028']"),
        (("",), "$['']"),
    ],
)
def test_normalised_path_of_rfc_9535(path: Path, text: str) -> None:
    assert normalised_path(path) == text
