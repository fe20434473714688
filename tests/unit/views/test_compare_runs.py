"""Two runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.format.event import Event
from reenact.policy.matching import Rules
from reenact.store.sinks.memory import MemorySource, memory_source
from reenact.views.compare import Comparison, LanePair, Same
from reenact.views.recorded_calls import RecordedCall

Program = Callable[[Any], None]
Compared = Callable[..., list[LanePair]]


def _recorded(path: Path, program: Program) -> Path:
    with reenact.session(capture=path, mode="record") as session:
        program(session)
    return path


@pytest.fixture
def compared() -> Iterator[Compared]:
    """``compared(one, other, rules=…)``; what comes of it may be looked at until the test ends."""
    with ExitStack() as opened:

        def compare(one: Path, other: Path, **options: Any) -> list[LanePair]:
            first = opened.enter_context(reenact.open_recording(one))
            second = opened.enter_context(reenact.open_recording(other))
            return list(Comparison(first, second, **options).lanes())

        yield compare


def _loud(question: str) -> dict[str, str]:
    return {"a": question.upper()}


def _asking(*questions: str) -> Program:
    def program(session: Any) -> None:
        for question in questions:
            session.call("ask", {"q": question}, partial(_loud, question))

    return program


def _kinds(lane: LanePair) -> list[tuple[str, int | None, int | None]]:
    def seq(step: RecordedCall | None) -> int | None:
        return None if step is None else step.seq

    return [(change.kind, seq(change.one), seq(change.other)) for change in lane.changes]


def test_two_recordings_of_the_same_program_are_the_same(
    compared: Compared, tmp_path: Path
) -> None:
    one = _recorded(tmp_path / "a", _asking("x", "y"))
    other = _recorded(tmp_path / "b", _asking("x", "y"))
    (lane,) = compared(one, other)
    assert (lane.one, lane.other, lane.same, lane.changes) == ("0", "0", 2, [])


def test_a_changed_call_names_every_place(compared: Compared, tmp_path: Path) -> None:
    one = _recorded(tmp_path / "a", _asking("x", "y", "z"))
    other = _recorded(tmp_path / "b", _asking("x", "why", "z"))
    (lane,) = compared(one, other)
    assert (lane.same, _kinds(lane)) == (2, [("changed", 3, 3)])
    (change,) = lane.changes
    assert [(found.path, found.expected, found.observed) for found in change.differences] == [
        (("args", "q"), "y", "why"),
        (("result", "a"), "Y", "WHY"),
    ]


def test_what_was_added_removed_and_moved(compared: Compared, tmp_path: Path) -> None:
    one = _recorded(tmp_path / "a", _asking("a", "b", "c", "d"))
    added = _recorded(tmp_path / "b", _asking("a", "b", "new", "c", "d"))
    moved = _recorded(tmp_path / "c", _asking("b", "c", "a", "d"))
    assert _kinds(compared(one, added)[0]) == [("added", None, 5)]
    assert _kinds(compared(added, one)[0]) == [("removed", 5, None)]
    assert _kinds(compared(one, moved)[0]) == [("moved", 1, 5)]


@pytest.mark.parametrize(
    "rules", [Rules(ignore_paths=("$..q", "$..a")), Rules(ignore_paths=("$.args", "$.result"))]
)
def test_what_a_rule_ignores_is_no_difference(
    compared: Compared, tmp_path: Path, rules: Rules
) -> None:
    one = _recorded(tmp_path / "a", _asking("x"))
    other = _recorded(tmp_path / "b", _asking("y"))
    assert compared(one, other, rules=rules)[0].changes == []
    assert compared(one, other)[0].changes != []


def _threads(*questions: str) -> Program:
    def program(session: Any) -> None:
        from threading import Thread

        for question in questions:
            thread = Thread(target=_asking(question, f"{question}!"), args=(session,))
            thread.start()
            thread.join()

    return program


def test_a_new_lane_does_not_make_all_that_follow_different(
    compared: Compared, tmp_path: Path
) -> None:
    one = _recorded(tmp_path / "a", _threads("a", "b", "c"))
    other = _recorded(tmp_path / "b", _threads("a", "new", "b", "c"))
    lanes = compared(one, other)
    assert [(lane.one, lane.other, lane.same) for lane in lanes if lane.one != lane.other] == [
        (None, "0.2", 0),
        ("0.2", "0.3", 2),
        ("0.3", "0.4", 2),
    ]
    assert [len(lane.changes) for lane in lanes if lane.one == "0.1"] == [0]


def test_long_conversations_are_read_through_their_deltas(
    compared: Compared, tmp_path: Path
) -> None:
    words = [f"word {number} " * 40 for number in range(60)]

    def program(last: str) -> Program:
        def ask(session: Any) -> None:
            for number in range(1, 61):
                messages = [*words[:number], last if number == 60 else ""]
                session.call("ask", {"messages": messages}, lambda: "fine")

        return ask

    one, other = _recorded(tmp_path / "a", program("x")), _recorded(tmp_path / "b", program("y"))
    (lane,) = compared(one, other)
    assert (lane.same, _kinds(lane)) == (59, [("changed", 119, 119)])
    assert [found.path for found in lane.changes[0].differences] == [("args", "messages", 60)]


class _Watched(MemorySource):
    """Notes the events that were looked at again."""

    def __init__(self, *events: Any) -> None:
        self.__dict__ = memory_source(*events).__dict__
        self.again: set[int] = set()

    def at(self, seq: int) -> Event:
        self.again.add(seq)
        return super().at(seq)


def _asked(*words: str) -> _Watched:
    lines = [("nondeterministic", {"source": "look", "request": word}) for word in words]
    return _Watched(*lines)


def test_calls_that_are_the_same_are_never_read_again() -> None:
    words = [f"word {number}" for number in range(50)]
    one, other = _asked(*words), _asked(*words)
    (lane,) = Comparison(one, other).lanes()
    assert (lane.same, one.again, other.again) == (50, set(), set())
    one, other = _asked(*words), _asked(*words[:20], "new", *words[21:])
    (lane,) = Comparison(one, other).lanes()
    assert (lane.same, one.again, other.again) == (49, {21}, {21})


def test_same_calls_stand_between_the_others() -> None:
    one, other = _asked(*"abcdef"), _asked(*"abXdeY")
    (lane,) = Comparison(one, other).lanes()
    shape = [len(part.pairs) if isinstance(part, Same) else part.kind for part in lane.parts]
    assert shape == [2, "changed", 2, "changed"]


def test_the_first_difference_is_told_long_before_all_is_read(tmp_path: Path) -> None:
    rest = [f"question {number}" for number in range(200)]
    one = _recorded(tmp_path / "a", _asking("x", *rest))
    other = _recorded(tmp_path / "b", _asking("y", *rest))
    read: list[int] = []
    with reenact.open_recording(one) as first, reenact.open_recording(other) as second:
        comparison = Comparison(
            first, second, first=lambda _: read.append(len(comparison.one.lanes["0"]))
        )
        (lane,) = comparison.lanes()
    assert len(lane.changes) == 1
    assert len(read) == 1
    assert read[0] < 20
