"""Outbound calls of an exchange: reading, alignment, and the requests that a replay really made.

A replay is answered from the recording and lists the recorded calls that it used. A call with a
changed request is listed with the recorded request, and a refused call is not listed. The divergences
of the replay contain the requests that were made.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from reenact.diff.sequences import pair_up
from reenact.diff.values import OPS
from reenact.engine.call import DRAWS, SLEEP
from reenact.engine.divergence.model import Divergence, Gap
from reenact.engine.divergence.model import Seen as ReportedCall
from reenact.engine.request import kind_of
from reenact.errors import UsageError
from reenact.exchange.model import Processor, ReplayOf
from reenact.exchange.payload_edits import Op, apply_patch
from reenact.format.canonical import digest
from reenact.format.json_path import format_pointer, parse
from reenact.policy.noise import NoiseFilter
from reenact.store.source import SeekableSource
from reenact.views.call_digests import DigestedCall, DigestReader
from reenact.views.content import ContentReader
from reenact.views.recorded_calls import MARKS, RecordedCall

__all__ = [
    "Answer",
    "Call",
    "ReplayCalls",
    "align_calls",
    "as_asked",
    "name_operation",
    "read_calls",
    "request_in",
    "said_by",
]

_ASIDE = ("source", "op", "type", "ok")
"""Fields that say which sort of call it is, and not what was asked."""


def name_operation(name: str, request: Any) -> str:
    """``GET https://host/path`` for what has a URL, else ``name``."""
    url = request.get("url") if isinstance(request, dict) else None
    if not isinstance(url, str):
        return name
    method = request.get("method")
    try:
        parts = urlsplit(url)
    except ValueError:
        return name
    return f"{method or name} {parts.scheme}://{parts.netloc}{parts.path}"


def request_in(data: dict[str, Any]) -> Any:
    """Return the request in the data of an event."""
    request = data.get("request")
    if request is not None:
        return request
    return {name: item for name, item in data.items() if name not in (*_ASIDE, "request")}


class Call(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Outbound call of a recording.

    ``seq`` is the number of its first event, ``position`` its index in ``lane``, and
    ``processor_seq`` the innermost processor that made it, or 0. ``operation`` is stable between
    calls: ``GET https://host/path``, ``openai/gpt-5``, a tool name. ``name`` is its recorded short
    name: ``GET``.

    The recording of a replay contains the recorded requests. ``asked`` is the request that was
    made if it differs. ``answered_by`` is the seq of the source call with the response.
    ``refused`` marks a call without a response.
    """

    seq: int
    lane: str = ""
    position: int = 0
    type: str = ""
    name: str = ""
    operation: str = ""
    request: Any = None
    response: Any = None
    error: Any = None
    processor_seq: int = 0
    asked: Any = msgspec.UNSET
    refused: bool | msgspec.UnsetType = msgspec.UNSET
    answered_by: int | msgspec.UnsetType = msgspec.UNSET


def read_calls(source: SeekableSource, processors: Sequence[Processor] = ()) -> tuple[Call, ...]:
    """The calls of a recording as they began; what was drawn from clock and chance
    is left out. ``source`` is at its beginning, and may be closed afterwards."""
    skimmer = DigestReader(source)
    skimmer.read_all()
    speaker = ContentReader()
    for seen in skimmer.answered:
        speaker.learn(skimmer.step(seen))
    owners = _Owners(processors)
    calls = [seen for lane in skimmer.lanes.values() for seen in lane if seen.kind not in MARKS]
    calls.sort(key=lambda seen: seen.first)
    return tuple(_call(skimmer.step(seen), seen, speaker, owners.of(seen)) for seen in calls)


def _call(step: RecordedCall, seen: DigestedCall, speaker: ContentReader, owner: int) -> Call:
    said = dict(speaker.of(step))
    step.let_go()
    response, error = said.pop("response", None), said.pop("error", None)
    if response is None and "result" in said:
        response = said.pop("result")
    request = request_in(said)
    return Call(
        seq=seen.first,
        lane=seen.lane,
        position=seen.position,
        type=seen.kind,
        name=seen.name,
        operation=name_operation(seen.name or seen.kind, request),
        request=_json(request),
        response=_json(response),
        error=_json(error),
        processor_seq=owner,
    )


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(_json, value)]
    return value


class _Owners:
    """Owners of calls: for each call the processor with the smallest range around it."""

    def __init__(self, processors: Sequence[Processor]) -> None:
        self._lanes: dict[str, list[Processor]] = {}
        for one in processors:
            if one.end_call > one.first_call:
                self._lanes.setdefault(one.lane, []).append(one)
        for those in self._lanes.values():
            those.sort(key=lambda one: (one.first_call, -one.end_call, one.seq))

    def of(self, seen: DigestedCall) -> int:
        """Its seq; 0 for a call in a lane that no processor ran in."""
        found = 0
        for one in self._lanes.get(seen.lane, ()):
            if one.first_call > seen.position:
                break
            if seen.position < one.end_call:
                found = one.seq
        return found


CallPair = tuple[Call | None, Call | None]


def align_calls(
    before: Sequence[Call], after: Sequence[Call], noise: NoiseFilter
) -> list[CallPair]:
    """Pair the calls of two exchanges lane by lane.

    Calls with equal content, apart from noise, are pairs. Calls between them are paired by operation.
    """
    mine, theirs = _by_lane(before), _by_lane(after)
    return [
        pair
        for lane in dict.fromkeys((*theirs, *mine))
        for pair in pair_up(
            mine.get(lane, []), theirs.get(lane, []), lambda call: _key(call, noise), _kind
        )
    ]


def _kind(call: Call) -> tuple[str, str]:
    return call.type, call.operation


def _by_lane(calls: Sequence[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(call.lane, []).append(call)
    for lane in found.values():
        lane.sort(key=lambda call: (call.position, call.seq))
    return found


def said_by(call: Call) -> dict[str, Any]:
    """Return the comparable content of a call."""
    said = _recorded(call)
    if call.asked is not msgspec.UNSET:
        said["request"] = call.asked
    return said


def _recorded(call: Call) -> dict[str, Any]:
    said = {"request": call.request, "response": call.response, "error": call.error}
    return {name: value for name, value in said.items() if value is not None}


def _key(call: Call, noise: NoiseFilter) -> str:
    """By what is recorded: what was asked instead differs in the same place."""
    said = noise.strip(_recorded(call), path=("calls", call.operation))
    return digest([call.type, call.operation, said])


Answer = Literal["", "recorded", "refused"]
"""Result of a call that differs from the recording: the recorded response, or none."""

_CALLS: Final = ("nondeterministic", "llm_request", "tool_call", "state_mutation")
_NO_CALLS: Final = frozenset({*DRAWS, SLEEP})
_NOTHING_LEFT: Final = ("event_unexpected", "nondeterministic_underflow")


class ReplayCalls(msgspec.Struct, frozen=True):
    """``answers`` has one for each divergence; empty for one that is not about a call that was made
    otherwise: a draw, a call that was not made, or made in another order."""

    calls: tuple[Call, ...]
    answers: tuple[Answer, ...] = ()


def as_asked(
    calls: Sequence[Call], replay: ReplayOf | None, processors: Sequence[Processor] = ()
) -> ReplayCalls:
    """Return ``calls`` with the requests that the replay made, and its refused calls.

    A refused call belongs to the one of ``processors`` that failed with it. Unreadable divergences
    are ignored.
    """
    if replay is None or not replay.divergences:
        return ReplayCalls(tuple(calls))
    work = _Work(calls, processors, strict=replay.strict)
    answers = [work.take(_read(one)) for one in replay.divergences]
    return ReplayCalls((*work.calls, *work.refused), tuple(answers))


def _read(document: dict[str, Any]) -> Divergence | None:
    try:
        return Divergence.from_json(document)
    except UsageError:
        return None


class _Work:
    def __init__(
        self, calls: Sequence[Call], processors: Sequence[Processor], *, strict: bool
    ) -> None:
        self.calls = list(calls)
        self._failed = [one for one in processors if one.status in ("failed", "handled")]
        self.refused: list[Call] = []
        self._strict = strict
        self._lanes: dict[str, list[int]] = {}
        for index, call in enumerate(calls):
            self._lanes.setdefault(call.lane, []).append(index)

    def take(self, told: Divergence | None) -> Answer:
        """Apply a divergence, and return the result that the call got."""
        seen = None if told is None else told.observed
        if told is None or seen is None or not _is_call(told, seen) or self._is_moved(told):
            return ""
        lane = self._lanes.get(told.lane, [])
        served = self._served(told, seen, lane)
        if served is None:
            place = self._place(told, lane)
            self.refused.append(_refused(seen, place, self._owner(told.lane, place)))
            return "refused"
        lane.remove(served)  # a recorded call answers one call
        call = self.calls[served]
        by = msgspec.UNSET if told.served is None else told.served
        self.calls[served] = msgspec.structs.replace(
            call, asked=_made(call, told, seen), answered_by=by
        )
        return "recorded"

    def _is_moved(self, told: Divergence) -> bool:
        """Is the same call recorded at another place of its lane, from where it was served?"""
        return not self._strict and any(
            one.score == 1 and not one.used and one.lane == told.lane for one in told.nearest
        )

    def _served(self, told: Divergence, seen: ReportedCall, lane: list[int]) -> int | None:
        """The recorded call whose answer it got: the one it was compared with, if that is of the
        same operation, else the nearest that is."""
        if self._strict or told.code in _NOTHING_LEFT:
            return None
        names = [seen.operation]
        if told.served is not None and told.expected is not None:
            names.append(told.expected.operation)  # of another model, or a tool with another name
        found = ([index for index in lane if _label(self.calls[index]) == name] for name in names)
        same = next(filter(None, found), [])
        return min(same, key=lambda index: self._distance(index, told), default=None)

    def _place(self, told: Divergence, lane: list[int]) -> int:
        """Return the lane position of a refused call: before the next expected call."""
        expected = told.expected
        if told.code not in _NOTHING_LEFT and expected is not None and not self._strict:
            same = [index for index in lane if _label(self.calls[index]) == expected.operation]
            if same:
                nearest = min(same, key=lambda index: self._distance(index, told))
                return self.calls[nearest].position
        inside = [call.position for call in self.calls if call.lane == told.lane]
        return max(inside, default=0) + 1

    def _owner(self, lane: str, position: int) -> int:
        """Return the seq of the innermost processor that failed with the call at ``position``, or
        0. A refused call counts in processor ranges but has no position, so a processor that
        survived it cannot be identified."""
        around = (
            one.seq
            for one in self._failed
            if one.lane == lane and one.first_call <= position < one.end_call
        )
        return max(around, default=0)

    def _distance(self, index: int, told: Divergence) -> tuple[bool, int]:
        """Return the distance to the call that served or was compared.

        Event numbers differ between recordings, so an equal request is stronger evidence.
        """
        call, expected = self.calls[index], told.expected
        compared = expected if told.served in (None, told.event_seq) else None
        data = compared.request if compared is not None else None
        unlike = not isinstance(data, dict) or digest(request_in(data)) != digest(call.request)
        return unlike, abs(call.seq - (told.served or told.event_seq or 0))


def _is_call(told: Divergence, seen: ReportedCall) -> bool:
    if seen.type not in _CALLS or told.code == "event_missing":
        return False
    data = seen.data if isinstance(seen.data, dict) else {}
    return kind_of(seen.type, data) not in _NO_CALLS


def _label(call: Call) -> str:
    """As a divergence names its operation."""
    plain = call.type in ("llm", "tool", "state_mutation")
    return call.name if plain else f"{call.type} {call.name}"


def _refused(seen: ReportedCall, position: int, owner: int) -> Call:
    data = seen.data if isinstance(seen.data, dict) else {}
    request = request_in(data)
    kind = kind_of(seen.type, data)
    name = seen.operation.removeprefix(f"{kind} ")
    return Call(
        seq=0,
        lane=seen.lane,
        position=position,
        type=kind,
        name=name,
        operation=name_operation(name, request),
        request=request,
        processor_seq=owner,
        refused=True,
    )


def _made(call: Call, told: Divergence, seen: ReportedCall) -> Any:
    """Return the recorded request with the reported differences applied."""
    if told.paths and not told.more_paths:
        try:
            return apply_patch(call.request, _patch(told.paths))
        except UsageError:
            pass  # not the recorded request that was compared with, or a path was cut
    return request_in(seen.data if isinstance(seen.data, dict) else {})


def _patch(gaps: Sequence[Gap]) -> list[Op]:
    """Indices count in what was asked, and of what was removed in what was recorded: so that goes
    first, from behind. Raises :class:`UsageError`."""
    removed = [gap for gap in gaps if gap.kind == "removed"]
    added = [gap for gap in gaps if gap.kind == "added"]
    changed = [gap for gap in gaps if gap.kind == "changed"]
    ops: list[Op] = []
    for gap in (*reversed(removed), *added, *changed):
        steps = parse(gap.path)
        if steps in (("op",), ("source",)):
            continue  # the request contains it
        path = format_pointer(steps[1:] if steps[:1] == ("request",) else steps)
        value = msgspec.UNSET if gap.kind == "removed" else gap.observed
        ops.append(Op(OPS[gap.kind], path, value))
    return ops
