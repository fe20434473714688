"""JSON in the body of an answer, shown as JSON: to the byte, or not at all."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import ValueRefused
from reenact.format.canonical import exact
from reenact.format.readable_body import from_readable, to_readable


def _payload(body: Any, **more: Any) -> bytes:
    return exact({"key": "k", "response": {"body": body, "status": 200}, **more})


VALUE = {"b": [1, 2.5, None, True, {"é": "ü\n"}], "a": {}}
PRINTERS: dict[str, str] = {
    "compact": json.dumps(VALUE, separators=(",", ":"), ensure_ascii=False),
    "compact ascii": json.dumps(VALUE, separators=(",", ":")),
    "compact newline": json.dumps([1], separators=(",", ":")) + "\n",
    "spaced": json.dumps(VALUE, ensure_ascii=False),
    "spaced ascii": json.dumps(VALUE),
    "indent2": json.dumps(VALUE, indent=2, ensure_ascii=False),
    "indent2 ascii newline": json.dumps(VALUE, indent=2) + "\n",
    "indent4": json.dumps(VALUE, indent=4, ensure_ascii=False),
}


@pytest.mark.parametrize("name", PRINTERS)
def test_what_a_known_printer_made_is_shown_as_json(name: str) -> None:
    payload = _payload(PRINTERS[name])
    shown = to_readable(payload)
    body = json.loads(shown)["response"]["body"]
    assert body == {"$json": json.loads(PRINTERS[name]), "printed": name}
    assert list(body["$json"]) == list(json.loads(PRINTERS[name]))
    assert from_readable(shown) == payload


@pytest.mark.parametrize(
    "body",
    [
        '{"a": 1.10}',
        '{"a":1,"a":2}',
        '{"a": 1,"b":2}',
        '{"a":"\\/"}',
        '{"a":"\\ud800"}',
        '{"a":123456789012345678901234567890}',
        '{"$blob":"sha256:0"}',
        "{broken",
        "text",
        '"text"',
        "[" * 150 + "]" * 150,
        "[" * 3_000 + "]" * 3_000,
        b"\xff",
        None,
    ],
    ids=lambda body: str(body)[:20],
)
def test_any_other_body_stays_as_it_is(body: Any) -> None:
    assert to_readable(_payload(body)) == _payload(body)


def test_only_the_body_of_the_answer_is_looked_at() -> None:
    inside = {"response": {"body": '{"a":1}'}}
    for payload in (exact({"request": inside}), exact({"data": [inside], "x": {"body": "{}"}})):
        assert to_readable(payload) == payload
    both = _payload('{"b":2}', request=inside)
    assert json.loads(to_readable(both))["request"] == inside
    assert from_readable(to_readable(both)) == both


def test_an_answer_that_looks_as_if_it_had_been_shown_survives() -> None:
    for body in ({"$json": 1, "printed": "compact"}, {"$json": {}, "printed": "value"}):
        payload = exact({"response": {"body": body}})
        assert from_readable(to_readable(payload)) == payload


@pytest.mark.parametrize("name", ["cursive", "compact loud", ""])
def test_a_printer_that_is_not_known_is_refused(name: str) -> None:
    shown = exact({"response": {"body": {"$json": 1, "printed": name}}})
    with pytest.raises(ValueRefused, match="no printer"):
        from_readable(shown)


@pytest.mark.parametrize(
    "number",
    ["0.00001", "0.00012", "1e-5", "1e-05", "-0.0", "1e16", "1e+16", "100000000000000000000.0"],
)
def test_a_number_that_others_write_differently_comes_back_as_it_was(number: str) -> None:
    payload = _payload(f'{{"a":[{number}]}}')
    assert from_readable(to_readable(payload)) == payload


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.sampled_from([None, 2, 4]), st.booleans(), st.sampled_from(["", "\n", " "]))
def test_every_body_comes_back_to_the_byte(
    value: Any, indent: int | None, ascii_only: bool, end: str
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only) + end
    try:
        payload = _payload(text)
    except ValueRefused:
        return  # a lone surrogate is in no recording
    assert from_readable(to_readable(payload)) == payload


@given(json_values)
def test_what_another_printer_wrote_comes_back_to_the_byte(value: Any) -> None:
    try:
        payload = _payload(orjson.dumps([value]).decode())
    except (ValueRefused, TypeError):
        return  # a lone surrogate, or an integer that is too large for that printer
    assert from_readable(to_readable(payload)) == payload
