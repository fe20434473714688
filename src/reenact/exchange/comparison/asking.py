"""The calls of a replay as they were made, by what the replay says of its divergences.

A replay answers from the recording, and writes down what it has used: a call that was made with
another request than the recorded one stands there with the recorded one, and a call that was
refused does not stand there at all. The divergences tell what was asked instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from reenact.engine.call import DRAWS, SLEEP
from reenact.engine.divergence.model import Divergence, Gap, Seen
from reenact.engine.request import kind_of
from reenact.errors import UsageError
from reenact.exchange.comparison.calls import Call
from reenact.exchange.comparison.operations import name_operation, request_in
from reenact.exchange.model import Processor, ReplayOf
from reenact.exchange.patch import Op, Verb, apply
from reenact.exchange.pointer import spell_pointer
from reenact.format.canonical import digest
from reenact.format.paths import parse

__all__ = ["Answer", "Asked", "as_asked"]

Answer = Literal["", "recorded", "refused"]
"""What a call that is not the recorded one got: the recorded answer, or none."""

_CALLS: Final = ("nondeterministic", "llm_request", "tool_call", "state_mutation")
_NO_CALLS: Final = frozenset({*DRAWS, SLEEP})
_NOTHING_LEFT: Final = ("event_unexpected", "nondeterministic_underflow")
_VERBS: Final[dict[str, Verb]] = {"removed": "remove", "added": "add", "changed": "replace"}


class Asked(msgspec.Struct, frozen=True):
    """``answers`` has one for each divergence; empty for one that is not about a call that was made
    otherwise: a draw, a call that was not made, or made in another order."""

    calls: tuple[Call, ...]
    answers: tuple[Answer, ...] = ()


def as_asked(
    calls: Sequence[Call], replay: ReplayOf | None, processors: Sequence[Processor] = ()
) -> Asked:
    """``calls`` of an exchange, with what was asked where it is not what is recorded, and with the
    calls that were refused, each in the one of ``processors`` that failed with it. What cannot be
    read of the divergences is left alone."""
    if replay is None or not replay.divergences:
        return Asked(tuple(calls))
    work = _Work(calls, processors, strict=replay.strict)
    answers = [work.take(_read(one)) for one in replay.divergences]
    return Asked((*work.calls, *work.refused), tuple(answers))


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
        """Put in what ``told`` says, and give what the call got."""
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

    def _served(self, told: Divergence, seen: Seen, lane: list[int]) -> int | None:
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
        """Where in its lane a call was refused: before the recorded one that was to come."""
        expected = told.expected
        if told.code not in _NOTHING_LEFT and expected is not None and not self._strict:
            same = [index for index in lane if _label(self.calls[index]) == expected.operation]
            if same:
                nearest = min(same, key=lambda index: self._distance(index, told))
                return self.calls[nearest].position
        inside = [call.position for call in self.calls if call.lane == told.lane]
        return max(inside, default=0) + 1

    def _owner(self, lane: str, position: int) -> int:
        """The seq of the innermost processor that failed with the call at ``position``; 0 for none.
        A refused call counts in the ranges of processors, but stands nowhere, and one that was not
        hurt by it cannot be told from its neighbours."""
        around = (
            one.seq
            for one in self._failed
            if one.lane == lane and one.first_call <= position < one.end_call
        )
        return max(around, default=0)

    def _distance(self, index: int, told: Divergence) -> tuple[bool, int]:
        """From the recorded call that answered it, or that it was compared with. Events are numbered
        anew in the recording of a replay: the request tells more than the number."""
        call, expected = self.calls[index], told.expected
        compared = expected if told.served in (None, told.event_seq) else None
        data = compared.request if compared is not None else None
        unlike = not isinstance(data, dict) or digest(request_in(data)) != digest(call.request)
        return unlike, abs(call.seq - (told.served or told.event_seq or 0))


def _is_call(told: Divergence, seen: Seen) -> bool:
    if seen.type not in _CALLS or told.code == "event_missing":
        return False
    data = seen.data if isinstance(seen.data, dict) else {}
    return kind_of(seen.type, data) not in _NO_CALLS


def _label(call: Call) -> str:
    """As a divergence names its operation."""
    plain = call.type in ("llm", "tool", "state_mutation")
    return call.name if plain else f"{call.type} {call.name}"


def _refused(seen: Seen, position: int, owner: int) -> Call:
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


def _made(call: Call, told: Divergence, seen: Seen) -> Any:
    """The request that was made: the recorded one, with what is told to differ."""
    if told.paths and not told.more_paths:
        try:
            return apply(call.request, _patch(told.paths))
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
            continue  # the request says so itself
        path = spell_pointer(steps[1:] if steps[:1] == ("request",) else steps)
        value = msgspec.UNSET if gap.kind == "removed" else gap.observed
        ops.append(Op(_VERBS[gap.kind], path, value))
    return ops
