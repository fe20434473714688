"""The recorded calls that look most like what is asked for."""

from __future__ import annotations

from typing import Any

from reenact.engine.divergence.nearest_calls import MAX_COMPARED, MAX_RANKED, find_nearest_calls
from reenact.format.canonical import exact
from reenact.format.event import Event, Head
from reenact.policy.matching import Rules
from tests.unit.engine.recorded import Desk, event, tool


def best(loop_scheduler: Desk, asked: Any, *events: Event, used: tuple[int, ...] = ()) -> list[int]:
    candidates = [(one, one.seq in used) for one in events]
    return [
        one.event.seq
        for one in find_nearest_calls(
            loop_scheduler.ask_tool("search", asked), loop_scheduler.comparer, candidates
        )
    ]


def test_the_same_call_comes_first_and_has_the_score_one() -> None:
    loop_scheduler = Desk()
    events = [tool(1, "search", {"q": "xx"}), tool(2, "search", {"q": "x"}, "0.3")]
    found = find_nearest_calls(
        loop_scheduler.ask_tool("search", {"q": "x"}),
        loop_scheduler.comparer,
        [(e, False) for e in events],
    )
    assert [(one.event.seq, one.score) for one in found] == [(2, 1.0), (1, 0.971)]
    assert found[0].differing == []


def test_the_same_operation_before_others_then_what_is_most_alike() -> None:
    args = {"q": "the weather in Paris", "n": 5}
    assert best(
        Desk(),
        args,
        tool(1, "find", args),
        tool(2, "search", {"q": "nothing of the kind", "page": [1, 2, 3]}),
        tool(3, "search", {**args, "n": 6}),
        tool(4, "search", {**args, "q": "the weather in Rome"}),
    ) == [3, 4, 2]


def test_other_operations_only_when_much_is_alike() -> None:
    args = {"q": "the weather in Paris", "n": 5}
    assert best(Desk(), args, tool(1, "find", args), tool(2, "find", {"other": "x" * 80})) == [1]


def test_other_types_do_not_count() -> None:
    data = {"name": "search", "args": {"q": "x"}}
    assert best(Desk(), {"q": "x"}, event(1, "llm_request", data), event(2, "x_note", data)) == []


def test_of_two_alike_the_unused_one_then_the_earlier_one() -> None:
    events = [tool(seq, "search", {"q": "y"}) for seq in (1, 2, 3, 4)]
    assert best(Desk(), {"q": "x"}, *events, used=(1, 2)) == [3, 4, 1]


def test_ignored_places_do_not_count() -> None:
    loop_scheduler = Desk(Rules(ignore_paths=("$.args.id",)))
    found = find_nearest_calls(
        loop_scheduler.ask_tool("search", {"q": "x", "id": 1}),
        loop_scheduler.comparer,
        [(tool(1, "search", {"q": "x", "id": 2}), False)],
    )
    assert [one.score for one in found] == [1.0]


def test_the_event_that_is_shown_anyway_is_left_out() -> None:
    loop_scheduler = Desk()
    events = [(tool(seq, "search", {"q": "y"}), False) for seq in (1, 2)]
    found = find_nearest_calls(
        loop_scheduler.ask_tool("search", {"q": "x"}), loop_scheduler.comparer, events, but=1
    )
    assert [one.event.seq for one in found] == [2]


def test_an_event_that_is_no_object_is_passed_over() -> None:
    head = Head(version=1, capture_id="c", run_id="r", seq=1, ts=0, type="tool_call")
    odd = Event(head, b'["search"]', lambda _seq, stored: stored)
    assert best(Desk(), {"q": "x"}, odd, tool(2, "search", {"q": "x"})) == [2]


class _Counted:
    """Counts how often the payloads of its events are read."""

    def __init__(self) -> None:
        self.reads: dict[int, int] = {}

    def event(self, seq: int, data: bytes) -> Event:
        head = Head(version=1, capture_id="c", run_id="r", seq=seq, ts=0, type="tool_call")
        return Event(head, data, self._whole)

    def _whole(self, seq: int, stored: bytes) -> bytes:
        self.reads[seq] = self.reads.get(seq, 0) + 1
        return stored


def _data(seq: int, text: str, key: str) -> dict[str, Any]:
    return {"args": {"q": f"{seq} {text}"}, "key": key, "name": "search"}


def test_of_ten_thousand_large_candidates_fifty_are_compared() -> None:
    counted = _Counted()
    text = "word " * 2_000
    loop_scheduler = Desk()
    ask = loop_scheduler.ask_tool("search", {"q": f"77 {text}"})
    candidates = [
        (counted.event(seq, exact(_data(seq, text, ask.key if seq == 77 else ""))), False)
        for seq in range(1, MAX_RANKED + 500)
    ]
    found = find_nearest_calls(ask, loop_scheduler.comparer, candidates)
    assert (found[0].event.seq, found[0].score) == (77, 1.0)
    assert len(found) == 3
    assert len(counted.reads) == MAX_RANKED
    assert sum(times > 1 for times in counted.reads.values()) == MAX_COMPARED
    assert all(one.event._data is None for one in found)
