"""Going on where a recording ends: what is appended is numbered behind what is there."""

from __future__ import annotations

from collections.abc import Iterable

from reenact.engine.call import DRAWS, PAIRS, SCHEDULE
from reenact.engine.lanes import Lane
from reenact.format import lane as lanes
from reenact.format.event import Event

__all__ = ["root_after"]

_COUNTERS = {"timer": "timers", "post": "posts", "wait": "waits"}
_POSITIONS = frozenset((*PAIRS, "state_mutation", "nondeterministic"))


def root_after(events: Iterable[Event]) -> Lane:
    """The root lane as it is after ``events``: one program that does first what was recorded and
    then what will be is in it.

    What left no trace (a timer that never fired, a task without calls) is not counted.
    """
    root = Lane(lanes.ROOT)
    for event in events:
        name = event.lane if event.lane != lanes.ROOT else str(event.data.get("inner") or "")
        if name.startswith(f"{lanes.ROOT}."):
            root.spawned = max(root.spawned, _first_child(name))
        if event.lane == lanes.ROOT:
            _count(root, event)
    return root


def _first_child(name: str) -> int:
    number = name.split(".")[1]
    return int(number) if number.isdecimal() else 0


def _count(root: Lane, event: Event) -> None:
    if event.type == "nondeterministic" and event.data.get("source") == SCHEDULE:
        kind, _, number = str(event.data.get("key")).partition(":")
        counter = _COUNTERS.get(kind)
        if counter is not None and number.isdecimal():
            setattr(root, counter, max(getattr(root, counter), int(number)))
    elif event.type in _POSITIONS and event.data.get("aside") is not True:
        count = event.data.get("count", 1) if event.data.get("source") in DRAWS else 1
        root.calls += count
        root.logged += count
