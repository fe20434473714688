"""Moments as people say them: ``2026-11-01``, ``2026-11-01T09:30``, ``2h``, ``yesterday``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from reenact.errors import UsageError

__all__ = ["clock_time", "moment", "read_moment"]

_UNITS = {"s": "seconds", "min": "minutes", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,6})\s*(s|min|m|h|d|w)")
_DAYS = {"now": None, "today": 0, "yesterday": 1}


def read_moment(text: str, now: datetime, *, end: bool = False) -> int:
    """Milliseconds since the epoch. ``now`` has a zone, and what says none is in that one.

    Of something that lasts (a day) it is the beginning, or with ``end`` the beginning of what comes
    after. Raises :class:`UsageError`.
    """
    said = text.strip()
    ago = _AGO.fullmatch(said)
    try:
        if ago is not None:
            return _milliseconds(now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
        if said.lower() in _DAYS:
            return _milliseconds(_day(said.lower(), now, end))
        found = datetime.fromisoformat(said)
        if found.tzinfo is None:
            found = found.replace(tzinfo=now.tzinfo)
        whole_day = re.fullmatch(r"[\d-]+", said) is not None
        return _milliseconds(found + timedelta(days=1) if end and whole_day else found)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no moment",
            hint="2026-11-01, 2026-11-01T09:30, 90min, 2h, 3d (ago), today, yesterday",
        ) from None


def _day(name: str, now: datetime, end: bool) -> datetime:
    back = _DAYS[name]
    if back is None:
        return now
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=back - 1 if end else back)


def _milliseconds(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def moment(milliseconds: int) -> str:
    """For people, to the second."""
    try:
        return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"


def clock_time(milliseconds: int) -> str:
    """The time of the day, to the millisecond."""
    try:
        second = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"
    return f"{second}.{milliseconds % 1000:03}"
