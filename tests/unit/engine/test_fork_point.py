"""Finding the call at which a run is forked, and what comes before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import Session, UsageError
from reenact.engine.fork.plan import ForkPoint, find_fork_point, fork_points, survey_prefix
from reenact.store.source import LogSource


def _program(session: Session) -> None:
    session.call("ask", {"n": 1}, lambda: 1, capability="llm.call")
    session.record_nondeterministic("clock", "now", 5)
    words: Any = session.stream("words", {}, lambda: iter("abc"))
    next(words)
    session.call("search", {"q": 1}, lambda: session.call("get", {}, int, capability="net.fetch"))
    list(words)
    session.call("ask", {"n": 2}, lambda: 2, capability="llm.call")
    session.record_nondeterministic("clock", "now", 6)


@pytest.fixture
def source(tmp_path: Path) -> Any:
    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        _program(session)
    with reenact.open_recording(tmp_path / "c") as source:
        yield source


def _operations(source: LogSource) -> dict[str, int]:
    """The seq of the event that opens each call."""
    found = {str(e.data.get("op") or e.data.get("name")): e.seq for e in reversed(list(source))}
    return {name: seq for name, seq in found.items() if name != "None"}


def test_a_step_is_counted_by_kind(source: LogSource) -> None:
    first, last = find_fork_point(source, "llm:1"), find_fork_point(source, "llm:2")
    assert (first.operation, first.number, first.of) == ("llm ask", 1, 5)
    assert last == find_fork_point(source, "last-llm")
    assert last.number == 5
    assert find_fork_point(source, "tool:1").operation == "search"
    assert find_fork_point(source, "call:1") == first


def test_an_event_stands_for_the_call_that_it_opens_or_completes(source: LogSource) -> None:
    tool = find_fork_point(source, "tool:1")
    assert tool.closing is not None
    assert find_fork_point(source, tool.seq) == find_fork_point(source, str(tool.closing)) == tool


def test_an_event_of_no_call_stands_for_the_next_one(source: LogSource) -> None:
    clock = next(event.seq for event in source if event.data.get("source") == "clock")
    assert find_fork_point(source, clock).operation == "search"


def test_a_piece_stands_for_its_stream(source: LogSource) -> None:
    piece = next(event.seq for event in source if event.data.get("source") == "schedule")
    assert find_fork_point(source, piece).operation == "network words"


def test_a_stream_is_cut_off_before_its_first_piece(source: LogSource) -> None:
    point = find_fork_point(source, "call:4")
    assert point.operation == "network words"
    piece = next(event.seq for event in source if event.data.get("source") == "schedule")
    assert point.cut == piece < point.seq


def test_a_pair_is_cut_off_where_it_opens(source: LogSource) -> None:
    point = find_fork_point(source, "tool:1")
    assert point.cut == point.seq == _operations(source)["search"]


def test_what_is_inside_of_a_tool_is_a_call_as_any(source: LogSource) -> None:
    inside, tool = find_fork_point(source, "network:1"), find_fork_point(source, "tool:1")
    assert inside.operation == "network get"
    assert inside.is_inside(source.at(tool.seq).data["inner"])
    assert not tool.is_inside(source.at(tool.seq).data["inner"])


def test_what_it_says_of_itself(source: LogSource) -> None:
    point = find_fork_point(source, "tool:1")
    assert point.line() == f"event {point.seq} (tool_call search), call 2 of 5"


@pytest.mark.parametrize(
    "at, message, hint",
    [
        ("llm:3", "2 calls of the kind llm", "2 llm, 2 network, 1 tool"),
        ("mcp:1", "no calls of the kind mcp", "2 llm, 2 network, 1 tool"),
        (99, "there is no event 99", "the events 1 to"),
        (0, "there is no event 0", "the events 1 to"),
        ("llm:0", "no place to fork at", "last-llm"),
        ("soon", "no place to fork at", "last-llm"),
    ],
)
def test_places_that_there_are_not(
    source: LogSource, at: int | str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        find_fork_point(source, at)
    assert hint in raised.value.hint


def test_nothing_comes_after_the_last_call(source: LogSource) -> None:
    with pytest.raises(UsageError, match="no call comes after event") as raised:
        find_fork_point(source, len(source))
    assert "the last one begins at event" in raised.value.hint


def test_a_recording_without_calls(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        session.record_nondeterministic("clock", "now", 5)
    source = reenact.open_recording(tmp_path / "c")
    with source, pytest.raises(UsageError, match="no call to fork at"):
        find_fork_point(source, 1)


def test_every_step_of_a_kind(source: LogSource) -> None:
    found: list[ForkPoint] = fork_points(source, "llm")
    assert [point.number for point in found] == [1, 5]
    assert len(fork_points(source, "call")) == 5
    assert fork_points(source, "mcp") == []


def test_positions_and_begun_streams_before_the_point(source: LogSource) -> None:
    tool, words = find_fork_point(source, "tool:1"), find_fork_point(source, "call:4")
    prefix = survey_prefix(source, tool.seq)
    assert prefix.counts == {"0": 2}
    assert prefix.begun == {("0", words.position)}
    everything = survey_prefix(source, len(source) + 1)
    assert everything.counts["0"] == 6
