"""From what was asked and what was recorded to a :class:`Divergence` that says what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reenact.diff.values import Difference, differences
from reenact.engine import advice
from reenact.engine.bounding import Bounds
from reenact.engine.call import DRAWS
from reenact.engine.divergence import Code, Divergence
from reenact.engine.nearest import Likeness, nearest
from reenact.engine.requests import Ask, kind_of, operation_of, request_of
from reenact.engine.showing import Showing, is_withheld
from reenact.engine.ways import SESSION, Ways
from reenact.format.event import Data, Event
from reenact.policy.matching import Comparer
from reenact.policy.redaction import Redactor

__all__ = ["Ask", "Diagnosis"]

Candidates = Iterable[tuple[Event, bool]]
"""Recorded calls that may be meant, and whether each has been used."""

_WORDS = {
    "llm_request": "model call",
    "llm_response": "model answer",
    "tool_call": "tool call",
    "tool_result": "tool result",
    "state_mutation": "state mutation",
    "nondeterministic": "call",
}
_PATH_ROOM = 200


class Diagnosis:
    """Makes divergences. Pure: nothing is remembered between two of them. ``ways`` are there for
    whoever reads them."""

    def __init__(self, comparer: Comparer, redactor: Redactor, ways: Ways = SESSION) -> None:
        self._comparer = comparer
        self._bounds = Bounds(redactor)
        self._showing = Showing(redactor, ways)
        self._ways = ways

    def type_mismatch(self, event: Event, ask: Ask, candidates: Candidates) -> Divergence:
        """Another type, or another kind of draw, stands at this place."""
        found = nearest(ask, self._comparer, candidates, but=event.seq)
        return self._showing.divergence(
            "event_type_mismatch",
            f"The program asks for {_asked(ask)} where the recording has {_recorded(event)}.",
            [*advice.about_nearest(found, ask.lane, event.seq), self._ways.again],
            event=event,
            ask=ask,
            found=found,
        )

    def payload_mismatch(self, event: Event, ask: Ask, candidates: Candidates) -> Divergence:
        """The same type, and another request."""
        found = nearest(ask, self._comparer, candidates, but=event.seq)
        recorded = request_of(event.type, event.data)
        expected = self._comparer.normal(recorded)
        differing: list[Difference] = []
        rules: tuple[str, ...] = ()
        if not is_withheld(event.data):
            differing = differences(expected, self._comparer.normal(ask.request))
            rules = self._comparer.applied(recorded, ask.request)
        return self._showing.divergence(
            "event_payload_mismatch",
            self._payload_detail(event, ask, differing),
            self._payload_hints(event, ask, found, differing, expected),
            event=event,
            ask=ask,
            found=found,
            differing=differing,
            flags=list(map(_rule_flag, rules)),
        )

    def _payload_hints(
        self,
        event: Event,
        ask: Ask,
        found: list[Likeness],
        differing: list[Difference],
        expected: Any,
    ) -> list[str]:
        hints = [*advice.about_nearest(found, ask.lane, event.seq)]
        if _is_same_file(event, ask):
            return [*hints, *advice.about_files("response" in event.data)]
        volatile = self._comparer.rules.volatile
        hints += advice.about_differences(differing, expected, volatile, self._bounds)
        return [*hints, self._ways.again]

    def unexpected(self, ask: Ask, candidates: Candidates, *, draws: bool) -> Divergence:
        """Nothing is recorded for this call; ``draws``: for this draw of the clock, chance …"""
        found = nearest(ask, self._comparer, candidates)
        hints = [*advice.about_nearest(found, ask.lane, None)]
        if draws:
            code: Code = "nondeterministic_underflow"
            detail = f"The program makes {_asked(ask)} more often than it did in the recording."
            hints += [self._ways.again]
        else:
            code = "event_unexpected"
            detail = f"The recording has nothing left for {_asked(ask)}."
            hints += [self._ways.more]
        return self._showing.divergence(code, detail, hints, ask=ask, found=found)

    def missing(self, event: Event, *, why: str) -> Divergence:
        """Recorded, and left over or skipped."""
        return self._showing.divergence(
            "event_missing",
            f"Nothing asked for {_recorded(event)}: {why}.",
            [
                self._ways.fewer,
                'If it may stay unused, let the policy say "unused": "warn" or "allow".',
            ],
            event=event,
        )

    def stalled(
        self, event: Event | None, waiting: Ask | None, *, stack: str, why: str
    ) -> Divergence:
        """The run waits, and what the recording says comes next does not happen."""
        head = f"{_recorded(event)} comes next" if event else "the recording is at its end"
        waits = f" and {_asked(waiting)} waits" if waiting else ""
        hints = ["The stack is where the program stands instead."] if stack else []
        return self._showing.divergence(
            "event_missing",
            f"The replay stands still: {head}{waits}; {why}.",
            [*hints, self._ways.fewer],
            event=event,
            ask=waiting,
            flags=["stalled"],
            stack=stack,
        )

    def cancelled(self, event: Event, ask: Ask) -> Divergence:
        """Answered in the recording, cancelled in the replay."""
        return self._showing.divergence(
            "event_missing",
            f"The recording has an answer for {_recorded(event)}, and the program cancelled it.",
            [
                "Look for a time-out or a cancel() that comes earlier than it did.",
                self._ways.again,
            ],
            event=event,
            ask=ask,
            flags=["cancelled"],
        )

    def _payload_detail(self, event: Event, ask: Ask, differing: list[Difference]) -> str:
        asked, recorded = f"T{_asked(ask)[1:]}", f"event {event.seq} of the recording"
        if is_withheld(event.data):
            return f"{asked} cannot be compared with {recorded}, whose payload was withheld."
        if not differing:
            return f"{asked} and {recorded} have the same request and different keys."
        first, _ = self._bounds.path(differing[0].path, _PATH_ROOM)
        if len(differing) == 1:
            return f"{asked} differs from {recorded} at {first}."
        return f"{asked} differs from {recorded} in {len(differing):,} places, first at {first}."


def _is_same_file(event: Event, ask: Ask) -> bool:
    """Is it the same file or folder that is read, with something else in it?"""
    data = event.data
    return ask.request.get("source") == "fs" and data.get("op") == ask.operation


def _asked(ask: Ask) -> str:
    return _named(ask.type, ask.request, ask.operation)


def _recorded(event: Event) -> str:
    return f"{_named(event.type, event.data)} (event {event.seq})"


def _named(type: str, data: Data, known: str = "") -> str:
    """``the tool call search``, ``the draw clock time.time``, ``the state mutation file_write a``,
    ``the run_end``."""
    draw = kind_of(type, data) in DRAWS
    operation = operation_of(type, data) or known
    details = data.get("details") if type == "state_mutation" else None
    if isinstance(details, dict) and isinstance(details.get("path"), str):
        operation = f"{operation} {details['path']}"
    if draw and "op" not in data and "request" not in data:
        operation = f"{operation} {data.get('key', '')}"
    return f"the {'draw' if draw else _WORDS.get(type, type)} {operation}".rstrip()


def _rule_flag(rule: str) -> str:
    kind, _, rest = rule.partition(" ")
    return f"{'ignored' if kind == 'ignore' else kind}: {rest}"
