"""Plan of a fork: the fork point, the changes at it, and the kinds of calls that go live after it.

The fork point is the first call that is not simply served. A call that is stored as one event is
in the log where it completed. It was requested before the first chunk of its result, before
anything else that its lane did afterwards, and before the calls made inside it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.engine.call import DRAWS, PAIRS, SCHEDULE, SLEEP, Entry
from reenact.engine.request import operation_of
from reenact.errors import UsageError
from reenact.format.event import Data, parse_chunk_delivery
from reenact.format.json_path import Path, join, parse
from reenact.policy.patterns import lazy_pattern

if TYPE_CHECKING:
    from reenact.store.seal import Seal
    from reenact.store.source import SeekableSource

__all__ = [
    "LAST_MODEL_CALL",
    "At",
    "ChangeData",
    "ForkPlan",
    "ForkPoint",
    "ForkPrefix",
    "changed_data",
    "find_fork_point",
    "fork_points",
    "is_call_entry",
    "make_fork_plan",
    "replace_at_path",
    "survey_prefix",
]

LAST_MODEL_CALL = "last-llm"

_STEP = lazy_pattern(r"([a-z][a-z0-9_.-]*):([1-9][0-9]{0,8})")
_ANY = "call"
_PROCESS = "process"


class At(msgspec.Struct, frozen=True):
    """Fork point and options of a forked run: the argument ``fork`` of a session.

    ``at`` is the seq of an event, ``last-llm``, or a step such as ``llm:3``, ``tool:2``, ``call:7``
    (counted from 1 in the order of the log). ``set`` replaces values, by their paths: in the data
    of the event that completed the call (``$.response…``, ``$.result``), and then the recorded
    answer is served so changed; or in what was asked (``$.request…``, ``$.args…``), and then the
    call is made so changed. ``model`` is the one that model requests are sent with from there on.
    ``live`` names the kinds of calls that are made from there on, by default all.
    """

    at: int | str = LAST_MODEL_CALL
    set: Mapping[str, Any] = {}
    model: str | None = None
    live: Sequence[str] | None = None


class ForkPoint(msgspec.Struct, frozen=True, rename="camel"):
    """The call at which a run is forked: the first that is not simply served.

    ``seq`` is the event that opens it, ``closing`` the one that completes it, if any does. Events
    before ``cut`` are enacted and copied.
    """

    seq: int
    cut: int
    lane: str
    position: int
    kind: str
    type: str
    operation: str
    number: int
    of: int
    closing: int | None = None

    def line(self) -> str:
        """``event 41 (llm_request openai/gpt-5), call 3 of 7``."""
        what = " ".join(filter(None, (self.type, self.operation)))
        return f"event {self.seq} ({what}), call {self.number} of {self.of}"

    def is_inside(self, lane: str | None) -> bool:
        """Is the call made inside of ``lane``, the inside of a tool?"""
        return _is_within(self.lane, lane)


def find_fork_point(source: SeekableSource, at: int | str) -> ForkPoint:
    """The call that ``at`` names. Raises :class:`UsageError` when there is none."""
    with closing(source.reopen()) as reader:
        entries, calls = _read_calls(reader)
        if not calls:
            raise UsageError(
                "this recording has no call to fork at", hint="`reenact show` lists what it has"
            )
        point = _point(reader, entries, calls, _chosen(reader, calls, at))
        _check_around(reader, entries, point)
        return point


def fork_points(source: SeekableSource, kind: str) -> list[ForkPoint]:
    """Every call of ``kind`` as a place to fork at."""
    with closing(source.reopen()) as reader:
        entries, calls = _read_calls(reader)
        return [_point(reader, entries, calls, one) for one in calls if _is_of(one, kind)]


def _read_calls(reader: SeekableSource) -> tuple[list[Entry], list[Entry]]:
    """Return all entries of a recording, and those that are calls."""
    from reenact.engine.decision.recorded_calls import RecordedCalls  # most runs are not forked

    script = RecordedCalls(reader)
    entries = script.keep_all()
    script.read_all()
    return entries, [entry for entry in entries if is_call_entry(entry)]


def is_call_entry(entry: Entry) -> bool:
    """Is it something that the program asked and waited for, and no draw?"""
    if entry.type in PAIRS:
        return True
    if entry.type != "nondeterministic" or entry.kind in DRAWS or entry.kind == SLEEP:
        return False
    # A process starts immediately, and its output comes later.
    return not entry.instant or (entry.kind == _PROCESS and bool(entry.operation))


def _chosen(source: SeekableSource, calls: list[Entry], at: int | str) -> Entry:
    if isinstance(at, int) or at.isdecimal():
        return _by_seq(source, calls, int(at))
    if at == LAST_MODEL_CALL:
        models = [one for one in calls if one.kind == "llm"]
        if not models:
            raise _no_step("llm", 0, calls)
        return models[-1]
    step = _STEP.fullmatch(at)
    if step is None:
        raise UsageError(
            f"{at[:64]!r} is no place to fork at",
            hint="the seq of an event, last-llm, or a step: llm:3, tool:2, call:7",
        )
    kind, number = step[1], int(step[2])
    found = [one for one in calls if _is_of(one, kind)]
    if number > len(found):
        raise _no_step(kind, len(found), calls)
    return found[number - 1]


def _is_of(entry: Entry, kind: str) -> bool:
    return kind in (_ANY, entry.kind)


def _no_step(kind: str, there: int, calls: list[Entry]) -> UsageError:
    counts: dict[str, int] = {}
    for one in calls:
        counts[one.kind] = counts.get(one.kind, 0) + 1
    known = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    return UsageError(
        f"the recording has {there or 'no'} call{'' if there == 1 else 's'} of the kind {kind}",
        hint=f"it has: {known}",
    )


def _by_seq(source: SeekableSource, calls: list[Entry], seq: int) -> Entry:
    """The call that event ``seq`` belongs to; for one that belongs to none, the next call."""
    if not 0 < seq <= len(source):
        raise UsageError(
            f"there is no event {seq}", hint=f"the recording has the events 1 to {len(source)}"
        )
    for one in calls:
        if seq in (one.seq, None if one.closing is None else one.closing.seq):
            return one
    event = source.at(seq)
    piece = parse_chunk_delivery(event.data.get("key"), event.data.get("count"))
    if event.data.get("source") == SCHEDULE and piece is not None:
        for one in calls:
            if one.lane == event.lane and one.position == piece[0]:
                return one
    for one in calls:
        if one.seq > seq:
            return one
    raise UsageError(
        f"no call comes after event {seq}", hint=f"the last one begins at event {calls[-1].seq}"
    )


def _point(
    source: SeekableSource, entries: list[Entry], calls: list[Entry], chosen: Entry
) -> ForkPoint:
    completing = chosen.closing
    return ForkPoint(
        seq=chosen.seq,
        cut=chosen.seq if chosen.type in PAIRS else _asked_before(source, entries, chosen),
        lane=chosen.lane,
        position=chosen.position,
        kind=chosen.kind,
        type=chosen.type,
        operation=operation_of(chosen.type, chosen.opening.data),
        number=calls.index(chosen) + 1,
        of=len(calls),
        closing=None if completing is None else completing.seq,
    )


def _asked_before(source: SeekableSource, entries: list[Entry], chosen: Entry) -> int:
    """Return the seq before which a call of one event was requested.

    Such an event is written when the call completes. The call was requested before its first chunk,
    before later calls of its lane, and before calls inside it.
    """
    later = [
        one.seq
        for one in entries
        if (one.lane == chosen.lane and one.position > chosen.position)
        or _is_within(one.lane, chosen.inner)
    ]
    cut = min([chosen.seq, *later])
    return _first_piece(source, chosen, cut) or cut


def _first_piece(source: SeekableSource, call: Entry, before: int) -> int | None:
    """Return the seq of the event of the first chunk that was delivered."""
    from reenact.engine.decision.recorded_calls import summarise_event

    for seq in range(1, before):
        event = source.at(seq)
        if event.lane != call.lane or event.type != "nondeterministic":
            continue
        said = summarise_event(event)
        piece = parse_chunk_delivery(said.key, said.count) if said.source == SCHEDULE else None
        if piece is not None and piece[0] == call.position:
            return seq
    return None


def _is_within(lane: str, inner: str | None) -> bool:
    return inner is not None and (lane == inner or lane.startswith(f"{inner}."))


def _check_around(source: SeekableSource, entries: list[Entry], point: ForkPoint) -> None:
    """Refuse a point inside a process, whose earlier output cannot be taken back."""
    around = [one for one in entries if one.type not in PAIRS and point.is_inside(one.inner)]
    for one in around:
        if _first_piece(source, one, point.cut) is not None:
            raise UsageError(
                f"{point.line()} lies inside the process {one.operation} of event {one.seq}, "
                "which had said something before it: that cannot be enacted while it runs again",
                hint=f"fork at the process itself: --at {one.seq}",
            )


class ForkPrefix(msgspec.Struct, frozen=True):
    """Events before the fork point: ``counts`` of positions and ``models`` by lane.

    ``begun`` are the streams, by lane and position, with the number of chunks delivered before the
    point.
    """

    counts: Counter[str]
    models: Counter[str]
    begun: frozenset[tuple[str, int]]


def survey_prefix(events: Iterable[Any], cut: int) -> ForkPrefix:
    """Look through the ``events`` before ``cut``."""
    from reenact.engine.decision.recorded_calls import summarise_event

    counts: Counter[str] = Counter()
    models: Counter[str] = Counter()
    begun: set[tuple[str, int]] = set()
    for event in events:
        if event.seq >= cut:
            break
        if event.type != "nondeterministic":
            if event.type in PAIRS or (
                event.type == "state_mutation" and summarise_event(event).aside is not True
            ):
                counts[event.lane] += 1
            if event.type == "llm_request":
                models[event.lane] += 1
            continue
        said = summarise_event(event)
        if said.source == SCHEDULE:
            piece = parse_chunk_delivery(said.key, said.count)
            if piece is not None:
                begun.add((event.lane, piece[0]))
        elif said.aside is not True:
            several = said.count if type(said.count) is int else 1
            counts[event.lane] += several
    return ForkPrefix(counts, models, frozenset(begun))


ChangeData = Callable[[Data, Path, Any], Data]
"""The data of a completing event with another value at a path: whole and consistent."""

_ASKED = frozenset({"request", "args"})
_SHOWN = 8


class ForkPlan(msgspec.Struct, frozen=True):
    """``answer`` is the data of the completing event that is served at the point, if that is
    changed; ``asked`` are the changes of what is asked there, by path. ``changed`` are all paths."""

    point: ForkPoint
    answer: Data | None = None
    asked: dict[Path, Any] = {}
    changed: tuple[str, ...] = ()
    model: str | None = None
    live: frozenset[str] | None = None


def make_fork_plan(
    source: SeekableSource, at: At, seal: Seal | None, alter: ChangeData
) -> ForkPlan:
    """Find the point, and make the changed answer. Raises :class:`UsageError` for places and paths
    that there are not."""
    point = find_fork_point(source, at.at)
    paths = {parse(text): value for text, value in at.set.items()}
    asked = {path: value for path, value in paths.items() if path[:1] and path[0] in _ASKED}
    if asked and len(asked) < len(paths):
        raise UsageError(
            "either what is asked is changed, or the answer",
            hint="leave out $.request… and $.args…, or all other paths",
        )
    opening = source.at(point.seq)
    for path, value in asked.items():
        replace_at_path(opening.data, path, value)  # refuses a path that leads nowhere
    answer = None
    if paths and point.kind == "process":
        raise UsageError(
            "what a process said cannot be changed, nor how it is started",
            hint="fork at it, and change the program; or fork at a call of another kind",
        )
    if paths and not asked:
        answer = _answer(source, point, seal)
        for path, value in paths.items():
            answer = alter(answer, path, value)
    return ForkPlan(
        point=point,
        answer=answer,
        asked=asked,
        changed=tuple(map(join, paths)),
        model=at.model,
        live=None if at.live is None else frozenset(at.live),
    )


def _answer(source: SeekableSource, point: ForkPoint, seal: Seal | None) -> Data:
    if point.closing is None:
        raise UsageError(
            f"the call of event {point.seq} was never answered: there is nothing to change",
            hint="leave --set out: the call goes live",
        )
    return dict(source.restored(source.at(point.closing), seal).data)


def replace_at_path(value: Any, path: Path, new: Any, done: Path = ()) -> Any:
    """``value`` with ``new`` at ``path``. A text that holds JSON can be looked into. Raises
    :class:`UsageError` for a path that leads nowhere, with the nearest that there is."""
    if not path:
        return new
    step, *rest = path
    if isinstance(value, str):
        return _in_text(value, path, new, done)
    known = isinstance(value, dict if isinstance(step, str) else list)
    if known and isinstance(step, int) and not 0 <= step < len(value):
        known = False
    if not known or (isinstance(step, str) and step not in value):
        raise _leads_nowhere((*done, *path), done, value)
    changed = value.copy()
    changed[step] = replace_at_path(value[step], tuple(rest), new, (*done, step))
    return changed


def _in_text(value: str, path: Path, new: Any, done: Path) -> str:
    try:
        held = json.loads(value)
    except ValueError:
        held = None
    if not isinstance(held, (dict, list)):
        raise _leads_nowhere((*done, *path), done, value)
    return json.dumps(
        replace_at_path(held, path, new, done), ensure_ascii=False, separators=(",", ":")
    )


def _leads_nowhere(path: Path, there: Path, value: Any) -> UsageError:
    hint = f"the nearest that there is: {join(there)}"
    if isinstance(value, dict):
        names = ", ".join(list(map(str, value))[:_SHOWN])
        hint += f" with {names}" if names else " (empty)"
    elif isinstance(value, list):
        hint += f" with {len(value)} items"
    return UsageError(f"the path {join(path)} leads nowhere", hint=hint)


def changed_data(data: Data, path: Path, value: Any) -> Data:
    """Variant of :data:`Alter` for data without derived fields."""
    changed: Data = replace_at_path(data, path, value)
    return changed
