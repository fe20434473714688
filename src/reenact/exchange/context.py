"""The exchange of the running code: its trace, and the processors that it has passed.

A context variable holds the position of the code: the exchange, the processor around the code, and
the iteration of a loop. The variable follows tasks, and threads that copy the context.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import msgspec

from reenact._system import Now, id_bytes, monotonic
from reenact.exchange.model import (
    Change,
    ErrorFacts,
    Header,
    Processor,
    ProcessorKind,
    ProcessorStatus,
    Trace,
)
from reenact.exchange.payload import find_header

if TYPE_CHECKING:
    from reenact.engine.lanes import Lane
    from reenact.engine.session.session import Session

__all__ = [
    "MOST_PROCESSORS",
    "POSITION",
    "Lineage",
    "Position",
    "RunningProcessor",
    "correlation",
    "correlation_id_of",
    "current_position",
    "is_replay",
    "sample_trace",
    "set_position",
    "start_trace",
    "trace_from_headers",
    "trace_headers",
]

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


def trace_from_headers(headers: Sequence[Header]) -> Trace:
    """The trace of what came with ``headers``: a new span in the trace of the caller. Where there
    is none, or what cannot be read, a new trace."""
    return _followed(find_header(headers, TRACEPARENT), find_header(headers, TRACESTATE))


def sample_trace(parent: str, state: str, rate: float) -> Trace | None:
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


def start_trace(parent: str = "") -> Trace:
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


def correlation_id_of(headers: Sequence[Header]) -> str:
    """What the caller calls it."""
    return find_header(headers, CORRELATION)[:_LONGEST_ID]


def trace_headers(trace: Trace, correlation_id: str) -> dict[str, str]:
    """Headers for the calls of an exchange."""
    made = {TRACEPARENT: f"00-{trace.trace_id}-{trace.span_id}-01"}
    if trace.state:
        made[TRACESTATE] = trace.state
    if correlation_id:
        made[CORRELATION] = correlation_id
    return made


MOST_PROCESSORS: Final = 10_000
"""What an exchange does beyond that is done, and not noted."""

Describe = Callable[[BaseException], ErrorFacts]


class Position(msgspec.Struct, frozen=True):
    """Where the program is. ``parent`` is the seq of the processor around it, 0 for none."""

    flow: Lineage
    parent: int = 0
    iteration: int | None = None


POSITION: Final[ContextVar[Position | None]] = ContextVar("reenact.exchange", default=None)


def current_position() -> Position | None:
    """The place of what runs now; None outside any exchange, and when that is over."""
    place = POSITION.get()
    return place if place is not None and place.flow.is_open else None


@contextmanager
def set_position(place: Position) -> Iterator[None]:
    """What runs in the block is at ``place``."""
    before = POSITION.get()
    POSITION.set(place)
    try:
        yield
    finally:
        if POSITION.get() is place:  # a generator may end in another context than it began in
            POSITION.set(before)


def is_replay() -> bool:
    """Does what runs here re-enact an exchange? For what an app must not do twice."""
    place = POSITION.get()
    return place is not None and place.flow.is_replay


def correlation() -> dict[str, str]:
    """Headers for an outgoing call, so that what it leads to is found with this exchange:
    ``traceparent``, ``tracestate`` and ``x-correlation-id``. Empty outside any exchange."""
    place = POSITION.get()
    return {} if place is None else trace_headers(place.flow.trace, place.flow.correlation_id)


class Lineage:
    """One exchange under way. Steps of several threads and tasks may add to it at a time."""

    def __init__(
        self,
        exchange_id: str,
        trace: Trace,
        *,
        now: Now,
        describe: Describe,
        correlation_id: str = "",
        is_replay: bool = False,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.exchange_id = exchange_id
        self.trace = trace
        self.correlation_id = correlation_id
        self.is_replay = is_replay
        self.is_open = True
        self.session: Session | None = None
        """In which the calls are recorded or re-enacted."""
        self.now = now
        self.describe = describe
        self._check = check
        self._lock = threading.Lock()
        self._running: list[RunningProcessor] = []

    def begin(
        self, place: Position, processor_id: str, kind: ProcessorKind = "step"
    ) -> RunningProcessor:
        """A processor starts. Raises what ends a replay that was cancelled."""
        if self._check is not None:
            self._check()
        with self._lock:
            running = RunningProcessor(self, place, processor_id, kind, len(self._running) + 1)
            if len(self._running) < MOST_PROCESSORS:
                self._running.append(running)
        return running

    def close(self) -> tuple[Processor, ...]:
        """All that was noted. What comes later is not."""
        with self._lock:
            self.is_open = False
            return tuple(one.noted() for one in self._running)


class RunningProcessor:
    """One processor, once, while it runs."""

    __slots__ = (
        "_began",
        "_flow",
        "_lane",
        "_noted",
        "_place",
        "branch",
        "changes",
        "input",
        "inside",
        "output",
    )

    def __init__(
        self, flow: Lineage, place: Position, processor_id: str, kind: ProcessorKind, seq: int
    ) -> None:
        self._flow = flow
        self._lane = _lane_of(flow.session)
        self._began = monotonic()
        self._place = place
        self.inside = Position(flow, seq, place.iteration)
        """The place of what runs in it."""
        self.branch = ""
        self.changes: tuple[Change, ...] = ()
        self.input: Any = msgspec.UNSET
        self.output: Any = msgspec.UNSET
        calls = 0 if self._lane is None else self._lane.calls
        self._noted = Processor(
            processor_id=processor_id[:512] or "?",
            seq=seq,
            parent_seq=place.parent,
            iteration=place.iteration,
            kind=kind,
            started_at=flow.now(),
            lane="" if self._lane is None else self._lane.name,
            first_call=calls,
            end_call=calls,
        )

    def part(self, iteration: int) -> Position:
        """The place of one round or part of it."""
        return Position(self._flow, self._noted.seq, iteration)

    def end(
        self, status: ProcessorStatus = "completed", error: BaseException | None = None
    ) -> None:
        """It is over."""
        lane = self._lane
        self._noted = msgspec.structs.replace(
            self._noted,
            duration=round((monotonic() - self._began) * 1_000, 3),
            status=status,
            error=None if error is None else self._flow.describe(error),
            changes=self.changes,
            input=self.input,
            output=self.output,
            branch=self.branch[:4_096],
            end_call=self._noted.end_call if lane is None else lane.calls,
        )

    def noted(self) -> Processor:
        """As far as it has come."""
        return self._noted


def _lane_of(session: Session | None) -> Lane | None:
    return session.lanes.current() if session is not None and session.is_active else None
