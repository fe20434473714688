from __future__ import annotations

import json
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from reenact.errors import ValueRefused
from reenact.format.canonical import (
    MAX_DEPTH,
    canonical,
    decode,
    digest,
    digest_bytes,
    exact,
    plain,
    quickly,
    stored,
)

LONE = chr(0xD800)


def nested(depth: int, core: Any = None) -> Any:
    """``core`` inside ``depth`` lists."""
    value = core
    for _ in range(depth):
        value = [value]
    return value


class Level(IntEnum):
    HIGH = 3


class Text(str):
    """A str of somebody else's."""


def test_the_two_encodings_differ_in_whole_floats_only() -> None:
    value = {"b": [1.0, 2, 0.5, -0.0, 1e21, 1e-7], "a": True}
    assert exact(value) == b'{"a":true,"b":[1.0,2,0.5,-0.0,1e+21,1e-07]}'
    assert canonical(value) == b'{"a":true,"b":[1,2,0.5,0,1e+21,1e-7]}'


@pytest.mark.parametrize(
    "number, written",
    [
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-5, "0.000015"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (-1.25e-9, "-1.25e-9"),
        (9007199254740993, "9007199254740993"),
    ],
)
def test_canonical_writes_numbers_as_rfc_8785_does(number: float, written: str) -> None:
    assert canonical([number]).decode() == f"[{written}]"


def test_integers_of_a_hundred_digits_keep_every_digit() -> None:
    number = int("9" * 99 + "1")
    assert canonical({"n": number}) == exact({"n": number}) == b'{"n":%d}' % number
    assert decode(exact({"n": -number})) == {"n": -number}


def test_keys_are_sorted_by_utf16_units_in_canonical_and_by_code_point_in_exact() -> None:
    value = {"\ufb33": 1, "\U0001f600": 2, "a": 0}
    assert list(decode(canonical(value))) == ["a", "\U0001f600", "\ufb33"]
    assert list(decode(exact(value))) == ["a", "\ufb33", "\U0001f600"]


def test_bytes_become_base64_marks_and_come_back() -> None:
    value = {"a": b"\x00\xff", "b": [bytearray(b"xy"), memoryview(b"z")]}
    assert exact(value) == b'{"a":{"$bytes":"AP8="},"b":[{"$bytes":"eHk="},{"$bytes":"eg=="}]}'
    assert plain(decode(exact(value))) == {"a": b"\x00\xff", "b": [b"xy", b"z"]}


@pytest.mark.parametrize("name", ["$bytes", "$blob", "$delta", "$$blob", "$$$bytes"])
def test_a_reserved_key_gets_one_more_dollar_and_loses_it_again(name: str) -> None:
    value = {name: "AP8="}
    assert exact(value) == b'{"$%b":"AP8="}' % name.encode()
    assert plain(decode(exact(value))) == value


@pytest.mark.parametrize("name", ["$", "$$", "$id", "blob", "$blobs", "$$id"])
def test_other_keys_with_a_dollar_are_left_alone(name: str) -> None:
    assert exact({name: 1}) == b'{"%b":1}' % name.encode()
    assert plain(decode(exact({name: 1}))) == {name: 1}


def test_encoding_again_what_was_read_gives_the_same_bytes_with_reserved_keys_too() -> None:
    """`$blob` is stored as `$$blob`, which sorts elsewhere: the stored name decides."""
    encoded = exact({"$a": 1, "$blob": 2, "$delta": {"$bytes": 3, "$c": 4}})
    assert encoded == b'{"$$blob":2,"$$delta":{"$$bytes":3,"$c":4},"$a":1}'
    assert stored(decode(encoded)) == encoded


def test_stored_leaves_marks_as_they_are() -> None:
    assert stored({"b": {"$bytes": "eg=="}, "a": 1}) == b'{"a":1,"b":{"$bytes":"eg=="}}'


def test_subclasses_of_json_types_are_written_as_what_they_are() -> None:
    value = {Text("k"): [Level.HIGH, Text("v"), (1, 2)]}
    assert exact(value) == b'{"k":[3,"v",[1,2]]}'


@pytest.mark.parametrize("encode", [exact, canonical])
@pytest.mark.parametrize(
    "value, path, reason",
    [
        ({"a": [1, {"b": float("nan")}]}, "$.a[1].b", "nan is not a JSON number"),
        ({"a": float("inf")}, "$.a", "inf is not"),
        ([float("-inf")], "$[0]", "-inf is not"),
        ({"a": {"b c": "x" + LONE}}, "$.a['b c']", "lone surrogate at character 1"),
        ({"a": {LONE: 1}}, "$.a", "lone surrogate"),
        ({"a": [{1: 2}]}, "$.a[0]", "not a string"),
        ({"a": {None: 2}}, "$.a", "not a string"),
        ({"a": {1, 2}}, "$.a", "a set is not a JSON value"),
        ({"a": [Decimal(1)]}, "$.a[0]", "a Decimal is not a JSON value"),
        ({"a": 10**5000}, "$.a", "an integer of more than 4,300 digits"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_path(
    encode: Any, value: Any, path: str, reason: str
) -> None:
    with pytest.raises(ValueRefused) as caught:
        encode(value)
    assert caught.value.path == path
    assert reason in caught.value.reason
    assert caught.value.fields == {"path": path}


def test_the_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(ValueRefused) as caught:
        exact({"a": "private text " + LONE})
    assert "private" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("encode", [exact, canonical, stored])
def test_nesting_is_refused_beyond_the_limit_and_accepted_at_it(encode: Any) -> None:
    at_limit = nested(MAX_DEPTH, 1)
    assert decode(encode(at_limit)) == at_limit
    with pytest.raises(ValueRefused, match=r"^\$(\[0\]){8}…: nested deeper than 200"):
        encode(nested(MAX_DEPTH + 1, 1))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueRefused, match="nested deeper"):
        exact(loop)


@pytest.mark.parametrize("depth", [201, 230, 5_000, 200_000])
def test_nesting_beyond_the_limit_is_refused_on_read_too(depth: int) -> None:
    with pytest.raises(ValueRefused, match="nested deeper than 200"):
        decode(b"[" * depth + b"1" + b"]" * depth)


def test_braces_inside_text_are_not_nesting() -> None:
    value = {"text": "[{" * 500}
    assert decode(exact(value)) == value


@pytest.mark.parametrize(
    "encoded, reason",
    [
        (b'{"a":1,"a":1}', "the key 'a' stands twice"),
        (b'{"b":{"a":1,"x":2,"a":3}}', "the key 'a' stands twice"),
        (b'{"a":1,"\\u0061":1}', "the key 'a' stands twice"),
        (b'{"a":NaN}', "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"[1e999]", "too large for a float"),
        (b'["\\ud800"]', "lone surrogate"),
        (b'{"\\udfff":1}', "lone surrogate"),
        (b'["\xed\xa0\x80"]', "not UTF-8 at byte 2"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"", "not JSON"),
        (b'{"a":1', "not JSON"),
        (b"{} {}", "not JSON"),
        (b"[" + b"1" * 5_000 + b"]", "not JSON"),
    ],
)
def test_reading_is_strict(encoded: bytes, reason: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        decode(encoded)
    assert reason in caught.value.reason


def test_reading_accepts_any_layout_of_valid_json() -> None:
    assert decode(b' {"b": [1.50, 1e2, -0], "a": "\\u00e9"}\n') == {"b": [1.5, 100.0, 0], "a": "é"}


@pytest.mark.parametrize("text", ["***", "AP8", 7, None])
def test_a_bytes_mark_that_is_not_base64_is_refused(text: Any) -> None:
    with pytest.raises(ValueRefused, match="not base64"):
        plain({"$bytes": text})


def test_digests_name_their_algorithm() -> None:
    empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_bytes(b"") == empty
    assert digest({"b": 1.0, "a": 2}) == digest_bytes(b'{"a":2,"b":1}')


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param(rb'{"b": "say \"no\"", "a": 1}', id="quotes in a text"),
        pytest.param(rb'{"b": "caf\u00e9", "a": 1.50}', id="escapes, another spelling of a number"),
        pytest.param(rb'{"b": "\u0022", "a": 1}', id="a quote in hexadecimal"),
        pytest.param(b'{\n  "b": 1,\n  "a": [\n    2\n  ]\n}\n', id="lines"),
    ],
)
def test_reading_gives_what_the_standard_library_reads(encoded: bytes) -> None:
    assert decode(encoded) == json.loads(encoded)


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param(b'{"b": 1, "a": 2, "b": 3}', id="plain"),
        pytest.param(rb'{"b": "x", "a": "\u0022", "b": ""}', id="beside a quote in hexadecimal"),
        pytest.param(rb'{"a": 1e5, "a": 1e5, "b": "caf\u00e9"}', id="beside an escape"),
        pytest.param(rb'[{"b": {"c": 1, "c": 1}}]', id="deep"),
    ],
)
def test_a_key_that_stands_twice_is_found_in_any_layout(encoded: bytes) -> None:
    with pytest.raises(ValueRefused, match="stands twice"):
        decode(encoded)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"b": [1, 2.5, "é"], "a": None}, id="plain"),
        pytest.param({"$blob": 1}, id="a mark"),
        pytest.param({"a": 10**30}, id="a huge integer"),
        pytest.param({"a": b"x"}, id="bytes"),
    ],
)
def test_the_quick_encoding_is_the_exact_one_or_none(value: Any) -> None:
    assert quickly(value) in (exact(value), b"")


def test_the_quick_encoding_is_there_for_plain_values() -> None:
    assert quickly({"b": 1, "a": "x"}) == b'{"a":"x","b":1}'
