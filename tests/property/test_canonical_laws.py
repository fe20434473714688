"""Laws of the two encodings."""

from __future__ import annotations

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reenact.errors import ValueRefused
from reenact.format.canonical import MAX_DEPTH, canonical, decode, exact, jcs, plain, stored
from reenact.format.json_path import Path, join, lookup, parse
from tests.property.values import NAMES, TEXTS, VALUES

SAFE = 2**53 - 1
"""The largest integer that RFC 8785 knows."""

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-SAFE, SAFE),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
SHARED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(TEXTS, inner, max_size=6)),
    max_leaves=20,
)
LONE = st.integers(0xD800, 0xDFFF).map(chr)
REFUSED = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf]),
    LONE,
    st.builds(lambda head, tail, lone: head + lone + tail, TEXTS, st.just("x"), LONE),
    st.sampled_from([{1: 2}, {None: 1}, {(1,): 1}, {b"k": 1}, object(), {1}, 1j]),
    st.builds(lambda lone: {lone: 1}, LONE),
)
STEPS = st.lists(
    st.one_of(NAMES.filter(lambda name: name != "sibling"), st.integers(0, 2)), max_size=6
)


def reserved_free(value: Any) -> bool:
    """No key that we escape and RFC 8785 does not."""
    if isinstance(value, dict):
        return all(
            key.lstrip("$") not in ("bytes", "blob", "delta") or not key.startswith("$")
            for key in value
        ) and all(map(reserved_free, value.values()))
    return not isinstance(value, list) or all(map(reserved_free, value))


def same(a: Any, b: Any) -> bool:
    """Equal, and of equal types: 1, 1.0 and True differ, 0.0 and -0.0 too."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(item, b[key]) for key, item in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


def around(path: list[str | int], core: Any) -> Any:
    """``core`` at ``path``, with something beside it on every level."""
    for step in reversed(path):
        if isinstance(step, int):
            core = [*([0] * step), core, "after"]
        else:
            core = {"sibling": [1.5], step: core}
    return core


def shuffled(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict):
        order = data.draw(st.permutations(list(value)))
        return {key: shuffled(value[key], data) for key in order}
    return [shuffled(item, data) for item in value] if isinstance(value, list) else value


@given(SHARED)
@example({"\ufb33": 1, "\U0001f600": 2, "\r": 3, "1": 4, "\x80": 5, "ö": 6, "€": 7})
@example([1e21, 1e-7, 4.5, 2e-3, 1e-27, 333333333.33333329, 0.000001, -0.0])
def test_canonical_agrees_with_the_rfc8785_package(value: Any) -> None:
    assume(reserved_free(value))
    assert canonical(value) == rfc8785.dumps(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_is_written_as_rfc_8785_writes_it(number: float) -> None:
    assert canonical([number]) == rfc8785.dumps([number])


@given(VALUES)
@example({"$blob": "sha256:0", "size": 1, "$$blob": {"$bytes": "eA=="}, "$delta": {}})
@example([1, 1.0, True, -0.0, 10**99, -(10**99), b"", b"\xff"])
def test_what_is_stored_comes_back_with_its_types(value: Any) -> None:
    assert same(plain(decode(exact(value))), value)


@given(VALUES)
def test_reading_and_storing_again_gives_the_same_bytes(value: Any) -> None:
    encoded = exact(value)
    assert stored(decode(encoded)) == encoded


@given(VALUES, st.data())
def test_the_order_of_keys_does_not_matter(value: Any, data: st.DataObject) -> None:
    other = shuffled(value, data)
    assert exact(other) == exact(value)
    assert canonical(other) == canonical(value)


@given(VALUES)
def test_values_that_are_stored_alike_are_canonically_alike(value: Any) -> None:
    assert canonical(plain(decode(exact(value)))) == canonical(value)


@given(STEPS, REFUSED)
def test_what_json_cannot_hold_is_refused_where_it_stands(path: list[str | int], bad: Any) -> None:
    value = around(path, bad)
    for encode in (exact, canonical):
        with pytest.raises(ValueRefused) as caught:
            encode(value)
        assert caught.value.path == join(tuple(path))


@given(STEPS, st.integers(MAX_DEPTH + 1, MAX_DEPTH + 60))
def test_too_deep_is_refused_wherever_it_is(path: list[str | int], depth: int) -> None:
    deep: Any = 1
    for level in range(depth):
        deep = [deep] if level % 2 else {"d": deep}
    with pytest.raises(ValueRefused, match="nested deeper"):
        exact(around(path, deep))


@given(VALUES, st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), st.data())
def test_a_key_that_stands_twice_is_refused(
    other: Any, members: dict[str, Any], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(members)))
    pairs = [exact({key: item})[1:-1] for key, item in members.items()]
    place = data.draw(st.integers(0, len(pairs)))
    pairs.insert(place, exact({name: other})[1:-1])
    with pytest.raises(ValueRefused, match="stands twice"):
        decode(b'{"outer":[{' + b",".join(pairs) + b"}]}")


@given(st.binary(max_size=40))
def test_reading_anything_gives_a_value_or_a_refusal(junk: bytes) -> None:
    try:
        value = decode(junk)
    except ValueRefused:
        return
    assert same(decode(stored(value)), value)


@given(STEPS)
def test_a_refused_path_leads_to_the_value(path: list[str | int]) -> None:
    marker = object()
    value = around(path, marker)
    with pytest.raises(ValueRefused) as caught:
        exact(value)
    found: Path = parse(caught.value.path)
    assert lookup(value, found) is marker


@given(SHARED)
@example({"$blob": {"$$bytes": [1.0]}, "\U00010000": 1, "\uffff": 2})
def test_without_marks_it_is_rfc_8785_and_encoding_again_changes_nothing(value: Any) -> None:
    encoded = jcs(value)
    assert encoded == rfc8785.dumps(value)
    assert jcs(decode(encoded)) == encoded
