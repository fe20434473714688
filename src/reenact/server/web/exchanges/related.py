"""Related exchanges: the correlation graph with a waterfall, and the tree of replays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from reenact.exchange.related_exchanges import Branch, Edge, Graph, Node
from reenact.server.context import RequestContext
from reenact.server.exchanges.service import read_correlation, read_lineage
from reenact.server.tenants.service import environment_kinds
from reenact.server.web.components.formatting import (
    badge,
    clock,
    duration,
    ending_class,
    environment,
    exchange_status,
    folded,
    stamp,
    verdict_tone,
    whole,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import page
from reenact.server.web.components.tables import table
from reenact.server.web.exchanges.timeline import SVG_WIDTH, span_bar
from reenact.views.timeline.model import Extent, TimeRange, nested

__all__ = [
    "drawing",
    "rows_of",
    "show_related",
    "waterfall",
]


async def show_related(context: RequestContext) -> Response:
    """Handle ``GET /exchanges/{id}/related``: show related exchanges that the user can read."""
    here = context.path("id")
    found, lineage = await read_correlation(context, here), await read_lineage(context, here)
    kinds = await environment_kinds(context)
    heads = ("Started (UTC)", "Route", "App", "Environment", "Status", "Duration")
    rows: list[tuple[Child, ...]] = [
        (
            stamp(node.started_at),
            link(url("/exchanges/{}", node.exchange_id), node.route_id, class_="route"),
            whole(node.app),
            environment(node.environment, kinds.get(node.environment, "production")),
            exchange_status(node.status, node.http_status),
            duration(node.duration),
        )
        for _, node in rows_of(found)
    ]
    listed = table(
        heads, rows, none="It stands alone.", caption="Exchanges that belong together", brief=True
    )
    return page(
        context,
        _title(found, here),
        tag("p", link(url("/exchanges/{}", here), "Back to the exchange")),
        tag(
            "section",
            tag("h2", "Who called whom"),
            tag("div", drawing(found, here), class_="scroll", tabindex=0),
            tag(
                "p",
                "A line leads from what called to what was called, and from an original to its replays. "
                "Dashed: the same correlation id.",
                tag("span", " Bars: when each was, from the first call on.", class_="of-bars"),
                class_="dim",
            ),
            folded("As a table", listed),
        ),
        _section(lineage, here) if lineage.replays else None,
        here="/exchanges",
    )


def _title(found: Graph, here: str) -> str:
    """Return the title of the page."""
    return next(
        (f"Related to {node.route_id}" for node in found.nodes if node.exchange_id == here),
        "Related",
    )


def _section(lineage: Branch, here: str) -> Html:
    heading = tag("h2", "The original and its replays (UTC)")
    return tag("section", heading, tag("ul", _branch(lineage, here), class_="tree"))


def _branch(branch: Branch, here: str) -> Html:
    mine = branch.exchange_id == here
    said = "Replay" if branch.replay_id else "Original"
    name: Child = fragment(said, " ", tag("code", branch.exchange_id))
    if not branch.missing:
        name = fragment(
            link(
                url("/exchanges/{}", branch.exchange_id),
                said,
                title=branch.exchange_id,
                aria_current="true" if mine else None,
            ),
            " ",
            stamp(branch.started_at),
        )
    below = tag("ul", *(_branch(one, here) for one in branch.replays)) if branch.replays else None
    return tag(
        "li",
        name,
        " ",
        exchange_status(branch.status, branch.http_status)
        if branch.status
        else tag("span", "not here", class_="dim"),
        " ",
        badge(branch.verdict, tone=verdict_tone(branch.verdict, branch.status))
        if branch.verdict
        else None,
        tag("span", f" and {branch.hidden} more", class_="dim") if branch.hidden else None,
        below,
    )


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
    """Return every node once, below the node that it followed from, with its depth."""
    nodes = {node.exchange_id: node for node in found.nodes}
    below: defaultdict[str, list[str]] = defaultdict(list)
    led: set[str] = set()
    for edge in found.edges:
        if edge.kind != "correlation" and {edge.source, edge.target} <= nodes.keys():
            below[edge.source].append(edge.target)
            led.add(edge.target)
    order = sorted(nodes.values(), key=lambda node: (node.started_at, node.exchange_id))
    tops = [node.exchange_id for node in order if node.exchange_id not in led]
    starts = [*tops, *(node.exchange_id for node in order)]  # all of them: some are only in cycles

    def children(one: str) -> list[str]:
        return sorted(below[one], key=lambda name: nodes[name].started_at)

    return [(depth, nodes[one]) for depth, one in nested(starts, children, deepest=_DEEPEST)]


def drawing(found: Graph, here: str) -> Html:
    """Return the graph as an SVG with links, next to a waterfall."""
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
    down = x + (24 if edge.kind == "replay_of" else 14)  # next to each other
    way = f"M{down} {y + _HIGH} V{to_y + _HIGH // 2} H{to_x}"
    return tag("path", d=way, class_=f"edge {edge.kind}")


def _ties(found: Graph, rows: list[tuple[int, Node]]) -> list[tuple[str, str]]:
    """Return pairs of roots that are connected only by correlation.

    Nodes below a root are connected through it.
    """
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


_THICK: Final = 14


def waterfall(found: Graph, rows: Sequence[Node], tops: Sequence[int], high: int) -> Html:
    """Return the waterfall as an SVG next to the graph.

    ``tops`` are the vertical positions of the rows, each ``high`` pixels high. It is
    decorative, because the table contains the same times.
    """
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
        viewBox=f"0 0 {SVG_WIDTH} {height}",
        height=height,
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="waterfall",
    )


def _begun(found: Graph) -> dict[str, Node]:
    """Return the root of each exchange by id, following its callers.

    Exchanges in a cycle of callers are their own roots.
    """
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
    """Return a bar.

    Clocks of two machines differ, so a bar outside the time range starts at its edge.
    """
    period = TimeRange(top.started_at, end)
    extent = period.extent(node.started_at, node.started_at + node.duration)
    tone = ending_class(node.status, node.http_status)
    middle = y + (high - _THICK) // 2
    track = span_bar(Extent(0.0, 1.0), "track", y=middle, height=_THICK)
    return Html(track + span_bar(extent, tone, y=middle, height=_THICK))
