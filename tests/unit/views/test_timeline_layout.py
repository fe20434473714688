"""What goes where in a timeline."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from reenact.views.timeline.layout import Timeline, lay_out, make_axis, tick_text
from reenact.views.timeline.model import Span


def _bar(start: int, end: int, lane: str = "0", **more: Any) -> Span:
    seq = more.pop("seq", start + 1)
    made: dict[str, Any] = {"kind": "tool", "label": "t", "state": "done", "closed": seq}
    return Span(seq=seq, lane=lane, start=start, end=end, **{**made, **more})


def _laid(bars: list[Span], width: int = 100, **more: Any) -> Timeline:
    ends = {"start": min(b.start for b in bars), "end": max(b.end for b in bars)}
    return lay_out(bars, width, **{**ends, **more})


def _places(plan: Timeline, row: int = 0) -> list[tuple[int, int, int]]:
    return [(piece.column, piece.width, piece.calls) for piece in plan.rows[row].pieces]


def test_calls_stand_at_their_time() -> None:
    plan = _laid([_bar(0, 500), _bar(600, 1000)])
    assert _places(plan) == [(0, 50, 1), (60, 40, 1)]


def test_short_calls_are_a_column_wide_and_those_of_one_column_are_counted() -> None:
    plan = _laid(
        [_bar(0, 0), _bar(10, 10), _bar(11, 12), _bar(19, 19, state="failed"), _bar(20, 1000)]
    )
    assert _places(plan) == [(0, 1, 1), (1, 1, 3), (2, 98, 1)]
    assert plan.rows[0].pieces[1].state == "failed"


def test_a_call_right_after_a_long_one_is_not_hidden_by_it() -> None:
    plan = _laid([_bar(0, 505), _bar(506, 507), _bar(508, 509), _bar(900, 1000)])
    assert _places(plan) == [(0, 50, 1), (50, 1, 2), (90, 10, 1)]


def test_a_column_with_a_call_of_unknown_length_says_so() -> None:
    plan = _laid([_bar(0, 0), _bar(1, 1, timed=False), _bar(900, 1000)])
    assert [(piece.calls, piece.timed) for piece in plan.rows[0].pieces] == [(2, False), (1, True)]


def test_nothing_goes_beyond_the_last_column() -> None:
    plan = _laid([_bar(0, 1000), _bar(1000, 1000, seq=2000), _bar(1000, 1000, seq=3000)])
    assert [(piece.end, piece.calls) for piece in plan.rows[0].pieces] == [(100, 3)]


def test_calls_that_overlap_go_below_each_other() -> None:
    plan = _laid([_bar(0, 500), _bar(100, 300), _bar(499, 700), _bar(600, 1000)])
    assert [(row.lane, row.calls, len(row.pieces)) for row in plan.rows] == [
        ("0", 4, 2),
        ("", 0, 2),
    ]
    assert _places(plan) == [(0, 50, 1), (50, 20, 1)]  # a millisecond is rounding


def test_a_call_that_never_completed_goes_on_to_the_end() -> None:
    plan = _laid([_bar(0, 10), _bar(500, 500, state="open", closed=None), _bar(990, 1000)])
    assert _places(plan)[1] == (50, 50, 1)
    assert _places(plan, 1) == [(99, 1, 1)]


def test_lanes_are_below_the_lane_that_spawned_them() -> None:
    lanes = ("0", "0.10.3", "0.2", "0.2.1", "0.10")
    plan = _laid([_bar(0, 10, lane, seq=place + 1) for place, lane in enumerate(lanes)])
    assert [(row.lane, row.depth) for row in plan.rows] == [
        ("0", 0),
        ("0.2", 1),
        ("0.2.1", 2),
        ("0.10", 1),
        ("0.10.3", 2),
    ]


def test_of_many_lanes_the_telling_ones_are_shown_and_the_rest_is_counted() -> None:
    bars = [_bar(0, 10, f"0.{number}", seq=number) for number in range(1, 101)]
    bars[49] = _bar(0, 5, "0.50", seq=50, diverged=True)
    bars[59] = _bar(0, 5, "0.60", seq=60, state="failed")
    bars[69] = _bar(0, 100, "0.70", seq=70)
    plan = lay_out(bars, 10, start=0, end=100, most=3)
    assert [(row.lane, row.lanes) for row in plan.rows] == [
        ("0.1", 49),
        ("0.50", 1),
        ("0.51", 9),
        ("0.60", 1),
        ("0.61", 9),
        ("0.70", 1),
        ("0.71", 30),
    ]
    assert plan.rows[0].load == (49, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert sum(row.calls for row in plan.rows) == 100


def test_a_long_wait_is_left_out() -> None:
    plan = _laid([_bar(0, 500), _bar(3_600_000, 3_600_500)], 103)
    (gap,) = plan.axis.gaps
    assert (gap.start, gap.end, gap.column) == (500, 3_600_000, 50)
    assert _places(plan) == [(0, 50, 1), (53, 50, 1)]
    assert plan.ticks[0].text == "0"
    assert all(tick.column <= 50 or tick.text.startswith("1:00:00") for tick in plan.ticks)


def test_a_wait_beside_which_the_rest_can_be_seen_is_shown() -> None:
    assert _laid([_bar(0, 3_000), _bar(12_000, 14_000)]).axis.gaps == ()
    assert _laid([_bar(0, 0), _bar(10_000, 10_000)]).axis.gaps == ()


def test_without_times_calls_stand_in_their_order() -> None:
    plan = _laid([_bar(7, 7, seq=3), _bar(7, 7, "0.1", seq=1), _bar(7, 7, seq=9)], 90)
    assert not plan.timed
    assert [tick.text for tick in plan.ticks] == ["event 1", "event 3", "event 9"]
    assert _places(plan) == [(30, 30, 1), (60, 30, 1)]
    assert _places(plan, 1) == [(0, 30, 1)]


def test_one_call_without_a_time() -> None:
    assert _places(_laid([_bar(7, 7)])) == [(0, 1, 1)]


@pytest.mark.parametrize("span", [1, 9, 450, 999, 7_000, 59_000, 400_000, 9_000_000, 10**9, 10**15])
@pytest.mark.parametrize("width", [20, 75, 200])
def test_ticks_are_in_order_and_do_not_touch(span: int, width: int) -> None:
    axis = make_axis(1_000, 1_000 + span, width, zero=1_000, busy=[(1_000, 1_000 + span)])
    ticks = list(axis.ticks())
    assert ticks[0].text == "0"
    assert len({tick.text for tick in ticks}) == len(ticks)
    for one, other in pairwise(ticks):
        assert one.column + 1 + len(one.text) < other.column
    assert all(tick.column + 1 + len(tick.text) <= width for tick in ticks)


@pytest.mark.parametrize(
    "at, step, text",
    [
        (0, 1, "0"),
        (250, 50, "250 ms"),
        (500, 500, "0.5 s"),
        (1_500, 500, "1.5 s"),
        (90_000, 30_000, "1:30"),
        (90_500, 500, "1:30.5"),
        (3_600_000, 60_000, "1:00:00"),
        (-90_000, 30_000, "-1:30"),
    ],
)
def test_how_a_moment_is_told(at: int, step: int, text: str) -> None:
    assert tick_text(at, step) == text
