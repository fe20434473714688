"""What an update does with a call that was recorded, with one that differs, and with the rest."""

from __future__ import annotations

from reenact.engine.update.changes import UpdateOutcome
from reenact.policy.model import Policy
from reenact.testing import Playbook

RECORDED = """
    0  network get {"x": 1}  = "one"
    0  network get {"x": 2}  = "two"
    0  network get {"x": 3}  = "three"
"""


def _played(text: str, recorded: str = RECORDED, policy: Policy | None = None) -> UpdateOutcome:
    book = Playbook(recorded, mode="update", policy=policy or Policy(id="p"))
    book.check(text)
    return book.machine.outcome()


def _seqs(outcome: UpdateOutcome) -> tuple[list[int | None], int, list[int | None]]:
    changed = [one.event_seq for one in outcome.changed]
    return changed, len(outcome.added), [one.event_seq for one in outcome.dropped]


def test_what_is_the_same_is_served() -> None:
    outcome = _played("""
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 2}  -> serve 2
        0  network get {"x": 3}  -> serve 3
    """)
    assert outcome.is_same
    assert outcome.kept == 3
    assert outcome.line() == "3 kept, 0 changed, 0 added, 0 dropped"


def test_a_call_that_differs_takes_the_place_of_the_recorded_one() -> None:
    outcome = _played("""
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 9}  -> live
        0  network get {"x": 3}  -> serve 3
        unused                   -> 2
    """)
    assert _seqs(outcome) == ([2], 0, [])
    [changed] = outcome.changed
    assert (changed.code, changed.json_path) == ("event_payload_mismatch", "$.request.x")


def test_a_new_call_in_front_of_recorded_ones_is_added() -> None:
    outcome = _played("""
        0  network get {"x": 9}  -> live
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 2}  -> serve 2
        0  network get {"x": 3}  -> serve 3
        unused                   -> nothing
    """)
    assert _seqs(outcome) == ([], 1, [])
    assert outcome.added[0].code == "event_unexpected"


def test_what_is_not_asked_for_is_dropped() -> None:
    outcome = _played("""
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 3}  -> serve 3
    """)
    assert _seqs(outcome) == ([], 0, [2])
    assert outcome.dropped[0].code == "event_missing"


def test_a_call_of_another_sort_at_the_place_of_a_recorded_one_has_changed_it() -> None:
    outcome = _played("""
        0  network get {"x": 1}   -> serve 1
        0  network post {"x": 2}  -> live
        0  network get {"x": 3}   -> serve 3
    """)
    assert _seqs(outcome) == ([2], 0, [])


def test_draws_behind_a_changed_call_are_served() -> None:
    recorded = """
        0  network get {"x": 1}  = "one"
        0  clock time.time       = 5
        0  network get {"x": 2}  = "two"
    """
    outcome = _played(
        """
        0  network get {"x": 9}  -> live
        0  clock time.time       -> serve 2
        0  network get {"x": 2}  -> serve 3
    """,
        recorded,
    )
    assert _seqs(outcome) == ([1], 0, [])


def test_several_changes_in_a_row_change_the_calls_in_their_order() -> None:
    outcome = _played("""
        0  network get {"x": 7}  -> live
        0  network get {"x": 8}  -> live
        0  network get {"x": 3}  -> serve 3
        0  network get {"x": 9}  -> live
    """)
    assert _seqs(outcome) == ([1, 2], 1, [])


def test_where_calls_are_looked_up_one_of_the_same_sort_was_changed() -> None:
    outcome = _played(
        """
        0  network get {"x": 3}  -> serve 3
        0  network get {"x": 9}  -> live
        0  network get {"x": 1}  -> serve 1
    """,
        policy=Policy(id="p", match="lookup"),
    )
    assert _seqs(outcome) == ([2], 0, [])


def test_lanes_are_kept_apart() -> None:
    recorded = """
        0.1  network get {"x": 1}  = "theirs"
        0.2  network get {"x": 2}  = "ours"
    """
    outcome = _played(
        """
        0.2  network get {"x": 1}  -> live
        0.1  network get {"x": 1}  -> serve 1
    """,
        recorded,
    )
    assert _seqs(outcome) == ([2], 0, [])


def test_without_a_recording_everything_is_made() -> None:
    book = Playbook(mode="update")
    book.check('0  network get {"x": 1}  -> live')
    assert book.machine.outcome() == UpdateOutcome()
