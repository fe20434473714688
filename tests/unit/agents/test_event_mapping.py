"""From the bus to the recording: the table, and adapters of a program's own."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.agents.event_bus import STREAMS, Bus, BusEvent
from reenact.agents.event_mapping import TABLE, Mapper, capture_event
from reenact.errors import DivergenceError, UsageError
from reenact.format.event import TYPES
from reenact.format.event_fields import Nondeterministic, RunEnd, RunStart, StateMutation
from reenact.testing import memory_session


def event(stream: str, **data: Any) -> BusEvent:
    return BusEvent(run_id="r", seq=1, ts=0, stream=stream, data=data, session_key="k")


def test_the_table_knows_every_stream_and_no_other_type() -> None:
    assert {stream for stream, _ in TABLE} == set(STREAMS)
    assert {kind for kind, _ in TABLE.values() if kind is not None} <= set(TYPES)


def test_beginning_and_end_of_a_run() -> None:
    start = event("lifecycle", phase="start", input="x" * 500, messages=2)
    assert capture_event(start) == RunStart(
        input="x" * 120 + "… (500 characters)", session_key="k", extra={"messages": 2}
    )
    end = event(
        "lifecycle",
        phase="error",
        status="error",
        output="",
        stopReason=None,
        usage={"input": 1, "output": 0},
        error={"class": "ValueError", "message": "m", "kind": "model_error"},
    )
    made = capture_event(end)
    assert isinstance(made, RunEnd)
    assert made.error is not None
    assert (made.status, made.error.kind, made.usage) == ("error", "model_error", {"input": 1})


def test_a_fallback_changes_the_state() -> None:
    made = capture_event(event("lifecycle", phase="fallback", activeModel="b"))
    assert made == StateMutation(kind="model_fallback", details={"activeModel": "b"})


@pytest.mark.parametrize(
    "stream,phase",
    [place for place, (_, writer) in TABLE.items() if writer != "mapping"] + [("mine", "x")],
    ids=lambda value: value,
)
def test_what_boundaries_write_is_not_written_again(stream: str, phase: str) -> None:
    assert capture_event(event(stream, phase=phase)) is None


def note(event: BusEvent) -> StateMutation:
    return StateMutation(kind="note", details={"text": event.data["text"]})


def test_adapters_record_what_they_say_and_a_replay_compares_it() -> None:
    def run(session: Any, text: str) -> Mapper:
        mapper = Mapper(session, {"notes": note})
        channel = Bus().open("r", bridge=mapper)
        channel.emit("notes", {"text": text})
        channel.emit("others", {"text": text})
        return mapper

    with memory_session() as session:
        run(session, "a")
    assert [one.data["details"] for one in session.recorded()] == [{"text": "a"}]
    with memory_session(session.recorded()) as again:
        run(again, "a")
    with pytest.raises(DivergenceError), memory_session(session.recorded()) as other:
        run(other, "b")


def test_an_adapter_that_fails_is_told_and_breaks_nothing() -> None:
    def draw(event: BusEvent) -> Nondeterministic | None:
        if event.data["text"] == "nothing":
            return None
        raise KeyError(event.data["text"])

    with memory_session() as session:
        mapper = Mapper(session, {"notes": draw})
        mapper(event("notes", text="nothing"))
        mapper(event("notes", text="x"))
    assert mapper.failures == ["the adapter of notes failed: KeyError: 'x'"]
    assert list(session.recorded()) == []


def test_a_stream_of_ours_cannot_be_mapped_again() -> None:
    with pytest.raises(UsageError, match="tool is mapped already"):
        Mapper(None, {"tool": note})


def test_without_a_session_nothing_is_written() -> None:
    mapper = Mapper(None, {"notes": note})
    mapper(event("notes"))
    assert mapper.failures == []
