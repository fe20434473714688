"""What belongs together: the graph across apps, and the tree of replays."""

from __future__ import annotations

from typing import Any

import msgspec

from reenact.exchange.related_exchanges import DEEPEST, Branch, Node, graph, node_of, tree
from tests.unit.exchange.comparison.samples import exchange


def _node(name: str, at: int = 0, **more: Any) -> Node:
    return Node(exchange_id=name, started_at=at, **more)


def _edges(nodes: list[Node], **more: Any) -> set[tuple[str, str, str]]:
    return {(one.kind, one.source, one.target) for one in graph(nodes, **more).edges}


def test_callers_replays_and_correlated_ones_are_linked() -> None:
    nodes = [
        _node("shop", 1, trace_id="t", span_id="s1", correlation_id="order-7"),
        _node("pay", 2, trace_id="t", span_id="s2", parent_span_id="s1"),
        _node("again", 3, trace_id="u", span_id="s1", replay_of="shop", correlation_id="order-7"),
        _node("mail", 4, trace_id="v", span_id="s1", correlation_id="order-7"),
        _node("other", 5, trace_id="w", span_id="s9", parent_span_id="gone"),
    ]
    assert _edges(nodes) == {
        ("parent", "shop", "pay"),
        ("replay_of", "shop", "again"),
        ("correlation", "shop", "again"),
        ("correlation", "again", "mail"),
    }
    whole = graph(nodes)
    assert [one.exchange_id for one in whole.nodes if one.orphan] == ["other"]
    near = graph(nodes, "pay")
    assert [one.exchange_id for one in near.nodes] == ["shop", "pay", "again", "mail"]


def test_rings_and_selves_are_no_matter() -> None:
    nodes = [
        _node("a", trace_id="t", span_id="1", parent_span_id="2", replay_of="b"),
        _node("b", trace_id="t", span_id="2", parent_span_id="1", replay_of="a"),
        _node("c", trace_id="t", span_id="3", parent_span_id="3", replay_of="c"),
    ]
    assert len(graph(nodes, "a").nodes) == 2
    assert len(_edges(nodes)) == 4
    assert tree(nodes, "a").exchange_id in ("a", "b")


def test_a_graph_is_bounded_to_what_is_nearest() -> None:
    nodes = [_node(f"n{n:04}", n, correlation_id="same") for n in range(2_000)]
    found = graph(nodes, "n1000", most=11)
    assert found.truncated
    assert {one.exchange_id for one in found.nodes} == {f"n{n:04}" for n in range(995, 1006)}
    assert len(found.edges) == 10
    assert not graph(nodes, most=2_000).truncated


def test_the_node_of_an_exchange() -> None:
    found = node_of(exchange(divergences=[{}]), app="shop", verdict="diverged")
    assert (found.exchange_id, found.replay_of, found.replay_id) == ("x-1", "x-0", "r-1")
    assert (found.app, found.verdict) == ("shop", "diverged")


def _drawn(branch: Branch) -> Any:
    return {branch.exchange_id: [_drawn(one) for one in branch.replays]}


def test_replays_of_replays_are_a_tree_whoever_is_asked_for() -> None:
    nodes = [
        _node("x", 0),
        _node("r2", 3, replay_of="x"),
        _node("r1", 2, replay_of="x", verdict="fixed"),
        _node("r11", 4, replay_of="r1"),
        _node("else", 5),
    ]
    for name in ("x", "r2", "r11"):
        assert _drawn(tree(nodes, name)) == {"x": [{"r1": [{"r11": []}]}, {"r2": []}]}
    assert tree(nodes, "x").replays[0].verdict == "fixed"


def test_an_original_that_is_gone_is_shown_as_missing() -> None:
    found = tree([_node("r1", replay_of="gone")], "r1")
    assert (found.exchange_id, found.missing) == ("gone", True)
    assert _drawn(found) == {"gone": [{"r1": []}]}
    assert tree([], "nobody").missing


def test_a_tree_is_bounded() -> None:
    wide = [_node("x"), *(_node(f"r{n}", n + 1, replay_of="x") for n in range(1_500))]
    found = tree(wide, "x")
    assert (len(found.replays), found.hidden) == (999, 501)
    deep = [_node("0"), *(_node(str(n), replay_of=str(n - 1)) for n in range(1, 5_000))]
    msgspec.json.encode(found := tree(deep, "0"))
    for _ in range(DEEPEST):
        (found,) = found.replays
    assert (found.replays, found.hidden) == ((), 1)
