"""The exchange that is under way here, and the processors that it has gone through.

One context variable says where the program is: in which exchange, inside which processor, in which
round. It travels with tasks, and into threads where contexts do (``to_thread``, and ours).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import msgspec

from reenact._system import Now, monotonic
from reenact.exchange.model import (
    Change,
    ErrorFacts,
    Processor,
    ProcessorKind,
    ProcessorStatus,
    Trace,
)
from reenact.exchange.tracing import outgoing

if TYPE_CHECKING:
    from reenact.engine.lanes import Lane
    from reenact.engine.session.session import Session

__all__ = [
    "MOST_PROCESSORS",
    "PLACE",
    "Flow",
    "Place",
    "Running",
    "at",
    "correlation",
    "here",
    "is_replay",
]

MOST_PROCESSORS: Final = 10_000
"""What an exchange does beyond that is done, and not noted."""

Describe = Callable[[BaseException], ErrorFacts]


class Place(msgspec.Struct, frozen=True):
    """Where the program is. ``parent`` is the seq of the processor around it, 0 for none."""

    flow: Flow
    parent: int = 0
    iteration: int | None = None


PLACE: Final[ContextVar[Place | None]] = ContextVar("reenact.exchange", default=None)


def here() -> Place | None:
    """The place of what runs now; None outside any exchange, and when that is over."""
    place = PLACE.get()
    return place if place is not None and place.flow.is_open else None


@contextmanager
def at(place: Place) -> Iterator[None]:
    """What runs in the block is at ``place``."""
    before = PLACE.get()
    PLACE.set(place)
    try:
        yield
    finally:
        if PLACE.get() is place:  # a generator may end in another context than it began in
            PLACE.set(before)


def is_replay() -> bool:
    """Does what runs here re-enact an exchange? For what an app must not do twice."""
    place = PLACE.get()
    return place is not None and place.flow.is_replay


def correlation() -> dict[str, str]:
    """Headers for an outgoing call, so that what it leads to is found with this exchange:
    ``traceparent``, ``tracestate`` and ``x-correlation-id``. Empty outside any exchange."""
    place = PLACE.get()
    return {} if place is None else outgoing(place.flow.trace, place.flow.correlation_id)


class Flow:
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
        self._running: list[Running] = []

    def begin(self, place: Place, processor_id: str, kind: ProcessorKind = "step") -> Running:
        """A processor starts. Raises what ends a replay that was cancelled."""
        if self._check is not None:
            self._check()
        with self._lock:
            running = Running(self, place, processor_id, kind, len(self._running) + 1)
            if len(self._running) < MOST_PROCESSORS:
                self._running.append(running)
        return running

    def close(self) -> tuple[Processor, ...]:
        """All that was noted. What comes later is not."""
        with self._lock:
            self.is_open = False
            return tuple(one.noted() for one in self._running)


class Running:
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
        self, flow: Flow, place: Place, processor_id: str, kind: ProcessorKind, seq: int
    ) -> None:
        self._flow = flow
        self._lane = _lane_of(flow.session)
        self._began = monotonic()
        self._place = place
        self.inside = Place(flow, seq, place.iteration)
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

    def part(self, iteration: int) -> Place:
        """The place of one round or part of it."""
        return Place(self._flow, self._noted.seq, iteration)

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
