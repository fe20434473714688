"""What a draw of chance becomes: in a recording, out of it, and where something else stands there."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from reenact.boundaries.random.recorded_values import (
    ANYBODY,
    LARGEST,
    apart,
    bits,
    drawn,
    octets,
    text,
)
from reenact.engine.session.current import current
from reenact.policy.redaction.redactor import Profile
from reenact.testing import MemorySource, memory_session

NAME = "rng x"


def recorded(*values: Any, redaction: Profile = "none") -> MemorySource:
    """A recording in which ``values`` were drawn, whatever they are."""
    with memory_session(mode="record", redaction=redaction) as session:
        for value in values:
            session.draws.draw(NAME, partial(_same, value))
    return session.recorded()


def _same(value: Any) -> Any:
    return value


def never() -> Any:
    raise AssertionError("nothing is live in a replay")


@pytest.mark.parametrize("count", [1, 8, 13, 53, 64, LARGEST])
def test_a_number_is_written_as_itself(count: int) -> None:
    numbers = [(1 << count) - 1, 0]
    with memory_session(recorded(*numbers)):
        assert [bits(NAME, count, never, ANYBODY) for _ in numbers] == numbers


@pytest.mark.parametrize("count", [LARGEST + 1, LARGEST + 8, 20_000])
def test_a_very_large_number_is_written_as_bytes(count: int) -> None:
    number = (1 << count) - 5
    with memory_session(mode="record") as session:
        assert bits(NAME, count, lambda: number, ANYBODY) == number
    [event] = session.recorded()
    assert event.data["value"] == number.to_bytes((count + 7) // 8, "big")
    with memory_session(session.recorded()):
        assert bits(NAME, count, never, ANYBODY) == number


STRANGE = {
    "a fraction": 0.25,
    "nothing": None,
    "a placeholder": "***REDACTED***",
    "less than nothing": -1,
    "too large": 1 << 70,
    "a truth": True,
    "a list": [1],
    "bytes": b"\xff",
    "an object": {},
    "a secret that is lost": {"drawnSecret": "***REDACTED***"},
    "a secret of another size": {"drawnSecret": "00"},
}


@pytest.mark.parametrize("found", STRANGE)
@pytest.mark.parametrize("count", [1, 7, 64, LARGEST + 3])
def test_what_is_no_such_number_becomes_one(count: int, found: str) -> None:
    with memory_session(recorded(STRANGE[found])):
        number = bits(NAME, count, never, ANYBODY)
    assert type(number) is int
    assert 0 <= number < 1 << count


@pytest.mark.parametrize("found", STRANGE)
@pytest.mark.parametrize("size", [0, 3, 100])
def test_what_are_no_such_bytes_become_some(size: int, found: str) -> None:
    with memory_session(recorded(STRANGE[found])):
        assert len(octets(NAME, size, never, ANYBODY)) == size


def test_bytes_come_back() -> None:
    with memory_session(recorded({"drawnSecret": "00ff10"})):
        assert octets(NAME, 3, never, ANYBODY) == b"\x00\xff\x10"


def test_a_text_comes_back_or_something_to_make_one_of() -> None:
    with memory_session(recorded("abc", "***REDACTED***", 0.5)):
        assert text(NAME, never, ANYBODY) == ("abc", b"")
        for _ in range(2):
            found, instead = text(NAME, never, ANYBODY)
            assert (found, len(instead)) == ("", 16)


def test_made_up_values_differ_from_each_other_and_are_the_same_every_time() -> None:
    source = recorded(*[{"drawnSecret": "abcdef"}] * 3, redaction="default")
    found, said = [], []
    for _ in range(2):
        with memory_session(source) as session:
            found.append([octets(NAME, 3, never, ANYBODY) for _ in range(3)])
        said.append(session.warnings)
    assert found[0] == found[1]
    assert len({*found[0], b"\xab\xcd\xef"}) == 4
    assert [len(one) for one in said] == [1, 1]
    assert "made up" in said[0][0]


def test_what_is_drawn_apart_is_in_no_session() -> None:
    with memory_session(mode="record") as session:
        assert current() is session
        assert apart(current) is None
        assert current() is session


def test_without_a_session_what_is_drawn_is_live() -> None:
    assert drawn("rng x", lambda: 5, ANYBODY) == 5
    assert bits("rng x", 8, lambda: 200, ANYBODY) == 200
    assert octets("rng x", 2, lambda: b"ab", ANYBODY) == b"ab"
    assert text("rng x", lambda: "t", ANYBODY) == ("t", b"")
