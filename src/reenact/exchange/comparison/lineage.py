"""The replays of an exchange, and the replays of those: a tree, with the original at its top."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from reenact.exchange.comparison.correlating import Node

__all__ = ["DEEPEST", "MOST", "Branch", "tree"]

MOST: Final = 1_000
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
    for exchange_id, depth in order:  # grows while it is gone through
        new = [one.exchange_id for one in below.get(exchange_id, ()) if one.exchange_id not in seen]
        room = max(0, MOST - len(seen)) if depth < DEEPEST else 0
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
