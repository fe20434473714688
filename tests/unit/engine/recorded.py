"""Recorded events and asks for tests, without a recording."""

from __future__ import annotations

from typing import Any

from reenact.engine.divergence.diagnosis import Diagnosis
from reenact.engine.request import ObservedRequest, operation_of
from reenact.format.canonical import exact
from reenact.format.event import Event, Head
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction.redactor import Profile, Redactor


def event(seq: int, type: str, data: dict[str, Any], lane: str = "0") -> Event:
    head = Head(version=1, capture_id="cap_1", run_id="run_1", seq=seq, ts=0, type=type, lane=lane)
    return Event(head, exact(data), lambda _seq, stored: stored)


def tool(seq: int, name: str, args: Any, lane: str = "0") -> Event:
    return event(seq, "tool_call", {"name": name, "args": args, "callId": f"c{seq}"}, lane)


class Desk:
    """A diagnosis and what belongs to it."""

    def __init__(self, rules: Rules | None = None, profile: Profile = "default") -> None:
        self.redactor = Redactor(profile)
        self.comparer = Comparer(rules or Rules(), self.redactor)
        self.diagnosis = Diagnosis(self.comparer, self.redactor)

    def ask(self, type: str, request: dict[str, Any], lane: str = "0") -> ObservedRequest:
        return ObservedRequest(
            type, operation_of(type, request), lane, request, self.comparer.key(request)
        )

    def ask_tool(self, name: str, args: Any, lane: str = "0") -> ObservedRequest:
        return self.ask("tool_call", {"name": name, "args": args}, lane)
