"""What a session has to say at its end."""

from __future__ import annotations

from reenact.engine.decision.machine import MAX_DIVERGENCES
from reenact.engine.session.final_report import Report
from reenact.policy.model import Policy
from reenact.testing import Playbook


def test_a_run_that_went_as_recorded_is_ok() -> None:
    book = Playbook("0 clock now = 1", policy=Policy(id="p", rng="pass"))
    book.play("0 clock now\n0 rng b {}\n0 rng a {}\n0 rng b {}")
    assert Report.of(book.machine, [], 0, "replay").to_json() == {
        "version": 1,
        "mode": "replay",
        "status": "ok",
        "counts": {
            "served": 1,
            "live": 0,
            "passed": {"random a": 1, "random b": 2},
            "divergences": 0,
            "unused": 0,
        },
        "divergences": [],
    }


def test_what_differed_and_what_was_left_over_are_listed_and_counted() -> None:
    book = Playbook("0 clock now = 1\n0 clock now = 2")
    book.play("0 clock then")
    left, unused = book.machine.left_over(1)
    told = Report.of(book.machine, left, unused, "replay").to_json()
    assert told["status"] == "diverged"
    assert told["counts"] == {
        "served": 0,
        "live": 0,
        "passed": {},
        "divergences": 2,
        "unused": 2,
    }
    assert [one["code"] for one in told["divergences"]] == [
        "event_payload_mismatch",
        "event_missing",
    ]


def test_divergences_that_were_only_counted_count() -> None:
    book = Playbook("", strict=False)
    for _ in range(MAX_DIVERGENCES + 3):
        book.decide("0 clock now")
    told = Report.of(book.machine, [], 0, "replay").to_json()
    assert told["counts"]["divergences"] == MAX_DIVERGENCES + 3
    assert len(told["divergences"]) == MAX_DIVERGENCES


def test_live_calls_are_counted() -> None:
    book = Playbook(mode="record_missing")
    book.play("0 clock now\n0 network get {}")
    assert Report.of(book.machine, [], 0, "record_missing").live == 2
