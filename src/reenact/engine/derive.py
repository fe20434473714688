"""Values for draws that a lenient replay has no recording of: made up, and the same every time."""

from __future__ import annotations

import hashlib
from typing import Any

from reenact.engine.call import Call
from reenact.engine.lanes import Lane

__all__ = ["derived", "later"]

_MICROSECOND = 1e-6


def later(value: Any) -> Any:
    """What a clock says after ``value``: a microsecond more, or one of whatever it counts. What is
    no number stays."""
    if isinstance(value, float):
        return value + _MICROSECOND
    return value + 1 if isinstance(value, int) else value


def derived(call: Call, run_seed: str, lane: Lane, last_clock: float | None) -> Any:
    """For the clock the last value and a microsecond (a whole number, whatever it counts, and
    one); for chance a number from 0 to 1 that depends on the run, the lane and the place in it;
    None for anything else."""
    if call.source == "clock" and last_clock is not None:
        return later(last_clock)
    if call.source == "rng":
        place = f"{run_seed}/{lane.name}/{lane.calls}/{call.operation}"
        number = int.from_bytes(hashlib.sha256(place.encode()).digest()[:7], "big") >> 3
        return number / (1 << 53)
    return None
