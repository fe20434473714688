"""Direct use of unused recorded calls: find one by name and take its complete result.

No call is made, and no turn is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from reenact.engine.call import PAIRS, Call, Entry
from reenact.engine.codecs import result_field
from reenact.engine.decision.passthrough import entry_capability
from reenact.engine.execution.stream_chunks import chunk_name
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.request import request_of
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.execution.ports import ExecutingSession

__all__ = ["first_unused", "is_cassette_entry", "take_recorded", "unused_calls"]

_CALLS = ("nondeterministic", "llm_request", "tool_call")


def is_cassette_entry(data: Data) -> bool:
    """Return whether an event's data are an entry that :mod:`reenact.rr` wrote."""
    return "err" in data and not isinstance(data.get("request"), dict)


def unused_calls(session: ExecutingSession) -> Iterator[Entry]:
    """Yield the recorded calls that were not requested yet, without draws.

    Calls of one lane are in their order. The caller holds the lock while it iterates.
    """
    left = session.machine.unused()
    return (one for one in left if one.type in _CALLS and not one.instant)


def first_unused(session: ExecutingSession, fits: Callable[[Entry], bool]) -> Entry | None:
    """The earliest one of this lane that ``fits``, else of any."""
    lane = session.lanes.current()
    if lane.run is not None or lane.side is not None:
        session.draws.end(lane)
    best: Entry | None = None
    with session.lock:
        for one in filter(fits, unused_calls(session)):
            if one.lane == lane.name:
                return one
            if best is None or one.seq < best.seq:
                best = one
    return best


def take_recorded(
    session: ExecutingSession, entry: Entry, count: Callable[[Any], int]
) -> tuple[Any, Any] | None:
    """Use ``entry``; return its recorded result and the failure it ended with, or None.

    Returns nothing at all if a different thread has used it first. The order of deliveries
    continues without it. ``count`` returns the number of chunks of a result. Raises
    :class:`PolicyRefused` for a call that the policy does not allow, :class:`DivergenceError` for
    one that never received a result.
    """
    call = _call(entry)
    lane = session.lanes.current()
    with session.lock:
        if entry.used:
            return None
        refusal = session.machine.refusal(call)
        if refusal is not None:
            raise session.redacted(refusal)
        session.machine.take(entry, call)
        opened = InFlightCall(call, entry.key, lane, lane.calls, inner=entry.inner)
        if entry.lane == lane.name:
            lane.calls += 1
    token, data = session.in_flight.claim(opened, entry)
    if data is None:
        raise session.reporter.wants_more(opened, entry)
    answer = data.get(result_field(call))
    numbers = range(count(answer))
    session.scheduler.skip(token, *((entry.lane, chunk_name(entry.position, n)) for n in numbers))
    return answer, data.get("error")


def _call(entry: Entry) -> Call:
    """The call that was recorded, as far as the policy looks at it."""
    data = entry.opening.data
    asked = data.get("request")
    wire = asked if isinstance(asked, dict) else {}
    paired = entry.type in PAIRS
    return Call(
        type=entry.type,  # type: ignore[arg-type]
        # Serving an entry of a cassette does nothing that needs a capability.
        capability="" if is_cassette_entry(data) else entry_capability(entry),
        operation=entry.operation,
        request=request_of(entry.type, data),
        source="" if paired else entry.kind,
        key=entry.key,
        method=str(wire.get("method", "")),
        url=str(wire.get("url", "")),
    )
