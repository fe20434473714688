"""X07's cassettes, byte for byte."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable

import pytest

from reenact import rr
from reenact.interop.rrbin import read, write
from tests.unit.interop.foreign_files import exchange, losses_of, refused

SMOKE = [
    rr.Entry(kind="rr", op="std.rr.fetch_v1", key=b"C", req=b"C", resp=b"PONG"),
    rr.Entry(kind="rr", op="std.stream.src.rr_send_v1", key=b"C", req=b"C", resp=b"PONG"),
]
GOLDEN = "1b193ab3d99cdbb8"
"""The first digits of the digest of the smoke cassette that X07 itself ships."""


def _sized(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def _string(content: bytes) -> bytes:
    return b"\x03" + _sized(content)


def _map(*pairs: tuple[bytes, bytes]) -> bytes:
    whole = b"".join(_sized(key) + value for key, value in pairs)
    return b"\x05" + struct.pack("<I", len(pairs)) + whole


def _frame(value: bytes) -> bytes:
    return _sized(b"\x01" + value)


FIELDS = (
    (b"err", b"\x02" + _sized(b"0")),
    (b"key", _string(b"k")),
    (b"kind", _string(b"rr")),
    (b"op", _string(b"get")),
    (b"req", _string(b"")),
    (b"resp", _string(b"\xff")),
)


def test_the_smoke_cassette_is_the_golden_one() -> None:
    made = write(SMOKE)
    assert (len(made.content), made.calls, losses_of(made)) == (272, 2, {})
    assert hashlib.sha256(made.content).hexdigest().startswith(GOLDEN)
    assert made.content.startswith(b"\x7f\0\0\0\x01\x05\x08\0\0\0\x03\0\0\0err\x02\x01\0\0\x000")
    found = read(made.content)
    assert (found.items, losses_of(found)) == (SMOKE, {})


def test_an_empty_file_is_an_empty_cassette() -> None:
    assert read(b"").items == []
    assert write([]).content == b""


def test_latency_and_error_are_kept() -> None:
    entry = rr.Entry(kind="db", op="q", key=b"\xff", resp=b"\x00", err=2**32 - 1, latency_ticks=7)
    assert read(write([entry]).content).items == [entry]


def test_what_nobody_reads_is_a_loss() -> None:
    found = read(_frame(_map(*FIELDS, (b"zone", b"\x04" + struct.pack("<I", 1) + b"\x00"))))
    assert losses_of(found) == {"entry_fields": 1}
    assert found.items == [rr.Entry(kind="rr", op="get", key=b"k", resp=b"\xff")]


def test_an_http_call_is_an_entry_without_status_and_headers() -> None:
    made = write([exchange("POST", "https://a.example/x", posted=b"a", body=b"b")])
    (entry,) = read(made.content).items
    assert entry == rr.Entry(
        kind="http", op="POST", key=b"https://a.example/x", req=b"a", resp=b"b"
    )
    assert losses_of(made) == {"headers": 1, "status": 1, "times": 1}


def _deep() -> bytes:
    value = b"\x00"
    for _ in range(70):
        value = b"\x04" + struct.pack("<I", 1) + value
    return value


DAMAGE: dict[str, Callable[[], bytes]] = {
    "cut in a length": lambda: write(SMOKE).content[:-140],
    "cut in a frame": lambda: write(SMOKE).content[:-1],
    "a length of nothing": lambda: b"\xff\xff\xff\xff",
    "not a document": lambda: _sized(b"\x02\x00"),
    "no value": lambda: _frame(b""),
    "not a map": lambda: _frame(b"\x00"),
    "an unknown kind of value": lambda: _frame(b"\x09"),
    "bytes after the value": lambda: _frame(_map(*FIELDS) + b"\x00"),
    "keys that do not ascend": lambda: _frame(_map(*reversed(FIELDS))),
    "a key twice": lambda: _frame(_map(FIELDS[0], *FIELDS)),
    "a field that is missing": lambda: _frame(_map(*FIELDS[:-1])),
    "a number that is text": lambda: _frame(_map((b"err", _string(b"0")), *FIELDS[1:])),
    "text that is a number": lambda: _frame(_map(*FIELDS[:-1], (b"resp", b"\x02" + _sized(b"1")))),
    "a number of no digits": lambda: _frame(_map((b"err", b"\x02" + _sized(b"x")), *FIELDS[1:])),
    "an endless number": lambda: _frame(
        _map((b"err", b"\x02" + _sized(b"9" * 9_999)), *FIELDS[1:])
    ),
    "a kind that is empty": lambda: _frame(_map(*FIELDS[:2], (b"kind", _string(b"")), *FIELDS[3:])),
    "nested without end": lambda: _frame(_deep()),
    "more values than bytes": lambda: _frame(b"\x04\xff\xff\xff\xff"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cassette_is_refused_as_a_whole(damage: str) -> None:
    error = refused(read, DAMAGE[damage]())
    assert str(error.fields["place"]).startswith("frame ")
