"""Laws of foreign formats: what they can hold comes back, whatever it is; what is not theirs is
refused, and nothing else happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reenact import rr
from reenact.boundaries.http.wire import Head, Request
from reenact.errors import RecordingError
from reenact.interop.formats import FORMATS, Format
from reenact.interop.model import Exchange, Losses, settled
from reenact.interop.rrbin import read as read_rrbin
from reenact.interop.rrbin import write as write_rrbin

_TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=12)
_NAME = st.text("abcXYZ-", min_size=1, max_size=8)
_VALUE = st.text("abc 09=;,:é\"'{[#&*!|>%@`", max_size=12).map(str.strip)
_HEADERS = st.lists(st.tuples(_NAME, _VALUE), max_size=4).map(
    lambda pairs: tuple(sorted(pairs, key=lambda pair: pair[0].lower()))
)
_BODY = st.one_of(st.binary(max_size=40), _TEXT.map(str.encode), st.just(b"- a: [b\n"))


def _spelled(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """vcrpy groups by name: one spelling for each."""
    first: dict[str, str] = {}
    return tuple((first.setdefault(key.lower(), key), value) for key, value in headers)


def _exchange(asked: Any, answered: Any, posted: bytes, body: bytes, status: int) -> Exchange:
    plain = [pair for pair in answered if pair[0].lower() not in ("content-length",)]
    one = Exchange(
        request=Request(
            method="POST", url="https://a.example/x?q=1", headers=_spelled(asked), body=posted
        ),
        head=Head(status=status, reason="Why", headers=_spelled(tuple(plain))),
        body=body,
        ts=1_700_000_000_123,
    )
    return settled(one, Losses())


EXCHANGES = st.lists(
    st.builds(_exchange, _HEADERS, _HEADERS, _BODY, _BODY, st.integers(200, 599)), max_size=4
)
ENTRIES = st.lists(
    st.builds(
        rr.Entry,
        kind=_TEXT.filter(lambda kind: kind not in ("", "schedule")),
        op=_TEXT,
        key=st.binary(max_size=20),
        req=st.binary(max_size=20),
        resp=st.binary(max_size=20),
        err=st.integers(-(2**31), 2**32 - 1),
        latency_ticks=st.none() | st.integers(0, 2**32 - 1),
    ),
    max_size=5,
)


@given(ENTRIES)
def test_x07_cassettes_hold_every_entry(entries: list[rr.Entry]) -> None:
    made = write_rrbin(entries)
    found = read_rrbin(made.content)
    assert (found.items, list(found.losses), list(made.losses)) == (entries, [], [])
    assert write_rrbin(found.items).content == made.content


@given(EXCHANGES)
def test_cassettes_and_archives_hold_every_exchange(given_: list[Exchange]) -> None:
    for one in FORMATS:
        if one.name not in ("vcr", "har"):
            continue
        assert one.write is not None
        found = one.read(one.write(given_).content).items
        assert len(found) == len(given_), one.name
        for expected, got in zip(given_, found, strict=True):
            assert isinstance(got, Exchange)
            assert (got.request, got.head, got.body) == (
                expected.request,
                expected.head,
                expected.body,
            ), one.name


def _refusal(one: Format, content: bytes) -> RecordingError | None:
    try:
        one.read(content)
    except RecordingError as error:
        return error
    return None


def _is_read_or_refused(content: bytes) -> bool:
    """By every format; a refusal names a place."""
    refusals = (_refusal(one, content) for one in FORMATS)
    return all(error.fields["place"] for error in refusals if error is not None)


_BYTES = st.one_of(st.binary(max_size=60), _TEXT.map(str.encode))


@given(_BYTES)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    assert _is_read_or_refused(content)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 999)
    | st.sampled_from(["", "a", "GET", "http://a/"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "log version entries request response status headers url uri method content text "
                "postData params body string code interactions transactions format_version name".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


_SHAPES: list[Callable[[Any], Any]] = [
    lambda value: value,
    lambda value: {"version": 1, "interactions": [value]},
    lambda value: {"version": 1, "interactions": [{"request": value, "response": value}]},
    lambda value: {"log": {"version": "1.2", "entries": [value]}},
    lambda value: {"log": {"entries": [{"request": value, "response": value}]}},
    lambda value: {"format_version": 1, "transactions": [value]},
]


@given(_JSON, st.sampled_from(_SHAPES))
def test_any_document_is_read_or_refused(value: Any, shape: Callable[[Any], Any]) -> None:
    assert _is_read_or_refused(json.dumps(shape(value)).encode())
