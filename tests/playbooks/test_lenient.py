"""A lenient replay: what is served when something differs, and what is said about it."""

from __future__ import annotations

import pytest

from reenact.policy.model import BoundaryRule, Policy
from reenact.testing import MemorySource, Playbook, Scripted, memory_session, recording

FOUR = """
    0  network get {"x": 1}  = "one"
    0  network get {"x": 2}  = "two"
    0  network put {"x": 3}  = "three"
    0  network get {"x": 4}  = "four"
"""


def lenient(source: str | MemorySource) -> Playbook:
    return Playbook(source, strict=False)


def test_first_comes_the_earliest_unused_call_with_the_same_key() -> None:
    lenient(FOUR).check("""
        0  network put {"x": 3}  -> serve 3 despite event_payload_mismatch 1 $.op
        0  network get {"x": 4}  -> serve 4
        0  network get {"x": 2}  -> serve 2 despite event_unexpected
        0  network get {"x": 1}  -> serve 1 despite event_unexpected
        unused                   -> nothing
    """)


def test_then_comes_the_next_one_of_the_same_operation() -> None:
    lenient(FOUR).check("""
        0  network get {"x": 1}  -> serve 1
        0  network put {"x": 9}  -> serve 3 despite event_payload_mismatch 2 $.op
        0  network get {"x": 9}  -> serve 4 despite event_payload_mismatch 4 $.request.x
        0  network get {"x": 8}  -> serve 2 despite event_unexpected
        0  network get {"x": 7}  -> refuse event_unexpected
        unused                   -> nothing
    """)


def test_otherwise_there_is_nothing_to_serve() -> None:
    lenient(FOUR).check("""
        0    network delete {}      -> refuse event_payload_mismatch 1 $.op
        0    tool get {"x": 1}      -> refuse event_type_mismatch 1
        0.1  network get {"x": 1}   -> refuse event_unexpected
        0    network get {"x": 1}   -> serve 1
    """)


def test_what_was_skipped_stays_usable_and_is_missing_only_at_the_end() -> None:
    book = lenient(FOUR)
    book.check("""
        0  network get {"x": 4}  -> serve 4 despite event_payload_mismatch 1 $.request.x
        unused                   -> 1 2 3
        0  network get {"x": 2}  -> serve 2 despite event_unexpected
        unused                   -> 1 3
    """)
    assert [one.code for one in book.machine.divergences] == [
        "event_payload_mismatch",
        "event_unexpected",
    ]
    left, _ = book.machine.left_over(9)
    assert [(one.code, one.event_seq) for one in left] == [
        ("event_missing", 1),
        ("event_missing", 3),
    ]


def test_going_back_for_something_does_not_move_the_cursor_back() -> None:
    lenient(FOUR).check("""
        0  network put {"x": 3}  -> serve 3 despite event_payload_mismatch 1 $.op
        0  network get {"x": 1}  -> serve 1 despite event_payload_mismatch 4 $.request.x
        0  network get {"x": 4}  -> serve 4
        unused                   -> 2
    """)


def test_a_skipped_tool_that_is_called_after_all_has_its_inside_waited_for_again() -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(action="re-execute"),))
    book = Playbook(
        """
        0    tool search {}        inside 0.1
        0    network get {"x": 1}  = "one"
        0.1  network get {"x": 2}  = "inside"
        0    tool search           = "found"
        """,
        strict=False,
        policy=policy,
    )
    book.check("""
        0    network get {"x": 1}  -> serve 2 despite event_type_mismatch 1
        0    tool search {}        -> re-execute 1
        head                       -> 3
        0.1  network get {"x": 2}  -> serve 3
        head                       -> nothing
    """)


def test_the_order_of_deliveries_goes_on_without_what_was_skipped() -> None:
    lenient("""
        0    network get {"x": 1}      = "one"
        0    tool search {}            inside 0.1
        0.1  network get {"x": 1}      = "inside"
        0.1  schedule timer:0
        0    tool search               = "found"
        0    schedule chunk:2:0
        0    network words {}          = {"chunks": ["a"]}
        0    network get {"x": 2}      = "two"
    """).check("""
        head                      -> 1
        0  network get {"x": 2}   -> serve 8 despite event_payload_mismatch 1 $.request.x
        head                      -> nothing
        unused                    -> 1 2 7 3
    """)


def test_an_extra_draw_moves_nothing() -> None:
    lenient("""
        0  network get {"x": 1}  = "one"
        0  network get {"x": 2}  = "two"
    """).check("""
        0  clock now             -> refuse event_type_mismatch 1
        0  rng random            -> refuse event_type_mismatch 1
        0  network get {"x": 1}  -> serve 1
        0  clock now             -> refuse event_type_mismatch 2
        0  network get {"x": 2}  -> serve 2
        0  clock now             -> refuse nondeterministic_underflow
    """)


def test_a_draw_is_never_served_the_value_of_another_key() -> None:
    lenient("""
        0  clock now   = 1.5
        0  rng random  = 0.25
    """).check("""
        0  clock then  -> refuse event_payload_mismatch 1 $.key
        0  rng now     -> refuse event_type_mismatch 1
        0  clock now   -> serve 1
        0  rng random  -> serve 2
    """)


def test_a_call_may_skip_draws() -> None:
    lenient("""
        0  clock now             = 1.5
        0  rng random            = 0.25
        0  network get {"x": 1}  = "one"
        0  clock now             = 2.5
    """).check("""
        0  network get {"x": 1}  -> serve 3 despite event_type_mismatch 1
        0  clock now             -> serve 4
        unused                   -> 1 2
    """)


def test_look_up_and_transcript_are_lenient_in_the_same_way() -> None:
    Playbook(FOUR, strict=False, policy=Policy(id="p", match="lookup")).check("""
        0  network get {"x": 9}  -> serve 1 despite event_unexpected
        0  network get {"x": 1}  -> serve 2 despite event_unexpected
        0  network put {"x": 3}  -> serve 3
    """)
    Playbook(FOUR, strict=False, policy=Policy(id="p", match="transcript")).check("""
        0.1  network get {"x": 4}  -> serve 4 despite event_payload_mismatch 1 $.request.x
        0.2  network get {"x": 1}  -> serve 1 despite event_unexpected
        unused                     -> 2 3
    """)


def test_every_divergence_is_kept() -> None:
    source = recording("0  clock now  = 1.5")
    with memory_session(source, strict=False) as session:
        assert session.next_nondeterministic("clock", "now") == 1.5
        first = session.next_nondeterministic("clock", "now")
        assert session.next_nondeterministic("rng", "random") == pytest.approx(0.5, abs=0.5)
    assert first == 1.5 + 1e-6
    codes = [one.code for one in session.divergences()]
    assert codes == ["nondeterministic_underflow", "nondeterministic_underflow"]
    assert session.report().to_json()["counts"]["divergences"] == 2


def test_values_made_up_for_draws_are_the_same_in_every_run() -> None:
    def run() -> list[float]:
        with memory_session(recording(""), strict=False) as session:
            return [session.next_nondeterministic("rng", "random") for _ in range(3)]

    first = run()
    assert first == run()
    assert len(set(first)) == 3


def test_a_call_with_nothing_to_serve_fails_and_the_next_one_is_answered() -> None:
    source = recording('0  network get {"x": 1}  = "one"')
    live = Scripted()
    with memory_session(source, strict=False) as session:
        with pytest.raises(BaseException, match="event_payload_mismatch"):
            session.call("put", {}, live, capability="net.fetch")
        assert session.call("get", {"x": 1}, live, capability="net.fetch") == "one"
    assert live.asked == []
