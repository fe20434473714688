"""What each mode does with a call that was recorded, and with one that was not."""

from __future__ import annotations

import pytest

from reenact.policy.model import BoundaryRule, Mode, Policy
from reenact.testing import Playbook

RECORDED = """
    0  network get {"x": 1}  = "one"
    0  network get {"x": 2}  = "two"
"""


@pytest.mark.parametrize("mode", ["off", "record", "rewrite"])
def test_modes_that_read_nothing_make_every_call(mode: Mode) -> None:
    Playbook(RECORDED, mode=mode).check("""
        0  network get {"x": 1}  -> live
        0  network get {"x": 9}  -> live
        0  clock now             -> live
        unused                   -> nothing
        head                     -> nothing
    """)


def test_replay_serves_what_was_recorded_and_refuses_the_rest() -> None:
    Playbook(RECORDED).check("""
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 2}  -> serve 2
        0  network get {"x": 3}  -> refuse event_unexpected
        unused                   -> nothing
    """)


def test_record_missing_serves_what_was_recorded_and_makes_the_rest() -> None:
    Playbook(RECORDED, mode="record_missing").check("""
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 9}  -> live
        0  network get {"x": 2}  -> serve 2
        unused                   -> nothing
    """)


def test_record_missing_never_serves_again_what_it_served_or_made() -> None:
    Playbook(RECORDED, mode="record_missing").check("""
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 1}  -> live
        0  network get {"x": 9}  -> live
        0  network get {"x": 9}  -> live
        unused                   -> 2
    """)


def test_record_missing_follows_a_program_that_changed_its_order() -> None:
    Playbook(RECORDED, mode="record_missing").check("""
        0  network get {"x": 2}  -> serve 2
        0  network get {"x": 3}  -> live
        0  network get {"x": 1}  -> serve 1
        unused                   -> nothing
    """)


def test_record_missing_without_a_recording_makes_everything() -> None:
    Playbook(mode="record_missing").check("""
        0  network get {"x": 1}  -> live
        0  network get {"x": 1}  -> live
    """)


def test_record_missing_does_not_take_from_another_lane() -> None:
    Playbook('0.1  network get {"x": 1}  = "theirs"', mode="record_missing").check("""
        0    network get {"x": 1}  -> live
        0.1  network get {"x": 1}  -> serve 1
    """)


def test_record_missing_never_serves_something_merely_alike() -> None:
    book = Playbook('0  network get {"x": 1}  = "one"', mode="record_missing", strict=False)
    book.check("""
        0  network get {"x": 2}  -> live
        unused                   -> 1
    """)
    assert book.machine.divergences == []


@pytest.mark.parametrize("mode", ["record", "rewrite", "replay", "record_missing"])
def test_what_passes_is_made_in_every_mode_and_touches_no_recording(mode: Mode) -> None:
    passing = Policy(
        id="p",
        boundaries=(BoundaryRule(capability="fs.read", action="pass"),),
        clock="pass",
    )
    book = Playbook("0  fs open {}  = 1", mode=mode, policy=passing)
    book.check("""
        0  fs open {}  -> pass
        0  clock now   -> pass
        0  clock now   -> pass
    """)
    assert book.machine.passed == {"fs.read open": 1, "time.now": 2}
    assert book.machine.served == book.machine.live == 0


def test_counts_of_what_was_served_and_made() -> None:
    book = Playbook(RECORDED, mode="record_missing")
    book.play("""
        0  network get {"x": 1}
        0  network get {"x": 9}
        0  network get {"x": 2}
    """)
    assert (book.machine.served, book.machine.live) == (2, 1)
