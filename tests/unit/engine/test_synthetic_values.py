"""Values for draws that nobody recorded."""

from __future__ import annotations

import pytest

from reenact.engine.draws import synthetic_value
from reenact.engine.lanes import Lane
from reenact.testing.recordings import call_of, parse_line


def value(said: str, *, seed: str = "cap_1", lane: str = "0", calls: int = 0, last: object = None):
    where = Lane(lane)
    where.calls = calls
    return synthetic_value(call_of(parse_line(f"0 {said}")), seed, where, last)  # type: ignore[arg-type]


def test_the_clock_goes_on_by_a_microsecond() -> None:
    assert value("clock now", last=10.0) == 10.000001


def test_a_whole_number_stays_one_and_goes_on() -> None:
    found = value("clock now", last=1_700_000_000_000)
    assert found == 1_700_000_000_001
    assert isinstance(found, int)


def test_a_clock_that_was_never_looked_at_has_nothing_to_go_on_from() -> None:
    assert value("clock now") is None


def test_chance_depends_on_the_run_the_lane_the_place_and_the_operation() -> None:
    base = value("rng random {}")
    assert 0 <= base < 1
    assert base == value("rng random {}")
    others = [
        value("rng random {}", seed="cap_2"),
        value("rng random {}", lane="0.1"),
        value("rng random {}", calls=1),
        value("rng choice {}"),
    ]
    assert len({base, *others}) == 5


def test_chance_is_below_one_whatever_the_digest() -> None:
    found = [value("rng random", calls=number) for number in range(2_000)]
    assert max(found) < 1
    assert min(found) >= 0
    assert len(set(found)) == len(found)
    assert 0.4 < sum(found) / len(found) < 0.6


@pytest.mark.parametrize("said", ["env HOME", "fs read", "process pid"])
def test_nothing_else_is_made_up(said: str) -> None:
    assert value(said, last=1.0) is None
