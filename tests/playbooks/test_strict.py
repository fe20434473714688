"""A strict replay: every difference is refused, and refusing changes nothing."""

from __future__ import annotations

import pytest

from reenact.testing import Playbook, Scripted, memory_session, memory_source

RECORDED = """
    0  network get {"x": 1, "deep": [{"y": 1}]}  = "one"
    0  tool search {"q": "rain"}                 = "found"
    0  clock now                                 = 1.5
"""


def test_a_mismatch_never_moves_the_cursor() -> None:
    Playbook(RECORDED).check("""
        0  network get {"x": 2, "deep": [{"y": 1}]}  -> refuse event_payload_mismatch 1 $.request.x
        0  network get {"x": 1, "deep": [{"y": 2}]}  -> refuse event_payload_mismatch 1 $.request.deep[0].y
        0  network put {"x": 1, "deep": [{"y": 1}]}  -> refuse event_payload_mismatch 1 $.op
        0  tool search {"q": "rain"}                 -> refuse event_type_mismatch 1
        0  clock now                                 -> refuse event_type_mismatch 1
        unused                                       -> 1 2 4
        0  network get {"x": 1, "deep": [{"y": 1}]}  -> serve 1
        0  tool search {"q": "snow"}                 -> refuse event_payload_mismatch 2 $.args.q
        0  tool find {"q": "rain"}                   -> refuse event_payload_mismatch 2 $.name
        0  tool search {"q": "rain"}                 -> serve 2
        0  rng now                                   -> refuse event_type_mismatch 4
        0  clock then                                -> refuse event_payload_mismatch 4 $.key
        0  clock now                                 -> serve 4
        unused                                       -> nothing
    """)


@pytest.mark.parametrize(
    "call, code",
    [
        ('network get {"x": 1}', "event_unexpected"),
        ('llm acme/m1 {"messages": []}', "event_unexpected"),
        ("tool search {}", "event_unexpected"),
        ("mcp list {}", "event_unexpected"),
        ("mutation file_write {}", "event_unexpected"),
        ("clock now", "nondeterministic_underflow"),
        ("clock read {}", "nondeterministic_underflow"),
        ("rng random", "nondeterministic_underflow"),
        ("env HOME", "nondeterministic_underflow"),
        ("process run {}", "nondeterministic_underflow"),
    ],
)
def test_beyond_the_recording_calls_are_unexpected_and_draws_ran_out(call: str, code: str) -> None:
    Playbook("").check(f"0  {call}  -> refuse {code}")


def test_a_miss_never_falls_back_to_the_next_one() -> None:
    Playbook("""
        0  network get {"x": 1}  = "one"
        0  network get {"x": 2}  = "two"
        0  network get {"x": 3}  = "three"
    """).check("""
        0  network get {"x": 2}  -> refuse event_payload_mismatch 1 $.request.x
        0  network get {"x": 3}  -> refuse event_payload_mismatch 1 $.request.x
        unused                   -> 1 2 3
    """)


def test_the_same_key_of_another_source_is_another_call() -> None:
    Playbook("0  rng now  = 0.25").check("""
        0  clock now  -> refuse event_type_mismatch 1
        0  rng now    -> serve 1
    """)


def test_all_differing_paths_are_listed() -> None:
    book = Playbook('0  network get {"a": 1, "b": 2, "c": 3}  = 1')
    book.play('0  network get {"a": 9, "b": 2, "d": 4}')
    (divergence,) = book.machine.divergences
    assert [gap.path for gap in divergence.paths] == ["$.request.a", "$.request.c", "$.request.d"]


def test_unused_calls_are_left_over_with_their_seq_and_lane() -> None:
    book = Playbook("""
        0    network get {"x": 1}  = 1
        0.1  network get {"x": 2}  = 2
        0    network get {"x": 3}  = 3
    """)
    book.check('0  network get {"x": 1}  -> serve 1')
    left, count = book.machine.left_over(1)
    assert count == 2
    assert [(one.code, one.event_seq, one.lane) for one in left] == [("event_missing", 3, "0")]


def test_marks_and_deliveries_are_never_left_over() -> None:
    Playbook("""
        0  run_start {"input": 1}
        0  schedule timer:0
        0  network get {"x": 1}  = 1
        0  run_end {"status": "ok"}
    """).check("""
        0  network get {"x": 1}  -> serve 3
        unused                   -> nothing
    """)


def test_a_strict_session_raises_the_same_divergence_again_at_every_later_call() -> None:
    source = memory_source(
        ("nondeterministic", {"source": "network", "op": "get", "request": {"x": 1}, "key": ""})
    )
    seen = []
    with pytest.raises(BaseException) as ended, memory_session(source) as session:
        for x in (2, 1):
            try:
                session.call("get", {"x": x}, Scripted(), capability="net.fetch")
            except BaseException as error:
                seen.append(error)
    first, second = seen
    assert first.divergence == second.divergence == ended.value.divergence  # type: ignore[attr-defined]
