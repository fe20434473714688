"""Calls as bars: what they are called, when they were, and how they ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact.format.event import Draft
from reenact.store.reader import open_recording
from reenact.views.recorded_calls import read_run
from reenact.views.timeline.model import Extent, Span, TimeRange, nested, read_spans
from tests.unit.store.samples import NOW, draft, start_sink


def _bars(path: Path, *drafts: Draft, diverged: tuple[int, ...] = ()) -> list[Span]:
    sink = start_sink(path)
    for one in drafts:
        sink.append(one)
    sink.finalize()
    with open_recording(path) as source:
        steps = read_run(source)
        return read_spans((step for lane in steps.lanes.values() for step in lane), diverged)


def _fetched(url: str = "https://a.example/x", **more: Any) -> Draft:
    data = {"source": "network", "request": {"method": "GET", "url": url}, **more}
    return draft("nondeterministic", data, ts=NOW + 500)


@pytest.mark.parametrize(
    "made, label",
    [
        (_fetched(), "GET /x"),
        (_fetched("https://a.example/%E5%A4%A9?key=1"), "GET /天"),
        (_fetched("https://a.example"), "GET a.example"),
        (_fetched("http://[bad"), "GET http://[bad"),
        (_fetched("https://a.example/" + "y" * 999), "GET /" + "y" * 195),
        (draft("tool_call", {"name": "search", "callId": "c"}), "search"),
        (draft("llm_request", {"provider": "example", "model": "org/large"}), "large"),
        (draft("state_mutation", {"type": "memory"}), "memory"),
        (draft("nondeterministic", {"source": "process", "op": "git", "request": {}}), "git"),
        (draft("nondeterministic", {"source": "network", "request": ["odd"]}), "network"),
    ],
)
def test_what_it_is_called(made: Draft, label: str, tmp_path: Path) -> None:
    (bar,) = _bars(tmp_path / "run", made)
    assert bar.label == label


@pytest.mark.parametrize(
    "data, state",
    [
        ({"response": {"status": 200}}, "done"),
        ({"response": {"status": 404}}, "failed"),
        ({"response": {"status": 404}, "ended": "abandoned"}, "failed"),
        ({"response": {"status": 200}, "ended": "abandoned"}, "cut"),
        ({"response": {"exitCode": 1}}, "failed"),
        ({"response": {"exitCode": 0}}, "done"),
        ({"error": {"class": "builtins.OSError"}}, "failed"),
        ({"cancelled": True, "ok": False}, "cut"),
        ({"response": ["odd"]}, "done"),
    ],
)
def test_how_it_ended(data: dict[str, Any], state: str, tmp_path: Path) -> None:
    (bar,) = _bars(tmp_path / "run", _fetched(**data))
    assert bar.state == state


def test_when_it_was(tmp_path: Path) -> None:
    timed, untimed, opened = _bars(
        tmp_path / "run",
        _fetched(timing={"offsets": [10, 300]}),
        _fetched(timing={"turns": 3}),
        draft("tool_call", {"name": "search", "callId": "c"}, ts=NOW + 900),
        diverged=(2,),
    )
    assert (timed.start, timed.end, timed.timed) == (NOW + 200, NOW + 500, True)
    assert (untimed.start, untimed.end, untimed.timed) == (NOW + 500, NOW + 500, False)
    assert (opened.start, opened.end, opened.state) == (NOW + 900, NOW + 900, "open")
    assert [bar.diverged for bar in (timed, untimed, opened)] == [False, True, False]


def test_a_call_of_two_events_lasts_from_the_one_to_the_other(tmp_path: Path) -> None:
    (bar,) = _bars(
        tmp_path / "run",
        draft("run_start", {"input": "x"}),
        draft("tool_call", {"name": "search", "callId": "c"}, ts=NOW + 100),
        draft("tool_result", {"callId": "c", "ok": False}, ts=NOW + 400),
        draft("run_end", {"status": "ok"}, ts=NOW + 500),
        diverged=(3,),
    )
    assert (bar.seq, bar.closed, bar.start, bar.end) == (2, 3, NOW + 100, NOW + 400)
    assert (bar.state, bar.diverged) == ("failed", True)


def test_extent_is_clamped_to_the_range_and_stays_visible() -> None:
    period = TimeRange(100.0, 200.0)
    assert period.extent(150.0, 175.0) == Extent(0.5, 0.25)
    assert period.extent(50.0, 150.0) == Extent(0.0, 1.0)
    assert period.extent(175.0, 500.0) == Extent(0.75, 0.25)
    assert period.extent(200.0, 200.0) == Extent(0.996, 0.004)


def test_nested_items_follow_their_parent_and_a_cycle_is_cut() -> None:
    below = {"a": ["b", "c"], "b": ["d"], "c": ["a"], "d": []}
    found = [*nested(["a", "c"], below.__getitem__, deepest=1)]
    assert found == [(0, "a"), (1, "b"), (1, "d"), (1, "c")]
