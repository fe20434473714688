"""One entry, between a program and an event."""

from __future__ import annotations

from typing import Any

import pytest

from reenact import rr
from reenact.rr.entries import ENTRY_INVALID, check, fields_of, key_text, read
from tests.unit.rr.cassettes import DOWN, PING, raises_number


def event(entry: rr.Entry) -> dict[str, Any]:
    """The data of the event that holds ``entry``."""
    names = {"source": entry.kind, "op": entry.op, "key": key_text(entry.key)}
    return {**names, **fields_of(entry)}


@pytest.mark.parametrize("entry", [PING, DOWN])
def test_an_entry_is_read_as_it_was_given(entry: rr.Entry) -> None:
    assert check(entry) == entry
    assert read(event(entry), "here") == entry


def test_a_mapping_may_have_text_for_bytes() -> None:
    given = {"kind": b"rr", "op": "fetch", "key": "C", "req": "C", "resp": bytearray(b"PONG")}
    assert check(given) == PING


def test_accessors() -> None:
    assert (rr.entry_resp(PING), rr.entry_err(PING)) == (b"PONG", 0)
    assert rr.entry_err(DOWN) == 7


def test_utf8_stands_in_an_event_as_text_and_other_bytes_as_bytes() -> None:
    entry = rr.Entry(kind="rr", op="", req="é".encode(), resp=b"\xff")
    assert fields_of(entry) == {"request": "é", "response": b"\xff", "err": 0}


@pytest.mark.parametrize(
    "key, text",
    [
        (b"", ""),
        ("é\0".encode(), "é\0"),
        (b"a\\x00", "a\\x00"),
        (b"\xffa\\", "bytes:\\xffa\\\\"),
        (b"bytes:x", "bytes:bytes:x"),
    ],
)
def test_a_key_has_one_text(key: bytes, text: str) -> None:
    assert key_text(key) == text
    assert read({**event(PING), "key": text}, "here").key == key


@pytest.mark.parametrize(
    "change",
    [
        {"kind": ""},
        {"kind": "schedule"},
        {"kind": 1},
        {"kind": b"\xff"},
        {"op": None},
        {"op": "\ud800"},
        {"key": None},
        {"req": 1},
        {"resp": ["x"]},
        {"err": True},
        {"err": "0"},
        {"err": 2**32},
        {"err": -(2**31) - 1},
        {"latency_ticks": -1},
        {"latency_ticks": 2**32},
        {"latency_ticks": 1.5},
    ],
)
def test_what_is_not_an_entry(change: dict[str, Any]) -> None:
    with raises_number(ENTRY_INVALID):
        check({"kind": "rr", "op": "fetch", **change})


def test_an_entry_that_is_something_else() -> None:
    with raises_number(ENTRY_INVALID):
        check(b"entry")  # type: ignore[arg-type]
    with raises_number(ENTRY_INVALID) as caught:
        check({"op": "fetch"})
    assert "no kind" in caught.value.message
    with raises_number(ENTRY_INVALID) as caught:
        check({"kind": "rr", "op": "fetch", "response": b""})
    assert caught.value.hint == "did you mean resp?"


@pytest.mark.parametrize(
    "change, why",
    [
        ({"withheld": {}}, "withheld"),
        ({"response": {"status": 200}}, "neither text nor bytes"),
        ({"key": None}, "no key"),
        ({"source": ""}, "kind is empty"),
        ({"op": 3}, "op is not text"),
        ({"err": "x"}, "err is a whole number"),
    ],
)
def test_an_event_that_holds_no_entry(change: dict[str, Any], why: str) -> None:
    with raises_number(ENTRY_INVALID) as caught:
        read({**event(PING), **change}, "event 3 of smoke.jsonl")
    assert "event 3 of smoke.jsonl is not an entry: " in caught.value.message
    assert why in caught.value.message
