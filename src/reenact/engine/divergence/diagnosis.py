"""Diagnosis: creates a :class:`Divergence`, with details and hints, from two calls.

Hints name the policy rules that would settle a difference, the recorded call that was probably
meant, and the command to use. Pure: nothing is remembered between two divergences. Loaded with
the first divergence of a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reenact.diff.values import Difference, differences
from reenact.engine.call import DRAWS
from reenact.engine.divergence.causes import (
    IgnoreRule,
    changed_file,
    hints_of,
    ignore_policy,
    ignore_rule_for,
    in_policy,
    left_out_call,
    recorded_elsewhere,
)
from reenact.engine.divergence.excerpts import ExcerptBuilder, Truncator, is_withheld
from reenact.engine.divergence.model import SESSION_REMEDIES, Code, Divergence, Remedies
from reenact.engine.divergence.nearest_calls import SimilarCall, find_nearest_calls
from reenact.engine.request import ObservedRequest, kind_of, operation_of, request_of
from reenact.format.event import Data, Event
from reenact.policy.matching import Comparer
from reenact.policy.redaction.redactor import Redactor
from reenact.policy.volatile import KINDS, settles

__all__ = ["Diagnosis", "ObservedRequest"]

_FEW = 3
_PATH_ROOM = 200


def _elsewhere(found: Iterable[SimilarCall], lane: str, seq: int | None) -> Iterator[str]:
    """Yield hints about a recorded call that equals the observed one."""
    same = next((one for one in found if one.score == 1), None)
    if same is not None:
        event = same.event
        cause = recorded_elsewhere(event.seq, event.lane, same.used, here=lane, expected=seq)
        yield from hints_of(cause)


def _difference_hints(
    differing: list[Difference], expected: Any, volatile: Iterable[str], bounds: Truncator
) -> Iterator[str]:
    """The rules that would settle the differences, in the words of a policy file.

    ``expected`` is the whole value that the paths point into; ``volatile`` are the kinds that are
    in force already.
    """
    left = differing
    for kind in (kind for kind in KINDS if kind not in set(volatile)):
        settled = [one for one in left if _is_settled(kind, one)]
        if settled:
            left = [one for one in left if one not in settled]
            where = _listed([bounds.path(one.path, _PATH_ROOM)[0] for one in settled])
            yield (
                f'{where} differs only in {kind}: "volatile": ["{kind}"] in the policy '
                "lets them differ."
            )
    rules = [ignore_rule_for(one, expected) for one in left[: _FEW + 1]]
    if rules and len(rules) <= _FEW and None not in rules:
        yield _ignoring([rule for rule in rules if rule is not None], bounds)


def _is_settled(kind: str, one: Difference) -> bool:
    return one.kind == "changed" and settles(kind, one.path, one.expected, one.observed)


def _listed(names: list[str]) -> str:
    shown = names[:_FEW]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _ignoring(rules: list[IgnoreRule], bounds: Truncator) -> str:
    entries = [
        (rule, bounds.path(rule.path, _PATH_ROOM)[0] if rule.path else bounds.name(rule.name))
        for rule in rules
    ]
    policy = ignore_policy(entries)
    one = sum(map(len, policy["ignore"].values())) == 1
    return (
        f"If {'it does' if one else 'these do'} not matter, let the policy say {in_policy(policy)}."
    )


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


class Diagnosis:
    """Factory of divergences. Pure: it keeps no state.

    ``ways`` are the remedies that it recommends.
    """

    def __init__(
        self, comparer: Comparer, redactor: Redactor, ways: Remedies = SESSION_REMEDIES
    ) -> None:
        self._comparer = comparer
        self._bounds = Truncator(redactor)
        self._showing = ExcerptBuilder(redactor, ways)
        self._ways = ways

    def type_mismatch(
        self, event: Event, ask: ObservedRequest, candidates: Candidates
    ) -> Divergence:
        """Another type, or another kind of draw, stands at this place."""
        found = find_nearest_calls(ask, self._comparer, candidates, but=event.seq)
        return self._showing.divergence(
            "event_type_mismatch",
            f"The program asks for {_asked(ask)} where the recording has {_recorded(event)}.",
            [*_elsewhere(found, ask.lane, event.seq), self._ways.again],
            event=event,
            ask=ask,
            found=found,
        )

    def payload_mismatch(
        self, event: Event, ask: ObservedRequest, candidates: Candidates
    ) -> Divergence:
        """Return the divergence of a request with the same type and a different content."""
        found = find_nearest_calls(ask, self._comparer, candidates, but=event.seq)
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
        ask: ObservedRequest,
        found: list[SimilarCall],
        differing: list[Difference],
        expected: Any,
    ) -> list[str]:
        hints = [*_elsewhere(found, ask.lane, event.seq)]
        if _is_same_file(event, ask):
            return [*hints, *hints_of(changed_file(ask.operation, kept="response" in event.data))]
        volatile = self._comparer.rules.volatile
        hints += _difference_hints(differing, expected, volatile, self._bounds)
        return [*hints, self._ways.again]

    def unexpected(
        self, ask: ObservedRequest, candidates: Candidates, *, draws: bool
    ) -> Divergence:
        """Nothing is recorded for this call; ``draws``: for this draw of the clock, chance …"""
        found = find_nearest_calls(ask, self._comparer, candidates)
        hints = [*_elsewhere(found, ask.lane, None)]
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
            [self._ways.fewer, *hints_of(left_out_call((), stack=False))],
            event=event,
        )

    def stalled(
        self, event: Event | None, waiting: ObservedRequest | None, *, stack: str, why: str
    ) -> Divergence:
        """Return the divergence of a run that waits for an event that does not happen."""
        head = f"{_recorded(event)} comes next" if event else "the recording is at its end"
        waits = f" and {_asked(waiting)} waits" if waiting else ""
        hints = hints_of(left_out_call(["stalled"], stack=bool(stack)))
        return self._showing.divergence(
            "event_missing",
            f"The replay stands still: {head}{waits}; {why}.",
            [*hints, self._ways.fewer],
            event=event,
            ask=waiting,
            flags=["stalled"],
            stack=stack,
        )

    def cancelled(self, event: Event, ask: ObservedRequest) -> Divergence:
        """Answered in the recording, cancelled in the replay."""
        return self._showing.divergence(
            "event_missing",
            f"The recording has an answer for {_recorded(event)}, and the program cancelled it.",
            [*hints_of(left_out_call(["cancelled"], stack=False)), self._ways.again],
            event=event,
            ask=ask,
            flags=["cancelled"],
        )

    def _payload_detail(
        self, event: Event, ask: ObservedRequest, differing: list[Difference]
    ) -> str:
        asked, recorded = f"T{_asked(ask)[1:]}", f"event {event.seq} of the recording"
        if is_withheld(event.data):
            return f"{asked} cannot be compared with {recorded}, whose payload was withheld."
        if not differing:
            return f"{asked} and {recorded} have the same request and different keys."
        first, _ = self._bounds.path(differing[0].path, _PATH_ROOM)
        if len(differing) == 1:
            return f"{asked} differs from {recorded} at {first}."
        return f"{asked} differs from {recorded} in {len(differing):,} places, first at {first}."


def _is_same_file(event: Event, ask: ObservedRequest) -> bool:
    """Return whether the program reads the same file or folder, with different content."""
    data = event.data
    return ask.request.get("source") == "fs" and data.get("op") == ask.operation


def _asked(ask: ObservedRequest) -> str:
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
