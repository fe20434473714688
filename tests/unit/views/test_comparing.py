"""Two runs side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.policy.matching import Rules
from reenact.views.comparing import LanePair, compare
from reenact.views.steps import Step, read_steps

Program = Callable[[Any], None]


def _recorded(path: Path, program: Program) -> Path:
    with reenact.session(capture=path, mode="record") as session:
        program(session)
    return path


def _compared(one: Path, other: Path, **options: Any) -> list[LanePair]:
    with reenact.open_recording(one) as first, reenact.open_recording(other) as second:
        return list(compare(read_steps(first), read_steps(second), **options))


def _loud(question: str) -> dict[str, str]:
    return {"a": question.upper()}


def _asking(*questions: str) -> Program:
    def program(session: Any) -> None:
        for question in questions:
            session.call("ask", {"q": question}, partial(_loud, question))

    return program


def _kinds(lane: LanePair) -> list[tuple[str, int | None, int | None]]:
    def seq(step: Step | None) -> int | None:
        return None if step is None else step.seq

    return [(change.kind, seq(change.one), seq(change.other)) for change in lane.changes]


def test_two_recordings_of_the_same_program_are_the_same(tmp_path: Path) -> None:
    one = _recorded(tmp_path / "a", _asking("x", "y"))
    other = _recorded(tmp_path / "b", _asking("x", "y"))
    (lane,) = _compared(one, other)
    assert (lane.one, lane.other, lane.same, lane.changes) == ("0", "0", 2, [])


def test_a_changed_call_names_every_place(tmp_path: Path) -> None:
    one = _recorded(tmp_path / "a", _asking("x", "y", "z"))
    other = _recorded(tmp_path / "b", _asking("x", "why", "z"))
    (lane,) = _compared(one, other)
    assert (lane.same, _kinds(lane)) == (2, [("changed", 3, 3)])
    (change,) = lane.changes
    assert [(found.path, found.expected, found.observed) for found in change.differences] == [
        (("args", "q"), "y", "why"),
        (("result", "a"), "Y", "WHY"),
    ]


def test_what_was_added_removed_and_moved(tmp_path: Path) -> None:
    one = _recorded(tmp_path / "a", _asking("a", "b", "c", "d"))
    added = _recorded(tmp_path / "b", _asking("a", "b", "new", "c", "d"))
    moved = _recorded(tmp_path / "c", _asking("b", "c", "a", "d"))
    assert _kinds(_compared(one, added)[0]) == [("added", None, 5)]
    assert _kinds(_compared(added, one)[0]) == [("removed", 5, None)]
    assert _kinds(_compared(one, moved)[0]) == [("moved", 1, 5)]


@pytest.mark.parametrize(
    "rules", [Rules(ignore_paths=("$..q", "$..a")), Rules(ignore_paths=("$.args", "$.result"))]
)
def test_what_a_rule_ignores_is_no_difference(tmp_path: Path, rules: Rules) -> None:
    one = _recorded(tmp_path / "a", _asking("x"))
    other = _recorded(tmp_path / "b", _asking("y"))
    assert _compared(one, other, rules=rules)[0].changes == []
    assert _compared(one, other)[0].changes != []


def _threads(*questions: str) -> Program:
    def program(session: Any) -> None:
        from threading import Thread

        for question in questions:
            thread = Thread(target=_asking(question, f"{question}!"), args=(session,))
            thread.start()
            thread.join()

    return program


def test_a_new_lane_does_not_make_all_that_follow_different(tmp_path: Path) -> None:
    one = _recorded(tmp_path / "a", _threads("a", "b", "c"))
    other = _recorded(tmp_path / "b", _threads("a", "new", "b", "c"))
    lanes = _compared(one, other)
    assert [(lane.one, lane.other, lane.same) for lane in lanes if lane.one != lane.other] == [
        (None, "0.2", 0),
        ("0.2", "0.3", 2),
        ("0.3", "0.4", 2),
    ]
    assert [len(lane.changes) for lane in lanes if lane.one == "0.1"] == [0]


def test_long_conversations_are_read_through_their_deltas(tmp_path: Path) -> None:
    words = [f"word {number} " * 40 for number in range(60)]

    def program(last: str) -> Program:
        def ask(session: Any) -> None:
            for number in range(1, 61):
                messages = [*words[:number], last if number == 60 else ""]
                session.call("ask", {"messages": messages}, lambda: "fine")

        return ask

    one, other = _recorded(tmp_path / "a", program("x")), _recorded(tmp_path / "b", program("y"))
    (lane,) = _compared(one, other)
    assert (lane.same, _kinds(lane)) == (59, [("changed", 119, 119)])
    assert [found.path for found in lane.changes[0].differences] == [("args", "messages", 60)]
