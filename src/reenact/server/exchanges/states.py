"""The states of a replay: what may follow what, and how long each may last (pure).

requested ─► delivered ─► running ─► completed
    │            │           │     └► failed
    └────────────┴───────────┴──────► refused, cancelled, expired
"""

from __future__ import annotations

from typing import Final

from reenact.exchange.model import State
from reenact.server.ports import Timings

__all__ = ["NEXT", "deadline_of", "due_at", "follows"]

NEXT: Final[dict[State, frozenset[State]]] = {
    "requested": frozenset({"delivered", "refused", "cancelled", "expired"}),
    "delivered": frozenset({"running", "refused", "failed", "cancelled", "completed", "expired"}),
    "running": frozenset({"completed", "failed", "cancelled", "expired"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "refused": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
}


def follows(before: State, after: State) -> bool:
    """May a replay go from ``before`` to ``after``? What comes late, or twice, may not."""
    return after in NEXT[before]


def deadline_of(requested_at: int, timings: Timings) -> int:
    """Until when a replay that is asked for now has to be done, in milliseconds."""
    return requested_at + _ms(timings.deliver + timings.start + timings.run)


def due_at(state: State, now: int, deadline: int, timings: Timings) -> int:
    """When a state that begins now ends by itself; 0 for one that never does."""
    if state == "requested":
        return now + _ms(timings.deliver)
    if state == "delivered":
        return min(deadline, now + _ms(timings.start))
    return deadline if state == "running" else 0


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
