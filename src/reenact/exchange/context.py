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
    """Return a new span in the trace of ``headers``, or a new trace if they have no valid one."""
    return _followed(find_header(headers, TRACEPARENT), find_header(headers, TRACESTATE))


def sample_trace(parent: str, state: str, rate: float) -> Trace | None:
    """Return the trace of a new exchange below the traceparent ``parent``, or None if it is not
    sampled.

    All apps of a trace with the same ``rate`` decide alike.
    """
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
    """Return a new span below the traceparent ``parent``, or a new trace."""
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
    """Return whether a traceparent is valid. Version 00 has four parts, later ones can have more,
    ff is invalid."""
    if found["v"] == "ff" or (found["v"] == "00" and found["more"]):
        return False
    return found["trace"].strip("0") != "" and found["span"].strip("0") != ""


def _some(size: int) -> str:
    """Return a random id. Ids of zeros only are invalid."""
    drawn = id_bytes(size)
    return drawn[:-1].hex() + f"{drawn[-1] | 1:02x}"


def correlation_id_of(headers: Sequence[Header]) -> str:
    """Return the correlation id of the caller."""
    return find_header(headers, CORRELATION)[:_LONGEST_ID]


def trace_headers(trace: Trace, correlation_id: str) -> dict[str, str]:
    """Return the headers for outgoing calls of an exchange."""
    made = {TRACEPARENT: f"00-{trace.trace_id}-{trace.span_id}-01"}
    if trace.state:
        made[TRACESTATE] = trace.state
    if correlation_id:
        made[CORRELATION] = correlation_id
    return made


MOST_PROCESSORS: Final = 10_000
"""Maximum number of recorded processors. Later ones run unrecorded."""

Describe = Callable[[BaseException], ErrorFacts]


class Position(msgspec.Struct, frozen=True):
    """Position of the code. ``parent`` is the seq of the enclosing processor, 0 for none."""

    lineage: Lineage
    parent: int = 0
    iteration: int | None = None


POSITION: Final[ContextVar[Position | None]] = ContextVar("reenact.exchange", default=None)


def current_position() -> Position | None:
    """Return the position of the running code. None outside an exchange, and after its end."""
    position = POSITION.get()
    return position if position is not None and position.lineage.is_open else None


@contextmanager
def set_position(position: Position) -> Iterator[None]:
    """Set the position of the code in the block."""
    before = POSITION.get()
    POSITION.set(position)
    try:
        yield
    finally:
        if POSITION.get() is position:  # a generator can end in a different context from its start
            POSITION.set(before)


def is_replay() -> bool:
    """Return whether the running code re-enacts an exchange, for effects that must not happen
    twice."""
    position = POSITION.get()
    return position is not None and position.lineage.is_replay


def correlation() -> dict[str, str]:
    """Return headers that connect an outgoing call to this exchange: ``traceparent``,
    ``tracestate`` and ``x-correlation-id``. Empty outside an exchange."""
    position = POSITION.get()
    return (
        {}
        if position is None
        else trace_headers(position.lineage.trace, position.lineage.correlation_id)
    )


class Lineage:
    """Processors of one exchange in progress. Several threads and tasks can add to it."""

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
        """Session that records or replays the calls."""
        self.now = now
        self.describe = describe
        self._check = check
        self._lock = threading.Lock()
        self._running: list[RunningProcessor] = []

    def begin(
        self, position: Position, processor_id: str, kind: ProcessorKind = "step"
    ) -> RunningProcessor:
        """Start a processor. Raises the exception that ends a cancelled replay."""
        if self._check is not None:
            self._check()
        with self._lock:
            running = RunningProcessor(self, position, processor_id, kind, len(self._running) + 1)
            if len(self._running) < MOST_PROCESSORS:
                self._running.append(running)
        return running

    def close(self) -> tuple[Processor, ...]:
        """Return the recorded processors. Later ones are not recorded."""
        with self._lock:
            self.is_open = False
            return tuple(one.noted() for one in self._running)


class RunningProcessor:
    """Processor while it runs."""

    __slots__ = (
        "_began",
        "_lane",
        "_lineage",
        "_noted",
        "_position",
        "branch",
        "changes",
        "input",
        "inside",
        "output",
    )

    def __init__(
        self, lineage: Lineage, position: Position, processor_id: str, kind: ProcessorKind, seq: int
    ) -> None:
        self._lineage = lineage
        self._lane = _lane_of(lineage.session)
        self._began = monotonic()
        self._position = position
        self.inside = Position(lineage, seq, position.iteration)
        """The position of code in the processor."""
        self.branch = ""
        self.changes: tuple[Change, ...] = ()
        self.input: Any = msgspec.UNSET
        self.output: Any = msgspec.UNSET
        calls = 0 if self._lane is None else self._lane.calls
        self._noted = Processor(
            processor_id=processor_id[:512] or "?",
            seq=seq,
            parent_seq=position.parent,
            iteration=position.iteration,
            kind=kind,
            started_at=lineage.now(),
            lane="" if self._lane is None else self._lane.name,
            first_call=calls,
            end_call=calls,
        )

    def part(self, iteration: int) -> Position:
        """Return the position of one iteration or part."""
        return Position(self._lineage, self._noted.seq, iteration)

    def end(
        self, status: ProcessorStatus = "completed", error: BaseException | None = None
    ) -> None:
        """End the processor."""
        lane = self._lane
        self._noted = msgspec.structs.replace(
            self._noted,
            duration=round((monotonic() - self._began) * 1_000, 3),
            status=status,
            error=None if error is None else self._lineage.describe(error),
            changes=self.changes,
            input=self.input,
            output=self.output,
            branch=self.branch[:4_096],
            end_call=self._noted.end_call if lane is None else lane.calls,
        )

    def noted(self) -> Processor:
        """Return the recorded processor, which can be incomplete."""
        return self._noted


def _lane_of(session: Session | None) -> Lane | None:
    return session.lanes.current() if session is not None and session.is_active else None
