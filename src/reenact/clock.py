"""Clock for programs that choose explicitly what is recorded.

Readings inside a session are recorded and re-enacted for every caller. Without a session it is the
real clock. Programs that use ``time`` and ``datetime`` do not need it, because their own modules
are covered.
"""

from __future__ import annotations

import datetime as _datetime
import time as _time
from typing import TYPE_CHECKING, Any

from reenact.engine.execution.sleep import sleep as _sleep
from reenact.engine.session.current import current

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["monotonic", "now", "perf_counter", "sleep", "time", "time_ns", "today"]

_UTC = _datetime.UTC


def _drawn(name: str, live: Callable[[], Any]) -> Any:
    session = current()
    return live() if session is None else session.draws.draw(f"clock {name}", live)


def time() -> float:
    """Seconds since the epoch."""
    found: float = _drawn("time.time", _time.time)
    return found


def time_ns() -> int:
    """Nanoseconds since the epoch."""
    found: int = _drawn("time.time_ns", _time.time_ns)
    return found


def monotonic() -> float:
    """Seconds on a clock that never goes back."""
    found: float = _drawn("time.monotonic", _time.monotonic)
    return found


def perf_counter() -> float:
    """Seconds on the finest clock there is."""
    found: float = _drawn("time.perf_counter", _time.perf_counter)
    return found


def now(tz: _datetime.tzinfo = _UTC) -> _datetime.datetime:
    """Return the present time as an aware datetime, in UTC unless ``tz`` is given."""
    return _datetime.datetime.fromtimestamp(time(), tz)


def today(tz: _datetime.tzinfo = _UTC) -> _datetime.date:
    """The present day in UTC, or in ``tz``."""
    return now(tz).date()


def sleep(seconds: float) -> None:
    """Wait; a replay does not, where the recorded program slept as well."""
    session = current()
    if session is None:
        _time.sleep(seconds)
    else:
        _sleep(session, seconds, _time.sleep)
