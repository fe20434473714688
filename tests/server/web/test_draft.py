"""Where in a text a mistake is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.exchange.model import Body, Payload
from reenact.exchange.payload import body_value
from reenact.server.web.replays.draft import (
    Draft,
    Mistake,
    find_base64_mistake,
    find_json_mistake,
    payload_of,
)

PIECES = st.sampled_from(
    [
        *("{", "}", "[", "]", ":", ",", " ", "\n", '"', "\\"),
        *('"a"', '"b"', '"a":', '"\\u0061"', '"\\ud83d"', '"\\ud83d\\ude00"', '"😀"'),
        *("0", "-1", "1.5", "1e5", "1e999", "-1e999", "NaN", "-Infinity", "null", "true", "x"),
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def is_kept(text: str, kind: str = "json") -> bool:
    """Does an exchange take it as its body?"""
    try:
        body_value(
            Body(type="bytes", base64="".join(text.split()))
            if kind == "bytes"
            else Body(type="json", text=text)
        )
    except UsageError:
        return False
    return True


@given(VALUES)
def test_json_has_no_mistake(value: Any) -> None:
    assert find_json_mistake(json.dumps(value)) is None


@pytest.mark.parametrize("deep", [200, 201, 202])
def test_it_may_be_as_deep_as_an_exchange_takes_it(deep: int) -> None:
    for text in ("[" * deep + "]" * deep, '{"a":' * deep + "{}" + "}" * deep):
        assert (find_json_mistake(text) is None) == is_kept(text)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_mistake_is_found_where_an_exchange_would_not_take_it(text: str) -> None:
    slip = find_json_mistake(text)
    assert (slip is None) == is_kept(text)
    assert slip is None or 0 <= slip.at <= len(text)
    assert slip is None or slip.message != "not JSON that can be stored", "it has no place"


@given(st.text("QUJD=+/-!é \n", max_size=12))
def test_base64_is_what_an_exchange_takes(text: str) -> None:
    slip = find_base64_mistake(text)
    assert (slip is None) == is_kept(text, "bytes")
    assert slip is None or 0 <= slip.at <= len(text)


@pytest.mark.parametrize(
    "text, message, line, column",
    [
        ('{\n "a": 5,,\n}', "not JSON: Expecting property name", 2, 9),
        ('{"a": 1,\n "b": {"a": 2},\n "a": 3}', "the key 'a' occurs twice", 3, 2),
        ('{"a": 1, "\\u0061": 2}', "the key 'a' occurs twice", 1, 10),
        ('["a", "a", {"b": "b"}, -Infinity]', "-Infinity is not a JSON number", 1, 24),
        ("[1,\n 2e999]", "a number too large for a float", 2, 2),
        (f"[1, -{'9' * 5_000}]", "a number of more than 4,300 digits", 1, 5),
        ('["😀", "\\ud83d"]', "text contains half of a surrogate pair", 1, 7),
        ("[" * 300 + "]" * 300, "nested deeper than 200", 1, 202),
        ("[" * 100_000, "nested deeper than 200", 1, 202),
        ('{"a":' * 201 + "1" + "}" * 201, "nested deeper than 200", 1, 1_002),
        ('"a\tb"', "not JSON: Invalid control character", 1, 3),
    ],
)
def test_json_that_is_none_or_cannot_be_kept(
    text: str, message: str, line: int, column: int
) -> None:
    assert not is_kept(text)
    for field, draft in (
        ("body", Draft(body_type="json", body=text)),
        ("properties", Draft(properties=text)),
    ):
        made, (found,) = payload_of(draft, Payload())
        assert made is None
        assert (found.field, found.line, found.column) == (field, line, column)
        assert found.message.startswith(message)


@pytest.mark.parametrize(
    "text, message, line, column",
    [
        ("QUJD\nQU!D", "not base64: '!'", 2, 3),
        ("QUI=\nQUJD", "not base64: something follows the =", 2, 1),
        ("QUJD\nQUJ\n", "not base64: the last group of four", 2, 4),
    ],
)
def test_bytes_that_are_no_base64(text: str, message: str, line: int, column: int) -> None:
    made, (found,) = payload_of(Draft(body_type="bytes", body=text), Payload())
    assert made is None
    assert (found.field, found.line, found.column) == ("body", line, column)
    assert found.message.startswith(message)


def test_every_header_that_is_none_is_told() -> None:
    headers = (("A", "1"), ("B b", "2"), ("", "3"), ("D", "4\n5"))
    made, found = payload_of(Draft(headers=headers), Payload())
    assert made is None
    assert found == (
        Mistake("headers", "'B b' is not a valid header name", 2),
        Mistake("headers", "this value has no name", 3),
        Mistake("headers", "the header D has a value with control characters", 4),
    )
