"""W3C trace context: which exchanges of which apps belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reenact._system import id_bytes
from reenact.exchange.headers import find
from reenact.exchange.model import Header, Trace

__all__ = ["correlation_of", "follow", "new_trace", "outgoing", "sampled_trace"]

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
CORRELATION: Final = "x-correlation-id"

_PARENT = re.compile(
    r"(?P<v>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}(?P<more>-.*)?"
)
_TRACE_SPACE: Final = 1 << 56
"""The last 14 hexadecimal digits of a trace id decide whether it is sampled."""
_LONGEST_STATE = 512
_LONGEST_ID = 512


def follow(headers: Sequence[Header]) -> Trace:
    """The trace of what came with ``headers``: a new span in the trace of the caller. Where there
    is none, or what cannot be read, a new trace."""
    return _followed(find(headers, TRACEPARENT), find(headers, TRACESTATE))


def sampled_trace(parent: str, state: str, rate: float) -> Trace | None:
    """The trace of a new exchange below the traceparent ``parent``, or None when it is not among the
    part ``rate`` of all traces. All apps of a trace that have the same rate decide alike."""
    found = _PARENT.fullmatch(parent.strip()) if parent else None
    if found is not None and _is_good(found):
        if rate < 1 and int(found["trace"][-14:], 16) >= rate * _TRACE_SPACE:
            return None
        return _below(found, state)
    drawn = id_bytes(24)
    if rate < 1 and int.from_bytes(drawn[9:16]) >= rate * _TRACE_SPACE:
        return None
    # Neither id may be all zeros, which would mean nothing.
    trace_id, span_id = drawn[:16].hex(), drawn[16:].hex()
    if not trace_id.strip("0") or not span_id.strip("0"):
        return Trace(trace_id=_some(16), span_id=_some(8))
    return Trace(trace_id=trace_id, span_id=span_id)


def new_trace(parent: str = "") -> Trace:
    """A new span below the traceparent ``parent``, or in a new trace."""
    return _followed(parent, "")


def _followed(parent: str, state: str) -> Trace:
    found = _PARENT.fullmatch(parent.strip())
    if found is None or not _is_good(found):
        return Trace(trace_id=_some(16), span_id=_some(8))
    return _below(found, state)


def _below(found: re.Match[str], state: str) -> Trace:
    return Trace(
        trace_id=found["trace"],
        span_id=_some(8),
        parent_span_id=found["span"],
        state=state if len(state) <= _LONGEST_STATE else "",
    )


def _is_good(found: re.Match[str]) -> bool:
    """Version 00 has four parts, a later one may have more, and ff is none."""
    if found["v"] == "ff" or (found["v"] == "00" and found["more"]):
        return False
    return found["trace"].strip("0") != "" and found["span"].strip("0") != ""


def _some(size: int) -> str:
    """Not all zeros, which would mean nothing."""
    drawn = id_bytes(size)
    return drawn[:-1].hex() + f"{drawn[-1] | 1:02x}"


def correlation_of(headers: Sequence[Header]) -> str:
    """What the caller calls it."""
    return find(headers, CORRELATION)[:_LONGEST_ID]


def outgoing(trace: Trace, correlation_id: str) -> dict[str, str]:
    """Headers for the calls of an exchange."""
    made = {TRACEPARENT: f"00-{trace.trace_id}-{trace.span_id}-01"}
    if trace.state:
        made[TRACESTATE] = trace.state
    if correlation_id:
        made[CORRELATION] = correlation_id
    return made
