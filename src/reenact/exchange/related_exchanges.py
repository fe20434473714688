"""Graph of related exchanges across apps, and the tree of replays of an exchange.

An edge means that one exchange called the other (``parent``), is a replay of it (``replay_of``), or has
the same correlation id (``correlation``). Exchanges with one correlation id are chained in the order of
their times.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, Literal

import msgspec

from reenact.exchange.model import Exchange

__all__ = [
    "DEEPEST",
    "MOST_NODES",
    "MOST_REPLAYS",
    "Branch",
    "Edge",
    "Graph",
    "Node",
    "graph",
    "node_of",
    "tree",
]

MOST_NODES: Final = 500
"""Maximum number of nodes, nearest to the requested exchange first."""

EdgeKind = Literal["parent", "replay_of", "correlation"]


class Node(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An exchange, in short. ``orphan``: it came from a span that is not here."""

    exchange_id: str
    app: str = ""
    environment: str = ""
    route_id: str = ""
    status: str = ""
    http_status: int = 0
    started_at: int = 0
    duration: float = 0.0
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    correlation_id: str = ""
    replay_of: str = ""
    """The exchange that it is a replay of; empty for an original."""
    replay_id: str = ""
    verdict: str = ""
    orphan: bool = False


class Edge(msgspec.Struct, frozen=True, rename="camel"):
    """From the one that was first to the one that followed from it."""

    kind: EdgeKind
    source: str
    target: str


class Graph(msgspec.Struct, frozen=True, rename="camel"):
    """``truncated``: there are more nodes than are here."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    truncated: bool = False


def node_of(exchange: Exchange, *, app: str = "", environment: str = "", verdict: str = "") -> Node:
    """The node of an exchange."""
    trace, replay = exchange.trace, exchange.replay
    return Node(
        exchange_id=exchange.exchange_id,
        app=app,
        environment=environment,
        route_id=exchange.route_id,
        status=exchange.status,
        started_at=exchange.started_at,
        duration=exchange.duration,
        trace_id=trace.trace_id if trace else "",
        span_id=trace.span_id if trace else "",
        parent_span_id=trace.parent_span_id if trace else "",
        correlation_id=exchange.correlation_id,
        replay_of=replay.source_exchange_id if replay else "",
        replay_id=replay.replay_id if replay else "",
        verdict=verdict,
    )


def graph(nodes: Iterable[Node], focus: str = "", *, most: int = MOST_NODES) -> Graph:
    """Build the graph of ``nodes``, or with ``focus`` of the nearest connected nodes.

    Missing parents and cycles are allowed.
    """
    known = {node.exchange_id: node for node in nodes}
    edges = list(dict.fromkeys(_edges(known)))
    chosen = _near(known, edges, focus) if focus in known else list(known)
    kept = set(chosen[:most])
    called = {edge.target for edge in edges if edge.kind == "parent"}
    shown = sorted((known[one] for one in kept), key=lambda one: (one.started_at, one.exchange_id))
    return Graph(
        tuple(_marked(one, called) for one in shown),
        tuple(edge for edge in edges if edge.source in kept and edge.target in kept),
        len(chosen) > len(kept),
    )


def _marked(node: Node, called: set[str]) -> Node:
    orphan = bool(node.parent_span_id) and node.exchange_id not in called
    return msgspec.structs.replace(node, orphan=True) if orphan else node


def _edges(known: dict[str, Node]) -> Iterator[Edge]:
    spans = {(node.trace_id, node.span_id): node for node in known.values() if node.span_id}
    families: defaultdict[str, list[Node]] = defaultdict(list)
    for node in known.values():
        parent = spans.get((node.trace_id, node.parent_span_id))
        if parent is not None and parent is not node:
            yield Edge("parent", parent.exchange_id, node.exchange_id)
        if node.replay_of in known and node.replay_of != node.exchange_id:
            yield Edge("replay_of", node.replay_of, node.exchange_id)
        if node.correlation_id:
            families[node.correlation_id].append(node)
    for family in families.values():
        family.sort(key=lambda one: (one.started_at, one.exchange_id))
        for one, other in pairwise(family):
            yield Edge("correlation", one.exchange_id, other.exchange_id)


def _near(known: dict[str, Node], edges: list[Edge], focus: str) -> list[str]:
    """Return the ids connected to ``focus``, nearest first."""
    beside: defaultdict[str, list[str]] = defaultdict(list)
    for edge in edges:
        beside[edge.source].append(edge.target)
        beside[edge.target].append(edge.source)
    found = {focus: None}
    waiting = deque([focus])
    while waiting:
        for other in beside[waiting.popleft()]:
            if other not in found:
                found[other] = None
                waiting.append(other)
    return list(found)


MOST_REPLAYS: Final = 1_000
DEEPEST: Final = 32


class Branch(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An exchange and its replays, oldest first. ``missing``: it is not here any more, only its
    replays are; ``hidden`` is how many replays below are not listed."""

    exchange_id: str
    replay_id: str = ""
    status: str = ""
    http_status: int = 0
    verdict: str = ""
    started_at: int = 0
    missing: bool = False
    hidden: int = 0
    replays: tuple[Branch, ...] = ()


def tree(nodes: Iterable[Node], exchange_id: str) -> Branch:
    """The tree that ``exchange_id`` is in. ``nodes`` are all exchanges that may belong to it; what
    is not among them is shown as missing."""
    known = {node.exchange_id: node for node in nodes}
    below: defaultdict[str, list[Node]] = defaultdict(list)
    for node in known.values():
        if node.replay_of:
            below[node.replay_of].append(node)
    for those in below.values():
        those.sort(key=lambda one: (one.started_at, one.exchange_id))
    return _grown(_top(known, exchange_id), known, below)


def _top(known: dict[str, Node], exchange_id: str) -> str:
    """The original. In a ring, which cannot be, the first that comes again."""
    seen: set[str] = set()
    while exchange_id not in seen:
        seen.add(exchange_id)
        node = known.get(exchange_id)
        if node is None or not node.replay_of:
            return exchange_id
        exchange_id = node.replay_of
    return exchange_id


def _grown(top: str, known: dict[str, Node], below: dict[str, list[Node]]) -> Branch:
    order: list[tuple[str, int]] = [(top, 0)]
    children: dict[str, list[str]] = {}
    hidden: dict[str, int] = {}
    seen = {top}
    for exchange_id, depth in order:  # grows during the iteration
        new = [one.exchange_id for one in below.get(exchange_id, ()) if one.exchange_id not in seen]
        room = max(0, MOST_REPLAYS - len(seen)) if depth < DEEPEST else 0
        children[exchange_id], hidden[exchange_id] = new[:room], len(new[room:])
        seen.update(new[:room])
        order += ((one, depth + 1) for one in new[:room])
    made: dict[str, Branch] = {}
    for exchange_id, _ in reversed(order):
        replays = tuple(made[one] for one in children[exchange_id])
        made[exchange_id] = _branch(
            exchange_id, known.get(exchange_id), replays, hidden[exchange_id]
        )
    return made[top]


def _branch(
    exchange_id: str, node: Node | None, replays: tuple[Branch, ...], hidden: int
) -> Branch:
    if node is None:
        return Branch(exchange_id=exchange_id, missing=True, hidden=hidden, replays=replays)
    return Branch(
        exchange_id=exchange_id,
        replay_id=node.replay_id,
        status=node.status,
        http_status=node.http_status,
        verdict=node.verdict,
        started_at=node.started_at,
        hidden=hidden,
        replays=replays,
    )
