"""Diagnosis: creates a :class:`Divergence`, with details and hints, from two calls.

Hints name the policy rules that would settle a difference, the recorded call that was probably
meant, and the command to use. Pure: nothing is remembered between two divergences. Loaded with
the first divergence of a process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from reenact.diff.values import Difference, differences
from reenact.engine.call import DRAWS
from reenact.engine.divergence.excerpts import ExcerptBuilder, Truncator, is_withheld
from reenact.engine.divergence.model import SESSION_REMEDIES, Code, Divergence, Remedies
from reenact.engine.divergence.nearest_calls import SimilarCall, find_nearest_calls
from reenact.engine.request import ObservedRequest, kind_of, operation_of, request_of
from reenact.format.event import Data, Event
from reenact.format.json_path import Path, lookup
from reenact.policy.matching import Comparer
from reenact.policy.redaction.redactor import Redactor
from reenact.policy.redaction.structure import is_pair, pair_name
from reenact.policy.volatile import KINDS, settles

__all__ = [
    "Diagnosis",
    "IgnoreRule",
    "ObservedRequest",
    "difference_hints",
    "file_hints",
    "ignore_rule_for",
    "nearest_call_hints",
]

_FEW = 3
_ESSENCE = frozenset("args key model name op provider request source type".split())
"""Fields of a request without which it would be any call at all."""
_PATH_ROOM = 200


def nearest_call_hints(found: Iterable[SimilarCall], lane: str, seq: int | None) -> Iterator[str]:
    """Yield hints about recorded calls that equal the observed one."""
    same = next((one for one in found if one.score == 1), None)
    if same is None:
        return
    event = same.event
    if same.used:
        yield (
            f"The same call is event {event.seq} of lane {event.lane}, which has been used: "
            "the program makes it more often than it did."
        )
    elif event.lane != lane:
        yield (
            f"The same call is recorded in lane {event.lane} (event {event.seq}): "
            "the program makes it from another task, thread or tool than it did."
        )
    elif seq is not None and event.seq > seq:
        yield (
            f"The same call is recorded later in this lane (event {event.seq}): "
            f"the program leaves out what stands between, from event {seq} on."
        )
    else:
        yield f"The same call is event {event.seq} of this lane, and was passed over before."


def file_hints(kept: bool) -> Iterator[str]:
    """Yield hints for a file that is read instead of a different one.

    ``kept``: the recording has the content of the file.
    """
    yield (
        "Put it back as the program found it when it was recorded, or record again if the change "
        "is intended."
    )
    if not kept:
        yield (
            "If the recorded run has changed it itself, let the policy keep what is read, and "
            'record again: "files": {"content": true}.'
        )


def difference_hints(
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
        yield from _ignoring([rule for rule in rules if rule is not None], bounds)


def _is_settled(kind: str, one: Difference) -> bool:
    return one.kind == "changed" and settles(kind, one.path, one.expected, one.observed)


def _listed(names: list[str]) -> str:
    shown = names[:_FEW]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


class IgnoreRule(msgspec.Struct, frozen=True):
    """One entry of ``ignore`` in a policy: a path, or the name of a header or parameter."""

    member: str
    path: Path = ()
    name: str = ""


def ignore_rule_for(one: Difference, expected: Any) -> IgnoreRule | None:
    """Return the rule that would ignore a difference, or None if no rule can."""
    header = _header(one, expected)
    if header is not None:
        return IgnoreRule("headers", name=header)
    parameter = _parameter(one)
    if parameter is not None:
        return IgnoreRule("query", name=parameter)
    if one.kind != "changed" and not isinstance(one.path[-1], str):
        return None  # an item more or less in a list
    if not one.path or (len(one.path) == 1 and one.path[0] in _ESSENCE):
        return None
    return IgnoreRule("paths", path=one.path)


def _header(one: Difference, expected: Any) -> str | None:
    if "headers" not in one.path[:-1]:
        return None
    place = one.path.index("headers") + 1
    step = one.path[place]
    if isinstance(step, str):
        return step
    if len(one.path) == place + 1:
        pair = one.observed if one.kind == "added" else one.expected
    else:
        pair = lookup(expected, one.path[: place + 1])
    return pair_name(pair[0]) if is_pair(pair) else None


def _parameter(one: Difference) -> str | None:
    """The one parameter in which two URLs differ."""
    if one.kind != "changed" or one.path[-1:] != ("url",):
        return None
    if not (isinstance(one.expected, str) and isinstance(one.observed, str)):
        return None  # a member of a body may be called so, too
    try:
        mine, theirs = urlsplit(one.expected), urlsplit(one.observed)
    except ValueError:
        return None
    if mine._replace(query="") != theirs._replace(query=""):
        return None
    unlike = {name for name, _ in {*parse_qsl(mine.query)} ^ {*parse_qsl(theirs.query)}}
    return unlike.pop() if len(unlike) == 1 else None


def _ignoring(rules: list[IgnoreRule], bounds: Truncator) -> Iterator[str]:
    members: dict[str, list[str]] = {}
    for rule in rules:
        text = bounds.path(rule.path, _PATH_ROOM)[0] if rule.path else bounds.name(rule.name)
        names = members.setdefault(rule.member, [])
        if text not in names:
            names.append(text)
    one = sum(map(len, members.values())) == 1
    yield (
        f"If {'it does' if one else 'these do'} not matter, let the policy say "
        f'"ignore": {json.dumps(members, ensure_ascii=False)}.'
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
            [*nearest_call_hints(found, ask.lane, event.seq), self._ways.again],
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
        hints = [*nearest_call_hints(found, ask.lane, event.seq)]
        if _is_same_file(event, ask):
            return [*hints, *file_hints("response" in event.data)]
        volatile = self._comparer.rules.volatile
        hints += difference_hints(differing, expected, volatile, self._bounds)
        return [*hints, self._ways.again]

    def unexpected(
        self, ask: ObservedRequest, candidates: Candidates, *, draws: bool
    ) -> Divergence:
        """Nothing is recorded for this call; ``draws``: for this draw of the clock, chance …"""
        found = find_nearest_calls(ask, self._comparer, candidates)
        hints = [*nearest_call_hints(found, ask.lane, None)]
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
        self, event: Event | None, waiting: ObservedRequest | None, *, stack: str, why: str
    ) -> Divergence:
        """Return the divergence of a run that waits for an event that does not happen."""
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

    def cancelled(self, event: Event, ask: ObservedRequest) -> Divergence:
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
    """Is it the same file or folder that is read, with something else in it?"""
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
