"""The frames of AWS, as botocore reads them too."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer

from reenact.lenses.content import Frame, frames
from tests.unit.lenses.spoken import ANTHROPIC_ON_BEDROCK, CONVERSE, frame

EMPTY = bytes.fromhex("000000100000000005c248eb7d98c8ff")
"""The empty message of the format's public test vectors."""


@pytest.mark.parametrize("body", [CONVERSE, ANTHROPIC_ON_BEDROCK, EMPTY, b""], ids=range(4))
def test_the_frames_are_those_that_botocore_sees(body: bytes) -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    theirs = [(dict(one.headers), one.payload) for one in buffer]
    assert [(one.headers, one.payload) for one in frames(body)] == theirs


def test_the_empty_frame() -> None:
    assert list(frames(EMPTY)) == [Frame({}, b"")]


def _with_headers(block: bytes) -> bytes:
    prelude = struct.pack(">II", 16 + len(block), len(block))
    whole = prelude + struct.pack(">I", crc32(prelude)) + block
    return whole + struct.pack(">I", crc32(whole))


def test_headers_of_every_type_are_stepped_over() -> None:
    values = [b"\0", b"\1", b"\2x", b"\3xx", b"\4xxxx", b"\5" + bytes(8), b"\6\0\2ab"]
    values += [b"\x08" + bytes(8), b"\x09" + bytes(16)]
    block = b"".join(b"\1" + b"abcdefghi"[at : at + 1] + value for at, value in enumerate(values))
    body = _with_headers(block + b"\4name\7\0\5value")
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    assert len(next(buffer).headers) == 10
    assert list(frames(body)) == [Frame({"name": "value"}, b"")]


@pytest.mark.parametrize(
    "block", [b"\4nam", b"\1a", b"\1a\x63", b"\1a\7", b"\1a\7\xff\xff"], ids=range(5)
)
def test_headers_that_break_off_are_read_as_far_as_they_go(block: bytes) -> None:
    [found] = frames(_with_headers(b"\1k\7\0\1v" + block))
    assert found.headers["k"] == "v"


def test_a_frame_of_an_impossible_length_ends_the_stream() -> None:
    for total, headers in ((15, 0), (16, 1), (2**32 - 1, 0)):
        prelude = struct.pack(">II", total, headers)
        body = prelude + struct.pack(">I", crc32(prelude)) + bytes(64)
        assert list(frames(body)) == []


def test_the_lengths_have_a_checksum_of_their_own() -> None:
    whole = frame(b"{}", event_type="a")
    wrong = whole[:8] + bytes(4) + whole[12:-4]
    assert list(frames(wrong + struct.pack(">I", crc32(wrong)))) == []


def test_what_comes_before_the_damage_counts() -> None:
    good = frame(b"{}", event_type="a")
    assert [one.payload for one in frames(good + good[:-1])] == [b"{}"]
    assert [one.payload for one in frames(good + good[:-1] + b"\0" + good)] == [b"{}"]
