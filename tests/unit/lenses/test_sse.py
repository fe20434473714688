"""Server-sent events, line by line."""

from __future__ import annotations

import pytest

from reenact.lenses.sse import Sent, events


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_lines_end_in_three_ways(end: str) -> None:
    body = end.join(["event: a", "data: 1", "", "data: 2", "data: 3", "", ""])
    assert list(events(body.encode())) == [Sent("a", "1"), Sent("", "2\n3")]


@pytest.mark.parametrize(
    "body,expected",
    [
        (b"", []),
        (b"\n\n", []),
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data\n\n", [""]),
        (b"data:\n\n", [""]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b": a comment\n\ndata: a\n\n", ["a"]),
        (b": OPENROUTER PROCESSING\n\n", []),
        (b"id: 7\nretry: 10\n\n", []),
        (b"event: a\n\ndata: b\n\n", ["b"]),
        (b"datum: a\ndata: b\n\n", ["b"]),
        (b"data: a: b\n\n", ["a: b"]),
        ("data: a\u2028b\x0bc\n\n".encode(), ["a\u2028b\x0bc"]),
        (b"data: \xff\n\n", ["\ufffd"]),
    ],
    ids=range(16),
)
def test_fields(body: bytes, expected: list[str]) -> None:
    assert [event.data for event in events(body)] == expected


@pytest.mark.parametrize("cut", [b"data: b", b"data: b\n", b"event: x\ndata: b\n", b"dat"])
def test_what_was_not_sent_to_its_end_is_no_event(cut: bytes) -> None:
    assert list(events(b"data: a\n\n" + cut)) == [Sent("", "a")]


def test_the_name_is_that_of_one_event() -> None:
    assert list(events(b"event: a\ndata: 1\n\ndata: 2\n\n")) == [Sent("a", "1"), Sent("", "2")]
