"""When the exchanges of a graph were: bars in the time of the one that began it all."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reenact.exchange.related_exchanges import Edge, Graph, Node
from reenact.server.web.exchanges.related import waterfall

HIGH = 46


def node(name: str, at: int, duration: float, **more: Any) -> Node:
    return Node(exchange_id=name, started_at=at, duration=duration, **more)


def bars(*nodes: Node, edges: tuple[Edge, ...] = ()) -> list[tuple[float, float, str]]:
    """Of each its place and width in thousandths, and its kind."""
    tops = [8 + row * 62 for row in range(len(nodes))]
    html = str(waterfall(Graph(nodes, edges), nodes, tops, HIGH))
    found = re.findall(
        r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)" height="14" class="(\w+)">', html
    )
    return [(float(x), float(width), kind) for x, width, kind in found if kind != "track"]


def test_a_call_stands_in_the_time_of_its_caller() -> None:
    edges = (Edge("parent", "a", "b"), Edge("parent", "b", "c"))
    found = bars(
        node("a", 1_000, 200.0),
        node("b", 1_050, 100.0, status="failed"),
        node("c", 1_100, 20.0),
        edges=edges,
    )
    assert found == [(0, 1_000, "went"), (250, 500, "failed"), (500, 100, "went")]


def test_what_was_another_time_begins_anew() -> None:
    edges = (Edge("replay_of", "a", "r"), Edge("correlation", "a", "z"))
    found = bars(node("a", 1_000, 10.0), node("r", 90_000, 50.0), node("z", 5, 1.0), edges=edges)
    assert found == [(0, 1_000, "went")] * 3


def test_a_caller_that_did_not_wait_does_not_push_it_out() -> None:
    found = bars(node("a", 1_000, 10.0), node("b", 1_080, 20.0), edges=(Edge("parent", "a", "b"),))
    assert found == [(0, 100, "went"), (800, 200, "went")]


@pytest.mark.parametrize("start, duration", [(0, 5.0), (1_000, 0.0), (1_010, 0.0), (10**15, 1.0)])
def test_clocks_that_differ_stay_inside(start: int, duration: float) -> None:
    for x, width, _ in bars(
        node("a", 1_000, 10.0), node("b", start, duration), edges=(Edge("parent", "a", "b"),)
    ):
        assert 0 <= x < x + width <= 1_000


def test_callers_in_a_circle_come_to_an_end() -> None:
    edges = (Edge("parent", "a", "b"), Edge("parent", "b", "a"), Edge("parent", "b", "c"))
    assert len(bars(node("a", 1, 1.0), node("b", 2, 1.0), node("c", 3, 1.0), edges=edges)) == 3


def test_nothing_is_nothing() -> None:
    assert bars() == []
