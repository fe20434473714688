"""When the exchanges of a graph were, drawn beside it (pure): a bar for each row, in the time of the one
that began it all. A replay was another time, and begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reenact.exchange.comparison.correlating import Graph, Node
from reenact.server.pages.markup import Html, tag
from reenact.server.pages.saying import ending_class

__all__ = ["waterfall"]

_WIDE: Final = 1_000
_LEAST: Final = 4.0
_THICK: Final = 14


def waterfall(found: Graph, rows: Sequence[Node], tops: Sequence[int], high: int) -> Html:
    """An SVG as high as the drawing, and as wide as there is room. ``tops`` are where the rows of the
    drawing begin, and each is ``high``. For the eye alone: the table says it in words."""
    begun = _begun(found)
    ends: dict[str, float] = {}
    for node in rows:
        top = begun[node.exchange_id]
        ended = node.started_at + node.duration
        ends[top.exchange_id] = max(ends.get(top.exchange_id, 0.0), ended)
    height = (tops[-1] if tops else 0) + high + 8
    bars = (
        _bar(node, begun[node.exchange_id], ends[begun[node.exchange_id].exchange_id], y, high)
        for node, y in zip(rows, tops, strict=True)
    )
    return tag(
        "svg",
        *bars,
        viewBox=f"0 0 {_WIDE} {height}",
        height=height,
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="waterfall",
    )


def _begun(found: Graph) -> dict[str, Node]:
    """By id: the one without a caller that it goes back to. Callers that go round in a circle begin
    with themselves."""
    nodes = {node.exchange_id: node for node in found.nodes}
    callers = {
        edge.target: edge.source
        for edge in found.edges
        if edge.kind == "parent" and {edge.source, edge.target} <= nodes.keys()
    }
    begun: dict[str, Node] = {}
    for one in nodes:
        way = [one]
        while (caller := callers.get(way[-1])) is not None and caller not in way:
            way.append(caller)
        begun[one] = nodes[way[-1] if caller is None else one]
    return begun


def _bar(node: Node, top: Node, end: float, y: int, high: int) -> Html:
    """Clocks of two machines differ: what would lie outside begins at the edge."""
    whole = max(end - top.started_at, 0.001)
    start = min(max((node.started_at - top.started_at) / whole, 0.0), 1.0) * _WIDE
    width = max(min(node.duration / whole * _WIDE, _WIDE - start), _LEAST)
    middle = y + (high - _THICK) // 2
    track = tag("rect", x=0, y=middle, width=_WIDE, height=_THICK, class_="track")
    bar = tag(
        "rect",
        x=f"{min(start, _WIDE - _LEAST):.1f}",
        y=middle,
        width=f"{width:.1f}",
        height=_THICK,
        class_=ending_class(node.status, node.http_status),
    )
    return Html(track + bar)
