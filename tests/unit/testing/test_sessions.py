"""Sessions that keep their recording in memory."""

from __future__ import annotations

import pytest

from reenact import DivergenceError, Ignore, Policy, PolicyRefused, UsageError
from reenact.policy.model import Budgets
from reenact.testing import MemorySession, Scripted, VirtualClock, memory_session, memory_source


def get(session: MemorySession, x: int, live: object = None) -> object:
    return session.call("get", {"x": x}, live or Scripted(), capability="net.fetch")  # type: ignore[arg-type]


def recorded(*answers: object) -> MemorySession:
    with Scripted(*answers) as live, memory_session() as session:
        for x in range(len(answers)):
            get(session, x, live)
    return session


def test_it_records_without_a_source_and_replays_with_one() -> None:
    made = recorded("zero", "one")
    assert made.mode == "record"
    for _ in range(2):
        with memory_session(made.recorded()) as replay:
            assert [get(replay, 0), get(replay, 1)] == ["zero", "one"]
        assert replay.mode == "replay"
        assert replay.report().status == "ok"


def test_one_source_can_be_replayed_often() -> None:
    source = recorded("zero").recorded()
    for _ in range(3):
        with memory_session(source) as replay:
            assert get(replay, 0) == "zero"


def test_it_is_strict_unless_told_otherwise() -> None:
    source = recorded("zero").recorded()
    with pytest.raises(DivergenceError), memory_session(source) as replay:
        get(replay, 9)
    with pytest.raises(DivergenceError, match="event_missing"), memory_session(source):
        pass
    with memory_session(source, strict=False) as replay:
        assert get(replay, 9) == "zero"
    assert [one.code for one in replay.divergences()] == ["event_payload_mismatch"]
    lenient = Policy(id="p", strictness="lenient", unused="allow")
    with memory_session(source, policy=lenient):
        pass


def test_warnings_are_collected_or_handed_on() -> None:
    source = recorded("zero").recorded()
    with memory_session(source, strict=False) as replay:
        get(replay, 9)
    assert len(replay.warnings) == 1
    assert "event_payload_mismatch" in replay.warnings[0]
    told: list[str] = []
    with memory_session(source, strict=False, warn=told.append) as replay:
        get(replay, 9)
    assert replay.warnings == []
    assert len(told) == 1


def test_what_is_missing_is_added() -> None:
    old = recorded("zero").recorded()
    with memory_session(old, mode="record_missing") as session, Scripted("new") as live:
        assert [get(session, 0), get(session, 1, live)] == ["zero", "new"]
    with memory_session(session.recorded()) as replay:
        assert [get(replay, 0), get(replay, 1)] == ["zero", "new"]


def test_where_nothing_is_missing_the_recording_is_the_old_one() -> None:
    old = recorded("zero").recorded()
    with memory_session(old, mode="record_missing") as session:
        get(session, 0)
    assert session.recorded().manifest() is old.manifest()


def test_rewrite_records_anew_and_a_failed_run_leaves_nothing() -> None:
    source = recorded("zero").recorded()
    with memory_session(source, mode="rewrite") as session, Scripted("other") as live:
        assert get(session, 0, live) == "other"
    assert [event.data["response"] for event in session.recorded()] == ["other"]
    with pytest.raises(ZeroDivisionError), memory_session(source, mode="rewrite") as session:
        raise ZeroDivisionError
    with pytest.raises(UsageError, match="given up"):
        session.recorded()


def test_off_makes_every_call() -> None:
    with memory_session(mode="off") as session, Scripted(1, 1) as live:
        assert [get(session, 0, live), get(session, 0, live)] == [1, 1]
    with pytest.raises(UsageError, match="records nothing"):
        session.recorded()


def test_there_must_be_something_to_replay() -> None:
    with pytest.raises(UsageError, match="nothing to replay"):
        memory_session(mode="replay")


def test_the_recording_is_there_only_after_the_end() -> None:
    with memory_session() as session, pytest.raises(UsageError, match="has not ended"):
        session.recorded()


def test_matching_and_ignoring_are_said_as_for_any_session() -> None:
    source = recorded("zero", "one").recorded()
    with memory_session(source, match="lookup") as replay:
        assert [get(replay, 1), get(replay, 0)] == ["one", "zero"]
    with memory_session(source, ignore=Ignore(paths=("$.request.x",))) as replay:
        assert [get(replay, 7), get(replay, 8)] == ["zero", "one"]


def test_secrets_are_taken_out_unless_told_otherwise() -> None:
    def made(**settings: object) -> object:
        with memory_session(**settings) as session:  # type: ignore[arg-type]
            session.call("get", {"password": "hunter2"}, lambda: 1, capability="net.fetch")
        (event,) = session.recorded()
        return event.data["request"]["password"]

    assert made() == "***REDACTED***"
    assert made(redaction="none") == "hunter2"


def test_budgets_hold() -> None:
    policy = Policy(id="p", budgets=Budgets(entries=1))
    with memory_session(policy=policy) as session, Scripted("zero") as live:
        get(session, 0, live)
        with pytest.raises(PolicyRefused, match="entries"):
            get(session, 1, live)


def test_the_time_is_that_of_its_clock() -> None:
    clock = VirtualClock(5_000)
    with memory_session(clock=clock) as session, Scripted(1, 2) as live:
        get(session, 0, live)
        clock.advance(10)
        get(session, 1, live)
    assert [event.ts for event in session.recorded()] == [5_000, 5_010]


def test_two_recordings_of_the_same_program_are_the_same() -> None:
    one, two = recorded("zero", "one").recorded(), recorded("zero", "one").recorded()
    assert one.manifest() == two.manifest()


def test_a_recording_made_by_hand_is_replayed() -> None:
    source = memory_source(("nondeterministic", {"source": "clock", "key": "now", "value": 3}))
    with memory_session(source) as replay:
        assert replay.next_nondeterministic("clock", "now") == 3
