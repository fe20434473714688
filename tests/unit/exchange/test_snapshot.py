"""Values of a program as lineage shows them."""

import dataclasses
import enum
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.exchange.message import Headers, Message, body_from
from reenact.exchange.model import Body, Payload
from reenact.exchange.payload import body_bytes, make_body
from reenact.exchange.payload_edits import diff_documents
from reenact.exchange.snapshot import encode_bytes, is_json, snapshot


@dataclasses.dataclass
class Point:
    x: int
    secret: str


class Colour(enum.Enum):
    RED = "red"


class Awkward:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value, expected",
    [
        (Point(1, "s"), {"x": 1, "secret": "s"}),
        (Colour.RED, "red"),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (b"\x00", b"\x00"),
        (math.inf, {"$number": "inf"}),
        ("x" * 20_000, {"$clipped": 20_000}),
        ("\ud800", {"$repr": "'\\ud800'"}),
        (2**4000, {"$clipped": 500}),
        (Awkward(), {"$repr": f"<{__name__}.Awkward>"}),
    ],
)
def test_what_is_shown(value, expected):
    assert snapshot(value) == expected


def test_addresses_are_left_out_because_they_differ_every_time():
    assert " at 0x" not in snapshot(object())["$repr"]


def test_long_lists_and_deep_values_end():
    assert snapshot(list(range(1000)))[-1] == {"$clipped": 800}
    endless: list = []
    endless.append(endless)
    msgspec.json.encode(snapshot(endless))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_is_shown_can_be_sent_and_compared(value):
    found = snapshot(value)
    msgspec.json.encode(encode_bytes(found))
    assert diff_documents(found, found) == ()


def test_what_json_gives_back():
    assert is_json({"a": [1, 2.5, None, True, "x"]})
    assert not is_json({"a": (1,)})
    assert not is_json({1: 2})
    assert not is_json(math.nan)


@pytest.mark.parametrize(
    "data, kind, expected",
    [
        (b"", "application/json", "none"),
        (b'{"a": 1}', "application/json; charset=utf-8", "json"),
        (b'{"a": 1}', "application/problem+json", "json"),
        (b'{"a": 1, "a": 2}', "application/json", "text"),
        (b"{", "application/json", "text"),
        (b"\xff{}", "application/json", "bytes"),
        (b"a=1&b=2", "application/x-www-form-urlencoded", "text"),
        ("é".encode(), "text/plain", "text"),
        ("é".encode("latin-1"), "text/plain; charset=latin-1", "bytes"),
        (b"\x00\x01", "image/png", "bytes"),
        (b"hello", "", "bytes"),
    ],
)
def test_types_of_bodies(data, kind, expected):
    body = make_body(data, kind)
    assert body.type == expected
    assert body_bytes(body) == data


@given(st.binary(), st.sampled_from(["application/json", "text/plain", "", "a/b"]))
def test_a_body_is_the_same_bytes_again(data, kind):
    assert body_bytes(make_body(data, kind)) == data


def test_headers_are_found_in_any_letters():
    headers = Headers([("X-Tag", "a"), ("Host", "h"), ("x-tag", "b")])
    assert headers["X-TAG"] == "a"
    assert headers.all("x-tag") == ["a", "b"]
    assert "host" in headers
    assert list(headers) == ["x-tag", "host"]
    headers["x-tag"] = "c"
    headers.add("New", "n")
    assert headers.pairs() == (("X-Tag", "c"), ("Host", "h"), ("New", "n"))
    del headers["HOST"]
    assert headers.get("host") is None
    with pytest.raises(KeyError):
        del headers["host"]
    assert "a" not in repr(Headers([("X-Key", "abcabc")])).removeprefix("<Headers")


@pytest.mark.parametrize(
    "value, body",
    [
        (None, Body()),
        ("t", Body(type="text", text="t")),
        (b"b", Body(type="bytes", base64="Yg==")),
        ({"a": 1}, Body(type="json", text='{"a":1}')),
        (5, Body(type="json", text="5")),
    ],
)
def test_bodies_of_values(value, body):
    assert body_from(value) == body


def test_a_json_string_stays_json():
    payload = Payload(body=Body(type="json", text='"a"'))
    assert Message.of(payload).payload() == payload


def test_a_message_says_why_it_cannot_be_replayed():
    assert Message({"a": 1}, (), {"p": 1}).unfit() == ""
    assert "Point" in Message(Point(1, "s")).unfit()
    assert "property p" in Message(None, (), {"p": object()}).unfit()


def test_more_changes_than_are_kept_are_told_as_a_whole():
    before = {"body": dict.fromkeys(map(str, range(300)), 0), "headers": {}}
    after = {"body": dict.fromkeys(map(str, range(300)), 1), "headers": {}}
    [change] = diff_documents(before, after)
    assert (change.op, change.path) == ("replace", "/body")
