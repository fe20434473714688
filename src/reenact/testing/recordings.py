"""Recordings and calls that a test writes down as text, one line for one call."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import msgspec

from reenact.engine.call import CAPABILITIES, DRAWS, PAIRS, SCHEDULE, Call
from reenact.engine.codecs import PLAIN_CODEC, error_fields
from reenact.engine.decision.machine import call_identity
from reenact.engine.lanes import Lane
from reenact.engine.recording.budget import RecordingBudget
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.engine.session.explicit_api import make_explicit_call
from reenact.errors import UsageError, ValueRefused
from reenact.format.event import Data, check_lane
from reenact.policy.matching import Comparer, Rules
from reenact.policy.model import DEFAULT
from reenact.policy.redaction.redactor import Redactor
from reenact.store.sinks.base import Options
from reenact.store.sinks.memory import MemorySink, MemorySource, memory_seed
from reenact.testing.sessions import VirtualClock

__all__ = ["Line", "call_of", "lines_of", "parse_line", "recording"]

_HEAD = re.compile(r"(?P<lane>[\d.]+)\s+(?P<kind>[^\s{=]+)(?:\s+(?P<name>[^\s{=]+))?\s*")
_read = json.JSONDecoder().raw_decode


class Line(msgspec.Struct, frozen=True):
    """``request`` is None where none was written; ``rest`` is the text behind it."""

    lane: str
    kind: str
    name: str
    request: Data | None
    rest: str


def lines_of(text: str) -> list[str]:
    """Return the non-empty lines of ``text`` without indentation. ``#`` starts a comment."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def parse_line(text: str) -> Line:
    """Parse one line. Raises :class:`UsageError` for an invalid line."""
    found = _HEAD.match(text)
    if found is None:
        raise _unreadable(text, "a line starts with a lane and a kind")
    rest = text[found.end() :]
    request: Any = None
    try:
        check_lane(found["lane"])
        if rest.startswith("{"):
            request, end = _read(rest)
            rest = rest[end:]
    except (ValueError, ValueRefused) as error:
        raise _unreadable(text, str(error)) from None
    return Line(found["lane"], found["kind"], found["name"] or "", request, rest.strip())


def _unreadable(text: str, why: str) -> UsageError:
    return UsageError(
        f"cannot read the line {text!r}: {why}",
        hint='LANE KIND NAME REQUEST, such as: 0 network get {"x": 1}',
    )


def call_of(line: Line) -> Call:
    """Return the call that a boundary would make.

    The network rules apply to a request with a ``url``.
    """
    request = line.request or {}
    if line.kind == "llm":
        return _llm(line.name, request)
    if line.kind == "tool":
        return make_explicit_call(line.name, request, "tool.call", None)
    if line.kind == "mutation":
        content = {"type": line.name, **request}
        return Call(
            type="state_mutation",
            capability="fs.write",
            operation="",
            request=content,
            instant=True,
        )
    capability = CAPABILITIES.get(line.kind, line.kind)
    if line.request is None:
        return _draw(line.kind, capability, line.name)
    call = make_explicit_call(line.name, request, capability, line.kind)
    return msgspec.structs.replace(
        call,
        instant=line.kind in DRAWS,
        method=str(request.get("method", "GET")),
        url=str(request.get("url", "")),
    )


def _llm(name: str, request: Data) -> Call:
    provider, _, model = name.partition("/")
    return Call(
        type="llm_request",
        capability="llm.call",
        operation=name,
        request={"provider": provider, "model": model, **request},
    )


def _draw(source: str, capability: str, key: str) -> Call:
    return Call(
        type="nondeterministic",
        capability=capability,
        operation="",
        request={},
        source=source,
        key=key,
        instant=True,
    )


_MARKS = ("run_start", "run_end")
_UNANSWERED = ("cancelled", "unfinished")
_REFUSED = ("denied", "budget", "refused")
_WITHOUT_ANSWER: dict[str, Data] = {
    "tool_call": {"ok": False},
    "llm_request": {"stopReason": None, "usage": None},
}


def recording(text: str, *, rules: Rules | None = None) -> MemorySource:
    """Return the recording that ``text`` describes, one event per line, in the order of the log.

        0    network get {"x": 1}           = "one"     a call and its answer
        0    tool search {"q": "rain"}      inside 0.1  a tool call starts …
        0.1  network get {"x": 1}           = "two"
        0    tool search                    = "found"   … and ends
        0    llm acme/m1 {"messages": []}   = "hi"      starts and ends at once
        0    clock now                      = 1.5       a draw with a name
        0    network slow {"x": 2}          at 7        the position, when it is not the next one
        0    network slow {"x": 2}          cancelled   or unfinished: it was never answered
        0    network get {"x": 3}           denied      or budget, refused: by the policy
        0    schedule timer:0                           something else was handed over
        0    run_start {"input": 1}

    ``rules`` determine the keys. Nothing is redacted. Raises :class:`UsageError` for an invalid
    line.
    """
    return _Writer(rules or Rules()).write(text)


class _Writer:
    def __init__(self, rules: Rules) -> None:
        redactor = Redactor("none")
        self._comparer = Comparer(rules, redactor)
        self._sink = MemorySink(options=Options(redactor=redactor))
        self._recorder = Recorder(
            self._sink, VirtualClock(tick=1), redactor, RecordingBudget(DEFAULT)
        )
        self._lanes: dict[str, Lane] = {}
        self._open: defaultdict[tuple[str, str, str], list[InFlightCall]] = defaultdict(list)

    def write(self, text: str) -> MemorySource:
        self._sink.start(memory_seed())
        for line in lines_of(text):
            self._add(line)
        self._sink.finalize()
        return self._sink.source()

    def _add(self, text: str) -> None:
        line = parse_line(text)
        if line.kind == SCHEDULE:
            self._recorder.delivery(line.lane, line.name)
            self._recorder.tell_run()  # one line, one event
        elif line.kind in _MARKS:
            self._recorder.event(line.kind, line.request or {}, line.lane)
        else:
            self._add_call(line, text)

    def _add_call(self, line: Line, text: str) -> None:
        before, has_answer, answer = f" {line.rest}".partition(" = ")
        words = before.split()
        call = call_of(line)
        is_pair = call.type in PAIRS
        place = line.lane, line.kind, line.name
        if is_pair and line.request is None:
            opened = self._opened(place, text)
        else:
            opened = self._begin(line, call, words)
        ended = next((word for word in (*_UNANSWERED, *_REFUSED) if word in words), "")
        if is_pair and not has_answer and not ended:
            self._open[place].append(opened)
            return
        fields = _fields(call, ended, json.loads(answer) if has_answer else None)
        self._recorder.complete(opened, self._recorder.completing(opened, fields))

    def _opened(self, place: tuple[str, str, str], text: str) -> InFlightCall:
        if not self._open[place]:
            raise UsageError(
                f"nothing is open that the line {text!r} ends",
                hint="the line that starts the call has a request, if only {}",
            )
        return self._open[place].pop(0)

    def _begin(self, line: Line, call: Call, words: list[str]) -> InFlightCall:
        lane = self._lanes.setdefault(line.lane, Lane(line.lane))
        position = int(_behind("at", words) or lane.calls)
        lane.calls = max(lane.calls, position + 1)
        key = call.key or self._comparer.key(call_identity(call))
        opened = InFlightCall(call, key, lane, position, inner=_behind("inside", words))
        return self._recorder.open(opened)


def _behind(word: str, words: list[str]) -> str | None:
    return words[words.index(word) + 1] if word in words[:-1] else None


def _fields(call: Call, ended: str, answer: Any) -> Data:
    """Return the fields of the completing event."""
    if ended in _REFUSED:
        error = {"class": "reenact.errors.PolicyRefused", "message": ended, "kind": ended}
        return error_fields(call, error)
    if ended:
        return {**_WITHOUT_ANSWER.get(call.type, {}), ended: True}
    if call.draws:
        return {"value": answer, "instant": True}
    return PLAIN_CODEC.dump(call, answer)
