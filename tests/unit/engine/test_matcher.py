"""Finding the recorded call."""

from __future__ import annotations

import pytest

from reenact.engine.call import Call, Entry
from reenact.engine.decision.machine import call_identity
from reenact.engine.decision.matcher import LaneMatcher, LookupMatcher
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction.redactor import Redactor
from reenact.testing import MemorySource, memory_source, recording
from reenact.testing.recordings import call_of, parse_line

COMPARER = Comparer(Rules(), Redactor("none"))


def key_of(entry: Entry) -> str:
    return COMPARER.key({name: entry.opening.data[name] for name in ("source", "op", "request")})


def asked(said: str) -> tuple[Call, str]:
    call = call_of(parse_line(f"0 {said}"))
    return call, call.key or COMPARER.key(call_identity(call))


def lane(text: str | MemorySource) -> LaneMatcher:
    source = recording(text) if isinstance(text, str) else text
    return LaneMatcher(RecordedCalls(source), key_of)


def lookup(text: str) -> LookupMatcher:
    return LookupMatcher(RecordedCalls(recording(text)), key_of)


def stated(source: str, operation: str, key: str) -> tuple[Call, str]:
    call = Call(
        type="nondeterministic",
        capability=source,
        operation=operation,
        request={},
        source=source,
        key=key,
    )
    return call, key


def stated_recording(*calls: tuple[str, str, str]) -> MemorySource:
    return memory_source(
        *(
            ("nondeterministic", {"source": source, "op": operation, "key": key})
            for source, operation, key in calls
        )
    )


def seq(entry: Entry | None) -> int | None:
    return None if entry is None else entry.seq


def test_the_cursor_stays_until_something_is_taken() -> None:
    matcher = lane('0 network get {"x": 1} = 1\n0 network get {"x": 2} = 2')
    call, key = asked('network get {"x": 2}')
    assert seq(matcher.at_cursor(call, key, "0")) == 1
    assert seq(matcher.at_cursor(call, key, "0")) == 1
    first = matcher.at_cursor(call, key, "0")
    assert first is not None
    matcher.take(first)
    assert seq(matcher.at_cursor(call, key, "0")) == 2


def test_anywhere_is_before_and_after_the_cursor_and_unused() -> None:
    matcher = lane("\n".join(f'0 network get {{"x": {x}}} = 1' for x in (1, 2, 1, 3)))
    third, key = asked('network get {"x": 3}')
    found = matcher.anywhere(third, key, "0")
    assert seq(found) == 4
    assert found is not None
    matcher.take(found)
    first, key = asked('network get {"x": 1}')
    for expected in (1, 3, None):
        found = matcher.anywhere(first, key, "0")
        assert seq(found) == expected
        if found is not None:
            matcher.take(found)


def test_alike_is_the_next_of_the_operation_and_only_then_an_earlier_one() -> None:
    matcher = lane("\n".join(f"0 network {op} {{}} = 1" for op in ("get", "put", "get")))
    put, key = asked("network put {}")
    found = matcher.anywhere(put, key, "0")
    assert found is not None
    matcher.take(found)
    get, _ = asked('network get {"x": 1}')
    for expected in (3, 1, None):
        found = matcher.alike(get, "0")
        assert seq(found) == expected
        if found is not None:
            matcher.take(found)


@pytest.mark.parametrize("said", ["tool get {}", "process get {}"])
def test_alike_is_of_the_same_type_and_source(said: str) -> None:
    call, _ = asked(said)
    assert lane("0 network get {} = 1").alike(call, "0") is None
    assert lookup("0 network get {} = 1").alike(call, "0") is None


def test_a_stated_key_is_looked_for_together_with_its_operation() -> None:
    source = stated_recording(("kv", "get", "k"), ("kv", "put", "k"), ("other", "put", "k"))
    for matcher in (LookupMatcher(RecordedCalls(source.reopen()), key_of), lane(source.reopen())):
        assert seq(matcher.anywhere(*stated("kv", "put", "k"), "0")) == 2
        assert seq(matcher.anywhere(*stated("kv", "", "k"), "0")) == 1
        assert seq(matcher.anywhere(*stated("other", "put", "k"), "0")) == 3
        assert matcher.anywhere(*stated("other", "get", "k"), "0") is None


def test_a_stated_key_is_never_compared_with_a_digest() -> None:
    call, digest = asked("network get {}")
    text = "0 network get {} = 1"
    assert seq(lookup(text).at_cursor(call, digest, "0")) == 1
    given, _ = stated("network", "get", "another")
    assert lookup(text).at_cursor(given, "another", "0") is None
    assert lane(text).anywhere(given, "another", "0") is None


def test_candidates_are_this_lane_then_what_was_used_then_the_others() -> None:
    matcher = lane("""
        0.1  network get {"x": 1}  = 1
        0    network get {"x": 2}  = 2
        0    network get {"x": 3}  = 3
    """)
    call, key = asked('network get {"x": 2}')
    found = matcher.at_cursor(call, key, "0")
    assert found is not None
    matcher.take(found)
    told = [(event.seq, used) for event, used in matcher.candidates("0")]
    assert told == [(3, False), (2, True), (1, False)]


def test_candidates_of_a_look_up_are_all_in_the_order_of_the_log() -> None:
    matcher = lookup('0.1 network get {"x": 1} = 1\n0 network get {"x": 2} = 2')
    call, key = asked('network get {"x": 2}')
    found = matcher.at_cursor(call, key, "0")
    assert found is not None
    matcher.take(found)
    assert [(event.seq, used) for event, used in matcher.candidates("0")] == [(1, False), (2, True)]


def test_a_call_that_was_recorded_with_another_key_is_found_by_its_own() -> None:
    made = memory_source(
        ("nondeterministic", {"source": "network", "op": "get", "request": {"x": 1}, "key": "old"}),
        ("nondeterministic", {"source": "network", "op": "get", "request": {"x": 2}, "key": "old"}),
    )
    call, key = asked('network get {"x": 2}')
    assert seq(lane(made.reopen()).anywhere(call, key, "0")) == 2
    assert seq(LookupMatcher(RecordedCalls(made.reopen()), key_of).at_cursor(call, key, "0")) == 2
