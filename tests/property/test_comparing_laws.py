"""Two runs side by side, found quickly, are what comparing all calls in full gives."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reenact.diff.sequences import align
from reenact.engine.call import DRAWS
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.format.event import Event, lane_order
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction.redactor import Redactor
from reenact.store.sinks.memory import MemorySource, memory_source
from reenact.views.compare import Change, Comparison
from reenact.views.content import ContentReader
from reenact.views.recorded_calls import RecordedCall, read_run

RULES = Rules(ignore_paths=("$..at",))
KINDS = ["get", "tool", "ask", "open", "state", "draw", "when", "late"]
CALLS = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(["0", "0.1", "0.2", "0.1.1"]),
    st.integers(0, 2),
    st.integers(0, 1),
)
RUNS = st.lists(CALLS, max_size=12)
Lines = list[tuple[str, dict[str, Any], str]]
Said = list[tuple[str, int | None, int | None]]


def _events(kind: str, lane: str, word: int, noise: int) -> Lines:
    """A call that says ``word``; ``noise`` is what does not count, and is in all that it can be."""
    what = f"word {word}"
    if kind in ("get", "late"):
        request = {"method": "GET", "url": f"http://x.example/{word % 2}", "body": what}
        headers = [["date", str(noise)], ["content-type", "application/json"]]
        body = json.dumps({"word": word, "at": noise})
        response = {"status": 200, "headers": headers, "body": body}
        place = {"position": 0} if kind == "late" else {}
        data = {"source": "network", "op": "GET", "request": request, "response": response, **place}
        return [("nondeterministic", {**data, "timing": {"offsets": [noise]}}, lane)]
    if kind == "tool":
        given = {"name": f"tool{word % 2}", "args": [what], "callId": f"c{noise}"}
        gave = {"result": {"at": noise, "word": word}, "volatile": ["$.result.at"]}
        return [("tool_call", given, lane), ("tool_result", {**gave, "callId": f"c{noise}"}, lane)]
    if kind in ("ask", "open"):
        return _asked(lane, word, noise)[: 1 if kind == "open" else 2]
    if kind == "state":
        return [("state_mutation", {"type": "file_write", "details": {"path": what}}, lane)]
    if kind == "draw":
        return [("nondeterministic", {"source": "clock", "key": "time", "value": noise}, lane)]
    return [("nondeterministic", {"source": "schedule", "key": "x"}, lane)]


def _asked(lane: str, word: int, noise: int) -> Lines:
    """A model call; the id of the tool call that it asks for is said by other calls, too."""
    function = {"name": f"tool{word}", "arguments": "{}"}
    message = {"content": None, "tool_calls": [{"id": f"word {noise}", "function": function}]}
    body = {"model": "m", "messages": [{"role": "user", "content": f"word {word}"}]}
    url = "https://api.openai.com/v1/chat/completions"
    request = {"method": "POST", "url": url, "body": body}
    text = json.dumps({"id": str(noise), "choices": [{"message": message}]})
    response = {"status": 200, "headers": [["content-type", "application/json"]], "body": text}
    asked = {"lens": "openai-chat", "provider": "openai", "model": "m", "request": request}
    return [("llm_request", asked, lane), ("llm_response", {"response": response}, lane)]


def _recording(calls: Iterable[tuple[str, str, int, int]]) -> MemorySource:
    lines = [line for call in calls for line in _events(*call)]
    return memory_source(("run_start", {"argv": ["x"]}), *lines, ("run_end", {"status": "ok"}))


class _Slow:
    """Everything in full: each call of both runs is said, and known by what it says."""

    def __init__(self, one: MemorySource, other: MemorySource) -> None:
        self.speaker = ContentReader()
        self.comparer = Comparer(RULES, Redactor("none"))
        self.runs = [_lanes(one), _lanes(other)]
        for run in self.runs:
            answered = [step for lane in run.values() for step in lane if step.closing is not None]
            for step in sorted(answered, key=lambda step: step.closing.seq if step.closing else 0):
                self.speaker.learn(step)

    def key(self, step: RecordedCall) -> str:
        return self.comparer.key(self.speaker.of(step))

    def pairs(self) -> list[tuple[str | None, str | None]]:
        found: list[tuple[str | None, str | None]] = []
        waiting: list[tuple[str | None, str | None]] = [("", "")]
        while waiting:
            here = waiting.pop(0)
            found += [here] if any(here) else []
            sides = [
                [] if name is None else _children(run, name)
                for name, run in zip(here, self.runs, strict=True)
            ]
            waiting += self._siblings(*sides)
        return [(one or None, other or None) for one, other in found]

    def _siblings(self, mine: list[str], theirs: list[str]) -> Iterable[Any]:
        sides = list(zip((mine, theirs), self.runs, strict=True))
        said = [[tuple(map(self.key, run[name])) for name in names] for names, run in sides]
        for some, others in _blocks(mine, theirs, *said):
            sides = list(zip((some, others), self.runs, strict=True))
            done = [[tuple(map(_label, run[name])) for name in names] for names, run in sides]
            for last, last_others in _blocks(some, others, *done):
                yield from zip_longest(last, last_others)

    def found(self) -> list[tuple[str | None, str | None, int, Said]]:
        """For each pair of lanes how many calls are the same, and what became of the others."""
        lanes = []
        for names in self.pairs():
            mine, theirs = (
                [] if name is None else run[name]
                for name, run in zip(names, self.runs, strict=True)
            )
            keys = [*map(self.key, mine)], [*map(self.key, theirs)]
            blocks = list(_blocks(mine, theirs, *keys))
            is_same = [bool(a and b and self.key(a[0]) == self.key(b[0])) for a, b in blocks]
            apart = [block for block, same in zip(blocks, is_same, strict=True) if not same]
            lanes.append((names, sum(is_same), apart))
        moved = self._moved([block for _, _, apart in lanes for block in apart])
        return [(*names, same, _told(apart, moved)) for names, same, apart in lanes]

    def _moved(self, apart: list[Any]) -> dict[int, int]:
        removed: defaultdict[str, list[int]] = defaultdict(list)
        for steps, _ in apart:
            for step in steps:
                removed[self.key(step)].append(step.seq)
        found: dict[int, int] = {}
        for _, steps in apart:
            for step in steps:
                if removed[self.key(step)]:
                    found[step.seq] = removed[self.key(step)].pop(0)
        return found


def _lanes(source: MemorySource) -> dict[str, list[RecordedCall]]:
    """As they are read for a replay, each lane by the positions that are written there."""
    script = RecordedCalls(source.reopen())
    entries = script.keep_all()
    script.read_all()
    position = {entry.seq: entry.position for entry in entries}
    lanes = read_run(source.reopen()).lanes
    for name, lane in lanes.items():
        marks = [step for step in lane if step.seq not in position]
        calls = [step for step in lane if step.seq in position]
        calls.sort(key=lambda step: position[step.seq])
        first = [step for step in marks if step.kind == "run_start"]
        lanes[name] = [*first, *calls, *[step for step in marks if step not in first]]
    return lanes


def _children(run: dict[str, list[RecordedCall]], above: str) -> list[str]:
    def parent(lane: str) -> str:
        while lane := lane.rpartition(".")[0]:
            if lane in run:
                return lane
        return ""

    return [lane for lane in sorted(run, key=lane_order) if parent(lane) == above]


def _blocks(mine: list[Any], theirs: list[Any], keys: list[Any], others: list[Any]) -> Any:
    left: list[Any] = []
    right: list[Any] = []
    for one, other in align(keys, others):
        if one is not None and other is not None:
            yield from [(left, right)] if left or right else []
            yield [mine[one]], [theirs[other]]
            left, right = [], []
        elif one is not None:
            left.append(mine[one])
        elif other is not None:
            right.append(theirs[other])
    yield from [(left, right)] if left or right else []


def _label(step: RecordedCall) -> tuple[str, ...]:
    url = step.asked.get("request", {}).get("url", "")
    return ("llm",) if step.kind == "llm" else (step.kind, step.name, url)


def _told(apart: list[Any], moved: dict[int, int]) -> Said:
    told: Said = []
    for steps, more in apart:
        left = [step for step in steps if step.seq not in moved.values()]
        right = [step for step in more if step.seq not in moved]
        for one, other in align([*map(_label, left)], [*map(_label, right)]):
            kind = "removed" if other is None else "added" if one is None else "changed"
            seqs = (
                None if one is None else left[one].seq,
                None if other is None else right[other].seq,
            )
            told.append((kind, *seqs))
        told += [("moved", moved[step.seq], step.seq) for step in more if step.seq in moved]
    return told


def _change(change: Change) -> tuple[str, int | None, int | None]:
    one, other = change.one, change.other
    return change.kind, one.seq if one else None, other.seq if other else None


@given(RUNS, RUNS)
def test_what_is_found_quickly_is_what_reading_everything_finds(one: Any, other: Any) -> None:
    first, second = _recording(one), _recording(other)
    quick = [
        (lane.one, lane.other, lane.same, [*map(_change, lane.changes)])
        for lane in Comparison(first.reopen(), second.reopen(), RULES).lanes()
    ]
    assert quick == _Slow(first, second).found()


@given(RUNS, st.lists(st.integers(0, 1), min_size=12, max_size=12))
def test_what_does_not_count_is_no_difference(calls: Any, noise: list[int]) -> None:
    said = [(kind, lane, word) for kind, lane, word, _ in calls if kind not in ("ask", "draw")]
    one = _recording([(*call, 0) for call in said])
    other = _recording([(*call, many) for call, many in zip(said, noise, strict=False)])
    found = list(Comparison(one, other, RULES).lanes())
    assert [lane.changes for lane in found] == [[] for _ in found]


@given(RUNS, RUNS)
def test_the_first_difference_is_where_the_main_lanes_part(one: Any, other: Any) -> None:
    late = ("ask", "open", "late")
    first, second = (
        _recording(call for call in run if call[0] not in late) for run in (one, other)
    )
    told: list[Change] = []
    list(Comparison(first.reopen(), second.reopen(), RULES, first=told.append).lanes())
    slow = _Slow(first, second)
    pairs = zip(*(run["0"] for run in slow.runs), strict=False)
    apart = [(a.seq, b.seq) for a, b in pairs if slow.key(a) != slow.key(b)]
    assert [_change(change)[1:] for change in told] == apart[:1]


@given(RUNS)
def test_draws_are_counted_and_left_out(calls: Any) -> None:
    draws = Counter(kind for kind, *_ in calls)["draw"]
    comparison = Comparison(_recording(calls), _recording([]))
    seen = [seen.kind for lane in comparison.lanes() for seen in _of(comparison, lane.one)]
    assert comparison.left_out == Counter({"clock": draws} if draws else {})
    assert not DRAWS & set(seen)


def _of(comparison: Comparison, lane: str | None) -> list[Any]:
    return [] if lane is None else comparison.one.lanes[lane]


def test_events_are_not_held() -> None:
    source = _recording([("get", "0", 1, 0)] * 3)
    comparison = Comparison(source, _recording([]))
    list(comparison.lanes())
    held = [
        getattr(seen, name) for seen in comparison.one.lanes["0"] for name in seen.__struct_fields__
    ]
    assert not [one for one in held if isinstance(one, Event)]
