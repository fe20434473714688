"""A graph of exchanges, drawn (pure): a row for each, moved in by how far it is from what it followed
from."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from reenact.exchange.comparison.correlating import Edge, Graph, Node
from reenact.server.pages.markup import Html, fragment, link, tag, url
from reenact.server.pages.saying import clock, duration, ending_class
from reenact.server.pages.waterfall import waterfall

__all__ = ["drawing", "rows_of"]

_IN: Final = 36
_HIGH: Final = 46
_GAP: Final = 16
_WIDE: Final = 290
_LEFT: Final = 24
_DEEPEST: Final = 12
_LETTERS: Final = 44
_TOOK: Final = 74
"""Room for how long it took."""
_TIE: Final = 20

Placed = dict[str, tuple[int, int]]


def rows_of(found: Graph) -> list[tuple[int, Node]]:
    """Every node once, below what it followed from, with its depth."""
    nodes = {node.exchange_id: node for node in found.nodes}
    below: defaultdict[str, list[str]] = defaultdict(list)
    led: set[str] = set()
    for edge in found.edges:
        if edge.kind != "correlation" and {edge.source, edge.target} <= nodes.keys():
            below[edge.source].append(edge.target)
            led.add(edge.target)
    order = sorted(nodes.values(), key=lambda node: (node.started_at, node.exchange_id))
    tops = [node.exchange_id for node in order if node.exchange_id not in led]
    seen: dict[str, int] = {}
    waiting = [(0, one) for one in reversed([*tops, *(node.exchange_id for node in order)])]
    while waiting:
        depth, one = waiting.pop()
        if one in seen:
            continue
        seen[one] = depth
        after = sorted(below[one], key=lambda name: nodes[name].started_at, reverse=True)
        waiting += [(min(depth + 1, _DEEPEST), name) for name in after]
    return [(depth, nodes[one]) for one, depth in seen.items()]


def drawing(found: Graph, here: str) -> Html:
    """An SVG with links, and beside it when each of them was."""
    rows = rows_of(found)
    tops = [8 + row * (_HIGH + _GAP) for row in range(len(rows))]
    places: Placed = {
        node.exchange_id: (_LEFT + depth * _IN, top)
        for top, (depth, node) in zip(tops, rows, strict=True)
    }
    boxes = _boxes(found, rows, places, here)
    beside = waterfall(found, [node for _, node in rows], tops, _HIGH)
    return tag("div", boxes, beside, class_="drawing")


def _boxes(found: Graph, rows: list[tuple[int, Node]], places: Placed, here: str) -> Html:
    width = max((x for x, _ in places.values()), default=0) + _WIDE + 8
    height = len(rows) * (_HIGH + _GAP) + 8
    return tag(
        "svg",
        tag("title", "Exchanges that belong together"),
        *(_edge(one, places) for one in found.edges if one.kind != "correlation"),
        *(_tie(one, other, places) for one, other in _ties(found, rows)),
        *(_node(node, places[node.exchange_id], node.exchange_id == here) for _, node in rows),
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        role="group",
        class_="graph",
    )


def _edge(edge: Edge, places: Placed) -> Html | None:
    if edge.source not in places or edge.target not in places:
        return None
    (x, y), (to_x, to_y) = places[edge.source], places[edge.target]
    down = x + (24 if edge.kind == "replay_of" else 14)  # one beside the other
    way = f"M{down} {y + _HIGH} V{to_y + _HIGH // 2} H{to_x}"
    return tag("path", d=way, class_=f"edge {edge.kind}")


def _ties(found: Graph, rows: list[tuple[int, Node]]) -> list[tuple[str, str]]:
    """What is tied by correlation alone, by the tops of both: below a top everything is tied anyway."""
    tops: dict[str, str] = {}
    top = ""
    for depth, node in rows:
        top = top if depth else node.exchange_id
        tops[node.exchange_id] = top
    order = {name: number for number, name in enumerate(tops)}
    pairs: dict[tuple[str, str], None] = {}
    for edge in found.edges:
        if edge.kind == "correlation" and {edge.source, edge.target} <= tops.keys():
            one, other = sorted((tops[edge.source], tops[edge.target]), key=order.__getitem__)
            if one != other:
                pairs[one, other] = None
    return [*pairs]


def _tie(one: str, other: str, places: Placed) -> Html:
    (x, y), (to_x, to_y) = places[one], places[other]
    start, end = y + _HIGH // 2, to_y + _HIGH // 2
    way = f"M{x} {start} H{x - _TIE} V{end} H{to_x}"
    return tag("path", d=way, class_="edge correlation")


def _node(node: Node, place: tuple[int, int], here: bool) -> Html:
    x, y = place
    where = f"{node.app} · {node.environment}"
    took = duration(node.duration)
    status = f"{node.status} {node.http_status}" if node.http_status >= 400 else node.status
    words = [node.verdict, "" if node.verdict and status == "completed" else status]
    what = ", ".join(filter(None, words))
    what = f"replay: {what}" if node.replay_id else what
    kind = "here" if here else ""
    inner = _WIDE - 18
    box = tag(
        "rect",
        x=x,
        y=y,
        width=_WIDE,
        height=_HIGH,
        rx=6,
        class_=f"node {kind} {ending_class(node.status, node.http_status)}",
    )
    inside = fragment(
        tag("title", f"{node.route_id}, {where}, {took}, {what}, {clock(node.started_at)} UTC"),
        box,
        tag(
            "svg",
            tag(
                "svg",
                tag("text", _cut(node.route_id, _LETTERS), y=19, class_="name"),
                width=inner - _TOOK,
                height=_HIGH,
                aria_hidden="true",
            ),
            tag("text", took, x=inner - 6, y=19, text_anchor="end", class_="dim"),
            tag("text", _cut(f"{where} · {what}", _LETTERS), y=36, class_="dim"),
            x=x + 12,
            y=y,
            width=inner,
            height=_HIGH,
            aria_hidden="true",
        ),
    )
    return link(url("/exchanges/{}", node.exchange_id), inside)


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
