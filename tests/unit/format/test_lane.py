from __future__ import annotations

import pytest

from reenact.format.event import check_lane, lane_order


@pytest.mark.parametrize("lane", ["0", "0.0", "0.1.2", "10.20", "7"])
def test_a_good_lane_is_returned_as_it_is(lane: str) -> None:
    assert check_lane(lane) == lane


def test_parents_come_before_children_and_siblings_by_number() -> None:
    mixed = ["0.10", "0.2", "0", "1", "0.2.1", "0.2.0"]
    assert sorted(mixed, key=lane_order) == ["0", "0.2", "0.2.0", "0.2.1", "0.10", "1"]
