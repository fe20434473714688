"""What is decided about the calls of a run that is forked.

Before the point a call is what the recorded program did there, or it is a divergence. After it
calls are made, or those of kinds that do not go live are answered with what was recorded anywhere.
"""

from __future__ import annotations

from typing import Any

from reenact.engine.branch_point import Point
from reenact.engine.call import Call, Decision, Entry, GoLive, Refuse
from reenact.engine.divergence import Divergence
from reenact.engine.machine import Machine
from reenact.errors import PolicyRefused
from reenact.format.event import Event

__all__ = ["BranchMachine"]

_ALIASES = {"tools": "tool", "llms": "llm", "processes": "process", "net": "network"}
_REAL = frozenset({"clock", "rng", "env", "sleep"})
"""What is drawn after the point is real in any case."""


class BranchMachine(Machine):
    """``live`` are the kinds of calls that are made after the point, None for all."""

    def __init__(
        self, point: Point, live: frozenset[str] | None, *args: Any, **kwargs: Any
    ) -> None:
        self.turned = False
        """Has everything before the point been enacted?"""
        self._point = point
        self._live = None if live is None else frozenset(_ALIASES.get(one, one) for one in live)
        self._live_tools: set[str] = set()
        super().__init__(*args, **kwargs)

    def decide(self, call: Call, lane: str) -> tuple[Decision, str]:
        if not self.turned or not self.is_beyond(lane):
            return super().decide(call, lane)
        matcher, self._matcher = self._matcher, None
        try:
            decision, key = super().decide(call, lane)
        finally:
            self._matcher = matcher
        if isinstance(decision, GoLive) and not self._goes_live(call, lane):
            self.live -= 1
            return self._recorded_or_refused(call, key, lane), key
        return decision, key

    def is_beyond(self, lane: str) -> bool:
        """Has ``lane`` done what was recorded of it before the point? The call there is looked at
        in any case: a process that works for others may have turned live before."""
        entry = self.upcoming(lane)
        return entry is None or (entry.seq >= self._point.cut and entry.seq != self._point.seq)

    def missed(self, event: Event) -> Divergence:
        """The program has ended before ``event``, where the run is forked."""
        why = "the run was to be forked here, and the program ended before that"
        return self.note(self._diagnosis.missing(event, why=why))

    def makes(self, call: Call, lane: str) -> bool:
        """Would ``call`` be made? Nothing is counted."""
        return self.turned and self.is_beyond(lane) and self._goes_live(call, lane)

    def tool_went_live(self, lane: str) -> None:
        """What is done inside of a tool that is called is a part of it."""
        self._live_tools.add(lane)

    def _goes_live(self, call: Call, lane: str) -> bool:
        if self._live is None or call.kind in self._live or call.kind in _REAL:
            return True
        if call.type in ("state_mutation", "run_start", "run_end") or call.observed:
            return True
        return any(lane == one or lane.startswith(f"{one}.") for one in self._live_tools)

    def _recorded_or_refused(self, call: Call, key: str, lane: str) -> Decision:
        entry = self._anywhere(call, key, lane)
        if entry is not None:
            assert self._matcher is not None
            return self._serve(self._matcher, entry)
        name = f"{call.kind} {call.operation}".strip()
        return Refuse(
            error=PolicyRefused(
                f"after the fork point {name} is not live, and nothing like this call was recorded",
                hint=f"add {call.kind} to --live (live=), or leave that out",
            )
        )

    def _anywhere(self, call: Call, key: str, lane: str) -> Entry | None:
        """The same call in this lane, else in any."""
        if self._matcher is None or self.script is None:
            return None
        names = [lane, *(name for name in self.script.lane_names() if name != lane)]
        for name in names:
            found = self._matcher.anywhere(call, key, name)
            if found is not None and found.seq >= self._point.cut:
                return found
        return None
