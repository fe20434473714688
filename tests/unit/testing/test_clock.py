"""A clock that moves only when it is told to."""

from __future__ import annotations

import pytest

from reenact.errors import UsageError
from reenact.testing import VirtualClock
from tests.clocks import Clock


def test_it_stands_until_it_is_moved() -> None:
    clock = VirtualClock(1_000)
    assert [clock(), clock()] == [1_000, 1_000]
    clock.advance(5)
    assert clock() == 1_005


def test_every_look_moves_it_by_its_tick() -> None:
    clock = VirtualClock(10, tick=3)
    assert [clock(), clock(), clock()] == [10, 13, 16]


def test_two_clocks_know_nothing_of_each_other() -> None:
    one, two = VirtualClock(1), VirtualClock(1)
    one.advance(1)
    assert (one(), two()) == (2, 1)


def test_it_can_stand_wherever_a_clock_can() -> None:
    clock = VirtualClock(7)
    assert isinstance(clock, Clock)
    assert clock.wall_ns == 7_000_000


def test_it_does_not_go_back() -> None:
    with pytest.raises(UsageError, match="does not go back"):
        VirtualClock().advance(-1)
    with pytest.raises(UsageError, match="does not go back"):
        VirtualClock(tick=-1)
