"""The budgets of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import BudgetExceeded, CapabilityDenied, Policy, open_recording, start_recording
from reenact.engine.recording.budget import (
    RecordingBudget,
    count_recorded_calls,
    is_full_refusal,
    recorded_size,
    repeat_refusal,
)
from reenact.policy.model import Budgets
from reenact.store.sinks.memory import memory_source


def _room(**budgets: int) -> RecordingBudget:
    return RecordingBudget(Policy(id="p", budgets=Budgets(**budgets)))


def test_without_budgets_everything_fits() -> None:
    room = _room()
    assert not room.measures
    for _ in range(1000):
        assert room.admit({"x": "y" * 1000}) is None
    assert room.over_budget({"response": "y" * 1_000_000}) is None


def test_the_call_that_does_not_fit_and_every_later_one_is_refused() -> None:
    room = _room(entries=1)
    assert room.admit({}) is None
    first = room.admit({})
    assert first is not None
    assert room.full is first
    second = room.admit({})
    assert second is not None
    assert second is not first
    assert (str(second), second.hint, second.fields) == (str(first), first.hint, first.fields)


def test_an_answer_that_is_too_large_does_not_fill_the_recording() -> None:
    room = _room(response_bytes=10)
    assert room.over_budget({"response": "x" * 8, "request": "y" * 100}) is None
    assert room.over_budget({"response": "x" * 9}) is not None
    assert room.over_budget({"result": "x" * 9}) is not None
    assert room.over_budget({"value": "x" * 9}) is not None
    assert room.over_answer(10) is None
    assert room.over_answer(11) is not None
    assert room.full is None


def test_bytes_are_counted_as_they_are_written() -> None:
    room = _room(cassette_bytes=20_000)
    large = {"response": "x" * 4_000}
    count = 0
    while room.over_budget(large) is None:
        room.took(large)
        count += 1
    assert count == 2
    assert room.full is not None
    assert is_full_refusal(room.full)


def test_a_request_that_does_not_fit_is_not_even_made() -> None:
    room = _room(cassette_bytes=20_000)
    refusal = room.admit({"x": "y" * 20_000})
    assert refusal is not None
    assert refusal.fields["budget"] == "cassetteBytes"


def test_what_is_there_already_counts() -> None:
    policy = Policy(id="p", budgets=Budgets(entries=2))
    room = RecordingBudget(policy, entries=2)
    assert room.admit({}) is not None


def test_a_budget_without_room_for_an_empty_recording_is_refused() -> None:
    with pytest.raises(BudgetExceeded):
        _room(cassette_bytes=0)


def test_only_the_budgets_of_the_whole_recording_fill_it() -> None:
    full = _room(entries=0).admit({})
    assert full is not None
    assert is_full_refusal(full)
    assert is_full_refusal(repeat_refusal(full))
    assert not is_full_refusal(BudgetExceeded("no", budget="calls"))
    assert not is_full_refusal(CapabilityDenied("no", budget="entries"))


EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("run_start", {"input": 1}),
    ("nondeterministic", {"source": "clock", "key": "k", "valueHash": "h"}),
    ("nondeterministic", {"source": "schedule", "key": "timer:1", "valueHash": "h"}),
    ("tool_call", {"name": "f", "args": {}, "callId": "c"}),
    ("tool_result", {"callId": "c", "ok": False, "error": {"class": "x", "kind": "denied"}}),
    ("tool_call", {"name": "f", "args": {}, "callId": "d"}),
    ("tool_result", {"callId": "d", "ok": False, "error": {"class": "x", "kind": "budget"}}),
    ("state_mutation", {"type": "file_write", "details": {}}),
    ("run_end", {"status": "ok"}),
]


def test_calls_are_counted_and_neither_marks_nor_deliveries() -> None:
    assert count_recorded_calls(memory_source(*EVENTS)) == 3


@pytest.mark.parametrize("name", ["tape.jsonl", "capture"])
def test_the_size_of_a_recording_is_that_of_its_events_and_blobs(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with start_recording(path, redaction="none") as recording:
        recording.add("tool_result", {"callId": "c", "ok": True, "result": "x" * 100_000})
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    listed = sum(file.stat().st_size for file in files if file.name != "manifest.json")
    with open_recording(path) as source:
        assert recorded_size(path, source.manifest()) == listed > 100_000
