from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.exchange.client.sse import EventTooLarge, Parser, Sent

MOST = 1 << 20


def parse(*pieces: bytes) -> list[Sent]:
    parser = Parser(most=MOST)
    return [sent for piece in pieces for sent in parser.feed(piece)]


@pytest.mark.parametrize(
    "text, events",
    [
        ("data: a\n\n", [Sent("message", "a")]),
        ("data:a\n\n", [Sent("message", "a")]),
        ("data:  a\n\n", [Sent("message", " a")]),
        ("data\n\n", [Sent("message", "")]),
        ("event: x\ndata: a\ndata: b\n\n", [Sent("x", "a\nb")]),
        ("id: 7\ndata: a\n\ndata: b\n\n", [Sent("message", "a", "7"), Sent("message", "b", "7")]),
        ("id: 7\nevent: x\n\ndata: b\n\n", [Sent("message", "b", "7")]),
        (": ping\n\n: ping\n\n", []),
        ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", [Sent("message", x) for x in "abc"]),
        ("\ufeffdata: a\n\n", [Sent("message", "a")]),
        ("data: never ended\n", []),
        ("data: never ended", []),
        ("colour: red\ndata: a\n\n", [Sent("message", "a")]),
        ("id: a\0b\ndata: a\n\n", [Sent("message", "a")]),
    ],
)
def test_events_are_read_as_the_standard_has_it(text: str, events: list[Sent]) -> None:
    assert parse(text.encode()) == events


def test_what_is_not_utf_8_is_replaced() -> None:
    assert parse(b"data: a\xffb\n\n") == [Sent("message", "a\ufffdb")]


@pytest.mark.parametrize(
    "text, retry", [("retry: 250", 250), ("retry: -1", None), ("retry: x", None)]
)
def test_how_long_to_wait_is_kept(text: str, retry: int | None) -> None:
    parser = Parser(most=MOST)
    parser.feed(f"{text}\n\n".encode())
    assert parser.retry == retry


@pytest.mark.parametrize("text", ["data: " + "x" * 200, "data: xxxx\n" * 40, "x" * 200])
def test_an_event_that_is_too_large_ends_it(text: str) -> None:
    parser = Parser(most=100)
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
def test_the_pieces_do_not_matter(lines: list[str], data: st.DataObject) -> None:
    whole = "".join(lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    bounds = [0, *cuts, len(whole)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(bounds)]
    assert parse(*pieces) == parse(whole) == parse(*(bytes([one]) for one in whole))


WORDS = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(WORDS.filter(bool), WORDS, WORDS), max_size=8), ENDS)
def test_what_is_written_is_read(sent: list[tuple[str, str, str]], end: str) -> None:
    text = "".join(
        f"id: {name}{end}event: {event}{end}data: {data}{end}{end}" for name, event, data in sent
    )
    expected = [Sent(event or "message", data, name) for name, event, data in sent]
    assert parse(text.encode()) == expected
