"""Moments, as people say them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from reenact.errors import UsageError
from reenact.search.query import clock_time, moment, read_moment

NOW = datetime(2026, 11, 16, 20, 5, 30, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    "text,end,expected",
    [
        ("2026-11-01", False, "2026-11-01T00:00+01:00"),
        ("2026-11-01", True, "2026-11-02T00:00+01:00"),
        ("2026-11-01T09:30", True, "2026-11-01T09:30+01:00"),
        ("2026-11-01T09:30Z", False, "2026-11-01T09:30+00:00"),
        ("2h", False, "2026-11-16T18:05:30+01:00"),
        ("90min", False, "2026-11-16T18:35:30+01:00"),
        ("1w", False, "2026-11-09T20:05:30+01:00"),
        ("today", False, "2026-11-16T00:00+01:00"),
        ("Yesterday", False, "2026-11-15T00:00+01:00"),
        ("yesterday", True, "2026-11-16T00:00+01:00"),
        ("now", True, "2026-11-16T20:05:30+01:00"),
    ],
)
def test_moments(text: str, end: bool, expected: str) -> None:
    wanted = int(datetime.fromisoformat(expected).timestamp() * 1000)
    assert read_moment(text, NOW, end=end) == wanted


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "3y", "999999w"])
def test_no_moments(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_moment(text, NOW)
    assert "yesterday" in (raised.value.hint or "")


def test_times_that_no_clock_shows_are_shown_as_numbers() -> None:
    assert moment(0) == "1970-01-01 00:00:00 UTC"
    assert clock_time(61_002) == "00:01:01.002"
    assert moment(10**18) == clock_time(10**18) == "1000000000000000000 ms"
