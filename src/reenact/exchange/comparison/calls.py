"""The outbound calls of an exchange, and which call of one is which of the other."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from reenact.diff.sequences import align
from reenact.exchange.comparison.noise import Noise
from reenact.exchange.comparison.operations import name_operation, request_in
from reenact.exchange.model import Processor
from reenact.format.canonical import digest
from reenact.store.source import SeekableSource
from reenact.views.calls import MARKS, Step
from reenact.views.compare.call_digests import Seen, Skimmer
from reenact.views.content import Speaker

__all__ = ["Call", "align_calls", "read_calls", "said_by"]


class Call(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One call of a recording. ``seq`` is that of its first event, ``position`` its place in its
    ``lane``, ``processor_seq`` the innermost processor that made it, 0 for none.

    ``operation`` says what was called, without what changes from call to call: ``GET
    https://host/path``, ``openai/gpt-5``, the name of a tool; ``name`` is the last part of what the
    recording calls it: ``GET``.

    A replay serves recorded answers, and so its recording holds the recorded requests. ``asked`` is
    the request that was made where it is another one; ``answered_by`` the seq, in the recording of
    the source, of the call whose answer it got; ``refused`` says that a call was made, and got no
    answer (:mod:`reenact.exchange.comparison.asking`).
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
    skimmer = Skimmer(source)
    skimmer.read_all()
    speaker = Speaker()
    for seen in skimmer.answered:
        speaker.learn(skimmer.step(seen))
    owners = _Owners(processors)
    calls = [seen for lane in skimmer.lanes.values() for seen in lane if seen.kind not in MARKS]
    calls.sort(key=lambda seen: seen.first)
    return tuple(_call(skimmer.step(seen), seen, speaker, owners.of(seen)) for seen in calls)


def _call(step: Step, seen: Seen, speaker: Speaker, owner: int) -> Call:
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
    """Who made a call: the processor with the smallest range of calls around it."""

    def __init__(self, processors: Sequence[Processor]) -> None:
        self._lanes: dict[str, list[Processor]] = {}
        for one in processors:
            if one.end_call > one.first_call:
                self._lanes.setdefault(one.lane, []).append(one)
        for those in self._lanes.values():
            those.sort(key=lambda one: (one.first_call, -one.end_call, one.seq))

    def of(self, seen: Seen) -> int:
        """Its seq; 0 for a call in a lane that no processor ran in."""
        found = 0
        for one in self._lanes.get(seen.lane, ()):
            if one.first_call > seen.position:
                break
            if seen.position < one.end_call:
                found = one.seq
        return found


CallPair = tuple[Call | None, Call | None]


def align_calls(before: Sequence[Call], after: Sequence[Call], noise: Noise) -> list[CallPair]:
    """All calls of both, lane by lane. Calls that say the same, apart from noise, hold the others
    in place; between them calls of the same operation belong together."""
    mine, theirs = _by_lane(before), _by_lane(after)
    pairs: list[CallPair] = []
    for lane in dict.fromkeys((*theirs, *mine)):
        pairs += _lane(mine.get(lane, []), theirs.get(lane, []), noise)
    return pairs


def _by_lane(calls: Sequence[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(call.lane, []).append(call)
    for lane in found.values():
        lane.sort(key=lambda call: (call.position, call.seq))
    return found


def _lane(before: list[Call], after: list[Call], noise: Noise) -> Iterator[CallPair]:
    keys = [[_key(call, noise) for call in side] for side in (before, after)]
    left: list[Call] = []
    right: list[Call] = []
    for here, there in align(*keys):
        if here is not None and there is not None:
            yield from _unlike(left, right)
            left, right = [], []
            yield before[here], after[there]
        elif here is not None:
            left.append(before[here])
        elif there is not None:
            right.append(after[there])
    yield from _unlike(left, right)


def _unlike(before: list[Call], after: list[Call]) -> Iterator[CallPair]:
    labels = [[(call.type, call.operation) for call in side] for side in (before, after)]
    for here, there in align(*labels):
        yield (
            None if here is None else before[here],
            None if there is None else after[there],
        )


def said_by(call: Call) -> dict[str, Any]:
    """What is compared of a call."""
    said = _recorded(call)
    if call.asked is not msgspec.UNSET:
        said["request"] = call.asked
    return said


def _recorded(call: Call) -> dict[str, Any]:
    said = {"request": call.request, "response": call.response, "error": call.error}
    return {name: value for name, value in said.items() if value is not None}


def _key(call: Call, noise: Noise) -> str:
    """By what is recorded: what was asked instead differs in the same place."""
    said = noise.mask(("calls", call.operation), _recorded(call))
    return digest([call.type, call.operation, said])
