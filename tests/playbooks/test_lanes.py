"""Three ways to find the recorded call: by lane, by transcript, by look-up."""

from __future__ import annotations

from reenact.policy.model import Policy
from reenact.testing import Playbook, recording

TRANSCRIPT = Policy(id="p", match="transcript")
LOOKUP = Policy(id="p", match="lookup")

TWO_LANES = """
    0.1  network get {"x": 1}  = "first's"
    0.2  network get {"x": 1}  = "second's"
    0.1  network get {"x": 2}  = "first's"
    0.2  network get {"x": 2}  = "second's"
"""


def test_identical_calls_in_two_lanes_get_their_own_answers_in_any_order() -> None:
    Playbook(TWO_LANES).check("""
        0.2  network get {"x": 1}  -> serve 2
        0.2  network get {"x": 2}  -> serve 4
        0.1  network get {"x": 1}  -> serve 1
        0.1  network get {"x": 2}  -> serve 3
        unused                     -> nothing
    """)


def test_identical_calls_in_one_lane_use_separate_events() -> None:
    Playbook("""
        0  network get {"x": 1}  = "a"
        0  network get {"x": 1}  = "b"
    """).check("""
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 1}  -> serve 2
        0  network get {"x": 1}  -> refuse event_unexpected
    """)


def test_a_lane_knows_nothing_of_another_one() -> None:
    Playbook(TWO_LANES).check("""
        0    network get {"x": 1}  -> refuse event_unexpected
        0.3  network get {"x": 1}  -> refuse event_unexpected
        0.1  network get {"x": 2}  -> refuse event_payload_mismatch 1 $.request.x
        0.2  network get {"x": 1}  -> serve 2
    """)


def test_a_single_lane_is_a_strict_cursor_over_the_log() -> None:
    Playbook("""
        0  clock now                      = 1.5
        0  llm acme/m1 {"messages": []}   = "hi"
        0  network get {"x": 1}           = "one"
    """).check("""
        0  llm acme/m1 {"messages": []}   -> refuse event_type_mismatch 1
        0  network get {"x": 1}           -> refuse event_type_mismatch 1
        0  clock now                      -> serve 1
        0  network get {"x": 1}           -> refuse event_type_mismatch 2
        0  llm acme/m1 {"messages": []}   -> serve 2
        0  network get {"x": 1}           -> serve 4
        unused                            -> nothing
    """)


def test_a_transcript_has_one_order_for_all_lanes() -> None:
    Playbook(TWO_LANES, policy=TRANSCRIPT).check("""
        0.2  network get {"x": 2}  -> refuse event_payload_mismatch 1 $.request.x
        0.2  network get {"x": 1}  -> serve 1
        0.7  network get {"x": 1}  -> serve 2
        0    network get {"x": 2}  -> serve 3
        unused                     -> 4
    """)


def test_a_transcript_takes_no_notice_of_positions_in_lanes() -> None:
    Playbook(
        """
        0  network quick {}  at 1 = 1
        0  network slow {}   at 0 = 2
        """,
        policy=TRANSCRIPT,
    ).check("""
        0  network quick {}  -> serve 1
        0  network slow {}   -> serve 2
    """)


def test_look_up_takes_the_earliest_unused_with_the_key_wherever_it_stands() -> None:
    Playbook(TWO_LANES, policy=LOOKUP).check("""
        0  network get {"x": 2}  -> serve 3
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 2}  -> serve 4
        0  network get {"x": 2}  -> refuse event_unexpected
        0  network get {"x": 9}  -> refuse event_unexpected
        0  network get {"x": 1}  -> serve 2
        unused                   -> nothing
    """)


def test_look_up_tells_sources_with_the_same_key_apart() -> None:
    Playbook(
        """
        0  clock now  = 1.5
        0  rng now    = 0.25
        """,
        policy=LOOKUP,
    ).check("""
        0  rng now    -> serve 2
        0  rng now    -> refuse nondeterministic_underflow
        0  clock now  -> serve 1
    """)


def test_look_up_reads_no_further_than_it_has_to() -> None:
    source = recording(TWO_LANES + '\n0 network get {"x": 9} = 9' * 20)
    book = Playbook(source, policy=LOOKUP)
    book.check('0  network get {"x": 1}  -> serve 1')
    assert book.script is not None
    assert not book.script.whole


def test_the_next_of_a_lane_is_found_without_reading_the_rest() -> None:
    book = Playbook("\n".join(f'0 network get {{"x": {n}}} = {n}' for n in range(50)))
    book.check("""
        0  network get {"x": 0}  -> serve 1
        0  network get {"x": 1}  -> serve 2
    """)
    assert book.script is not None
    assert not book.script.whole
