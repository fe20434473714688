"""The codec for server-sent events follows the HTML standard."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact._net.sse import (
    Event,
    EventParser,
    EventTooLarge,
    encode_comment,
    encode_event,
    encode_retry,
    parse_events,
)

MOST = 1 << 20


def parse(*pieces: bytes) -> list[Event]:
    parser = EventParser(most=MOST)
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(
    "text, events",
    [
        ("", []),
        ("\n\n", []),
        ("data: a\n\n", [Event("", "a")]),
        ("data:a\n\n", [Event("", "a")]),
        ("data:  a\n\n", [Event("", " a")]),
        ("data: a: b\n\n", [Event("", "a: b")]),
        ("data\n\n", [Event("", "")]),
        ("data:\n\n", [Event("", "")]),
        ("event: x\ndata: a\ndata: b\n\n", [Event("x", "a\nb")]),
        ("event: a\ndata: 1\n\ndata: 2\n\n", [Event("a", "1"), Event("", "2")]),
        ("id: 7\ndata: a\n\ndata: b\n\n", [Event("", "a", "7"), Event("", "b", "7")]),
        ("id: 7\nevent: x\n\ndata: b\n\n", [Event("", "b", "7")]),
        (": ping\n\n: ping\n\n", []),
        ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", [Event("", x) for x in "abc"]),
        ("\ufeffdata: a\n\n", [Event("", "a")]),
        ("data: never ended\n", []),
        ("data: never ended", []),
        ("data: a\n\nevent: x\ndata: cut off\n", [Event("", "a")]),
        ("colour: red\ndata: a\n\n", [Event("", "a")]),
        ("id: a\0b\ndata: a\n\n", [Event("", "a")]),
        ("data: a\u2028b\x0bc\n\n", [Event("", "a\u2028b\x0bc")]),
        # The examples of the standard.
        ("data: YHOO\ndata: +2\ndata: 10\n\n", [Event("", "YHOO\n+2\n10")]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
            [Event("", "first event", "1"), Event("", "second event", "")],
        ),
        ("data\n\ndata\ndata\n\ndata:", [Event("", ""), Event("", "\n")]),
        ("data:test\n\ndata: test\n\n", [Event("", "test"), Event("", "test")]),
    ],
)
def test_events_are_parsed_as_the_standard_specifies(text: str, events: list[Event]) -> None:
    assert parse(text.encode()) == events
    assert list(parse_events(text.encode())) == events


def test_invalid_utf_8_is_replaced() -> None:
    assert parse(b"data: a\xffb\n\n") == [Event("", "a\ufffdb")]


@pytest.mark.parametrize(
    "text, retry",
    [("retry: 250", 250), ("retry: -1", None), ("retry: x", None), ("retry: " + "9" * 10, None)],
)
def test_retry_is_stored_if_it_is_a_number(text: str, retry: int | None) -> None:
    parser = EventParser(most=MOST)
    parser.feed(f"{text}\n\n".encode())
    assert parser.retry == retry


def test_parser_resumes_from_an_id() -> None:
    parser = EventParser(most=MOST, last_id="7")
    assert parser.feed(b"data: a\n\n") == [Event("", "a", "7")]


@pytest.mark.parametrize("text", ["data: " + "x" * 200, "data: xxxx\n" * 40, "x" * 200])
def test_too_large_event_is_refused(text: str) -> None:
    parser = EventParser(most=100)
    with pytest.raises(EventTooLarge):
        for byte in text.encode():
            parser.feed(bytes([byte]))


FIELD = st.sampled_from(["data", "event", "id", "retry", "", "colour", "data data"])
ENDS = st.sampled_from(["\n", "\r", "\r\n"])
LINES = st.builds(
    lambda name, value, end: f"{name}:{value}{end}",
    FIELD,
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8),
    ENDS,
)


@given(st.lists(st.one_of(LINES, ENDS), max_size=20), st.data())
def test_split_of_the_stream_does_not_matter(lines: list[str], data: st.DataObject) -> None:
    whole = "".join(lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    bounds = [0, *cuts, len(whole)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(bounds)]
    assert parse(*pieces) == parse(whole) == parse(*(bytes([one]) for one in whole))


WORDS = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)
TEXTS = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(WORDS.filter(bool), WORDS, TEXTS), max_size=8))
def test_written_events_are_read_back(sent: list[tuple[str, str, str]]) -> None:
    stream = b"".join(
        encode_comment("ping") + encode_event(name, data.encode(), id) for id, name, data in sent
    )
    assert parse(stream) == [Event(name, data, id) for id, name, data in sent]


def test_written_retry_is_read_back() -> None:
    parser = EventParser(most=MOST)
    parser.feed(encode_retry(2.5))
    assert parser.retry == 2_500
