"""What is decided about each call of a run that is forked: before the point, there, and after it."""

from __future__ import annotations

from reenact.engine.fork.plan import At
from reenact.testing import Playbook

RECORDED = """
    0    network get {"x": 1}  = "one"
    0    clock now
    0    tool search {"q": 1}  = "found"
    0    network get {"x": 2}  = "two"
    0    network get {"x": 3}  = "three"
    0.1  network get {"x": 4}  = "four"
"""


def test_what_comes_before_the_point_is_served_and_what_comes_after_is_made() -> None:
    Playbook(RECORDED, fork=At("network:2")).check("""
        0  network get {"x": 1}  -> serve 1
        0  clock now             -> serve 2
        0  tool search {"q": 1}  -> serve 3
        0  network get {"x": 2}  -> fork 5
        0  network get {"x": 3}  -> live
        0  tool search {"q": 1}  -> live
        0  clock now             -> live
    """)


def test_what_differs_before_the_point_is_a_divergence() -> None:
    Playbook(RECORDED, fork=At("network:3")).check("""
        0  network get {"x": 9}  -> refuse event_payload_mismatch 1 $.request.x
    """)


def test_the_call_at_the_point_has_to_be_the_recorded_one() -> None:
    Playbook(RECORDED, fork=At("network:2")).check("""
        0  network get {"x": 1}  -> serve 1
        0  clock now             -> serve 2
        0  tool search {"q": 1}  -> serve 3
        0  network get {"x": 9}  -> refuse event_payload_mismatch 5 $.request.x
    """)


def test_kinds_that_are_not_live_are_served_where_the_same_was_recorded_in_any_lane() -> None:
    Playbook(RECORDED, fork=At("tool:1", live=("tools",))).check("""
        0  network get {"x": 1}  -> serve 1
        0  clock now             -> serve 2
        0  tool search {"q": 1}  -> fork 3
        0  tool other {"q": 2}   -> live
        0  network get {"x": 3}  -> serve 6
        0  network get {"x": 4}  -> serve 7
        0  network get {"x": 4}  -> refuse policy.refused
        0  clock now             -> live
    """)


def test_what_was_used_before_the_point_is_not_served_again() -> None:
    Playbook(RECORDED, fork=At("network:2", live=("llm",))).check("""
        0  network get {"x": 1}  -> serve 1
        0  clock now             -> serve 2
        0  tool search {"q": 1}  -> serve 3
        0  network get {"x": 2}  -> fork 5
        0  network get {"x": 1}  -> refuse policy.refused
    """)


def test_nothing_is_handed_over_beyond_the_point() -> None:
    Playbook(RECORDED, fork=At("network:2")).check("""
        head                     -> 1
        0  network get {"x": 1}  -> serve 1
        head                     -> 4
        0  clock now             -> serve 2
        0  tool search {"q": 1}  -> serve 3
        head                     -> nothing
    """)
