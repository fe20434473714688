"""The Merkle tree of RFC 6962: what its hashes are, and how it grows.

A tree of ``n`` leaves is never built. It grows as a :class:`Frontier`, the roots of its whole
subtrees from left to right, at most one of each height: O(log n) to keep, to extend and to sum up.
A *node* is the root of a whole subtree: ``(level, index)`` stands over the ``2**level`` leaves from
``index * 2**level`` on, and never changes once it is there. Who keeps all nodes can prove anything
about the tree (:mod:`reenact.audit.proving`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import msgspec

from reenact.errors import AuditInvalid

__all__ = [
    "EMPTY_ROOT",
    "HASH_SIZE",
    "Frontier",
    "Node",
    "NodeAt",
    "Nodes",
    "hash_children",
    "hash_leaf",
    "range_root",
    "root_of",
]

HASH_SIZE = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()
"""The root of a tree without leaves."""

NodeAt = Callable[[int, int], bytes]
"""Gives the hash of the node ``(level, index)``."""


def hash_leaf(data: bytes) -> bytes:
    """The hash of one leaf. Its prefix makes sure that no leaf passes for an inner node."""
    return hashlib.sha256(b"\x00" + data).digest()


def hash_children(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Node(msgspec.Struct, frozen=True):
    """A whole subtree of ``2**level`` leaves, the ``index``-th of them from the left."""

    level: int
    index: int
    hash: bytes


class Frontier(msgspec.Struct, frozen=True):
    """A tree of ``size`` leaves; ``roots`` has one hash per bit that is set in ``size``, the tallest
    subtree first. This is all that has to be stored in order to append."""

    size: int = 0
    roots: tuple[bytes, ...] = ()

    def append(self, leaf: bytes) -> tuple[Frontier, tuple[Node, ...]]:
        """The tree with the hash of one more leaf, and the nodes that are now whole: the leaf
        first. Together they are what a store of nodes has to add."""
        nodes = [Node(0, self.size, leaf)]
        roots = list(self.roots)
        level, index = 0, self.size
        while index & 1:
            level, index = level + 1, index >> 1
            leaf = hash_children(roots.pop(), leaf)
            nodes.append(Node(level, index, leaf))
        return Frontier(self.size + 1, (*roots, leaf)), tuple(nodes)

    def root(self) -> bytes:
        """The root of the tree as it is."""
        if not self.roots:
            return EMPTY_ROOT
        *others, root = self.roots
        for left in reversed(others):
            root = hash_children(left, root)
        return root

    def to_bytes(self) -> bytes:
        """The hashes in a row, for a column of a table beside that of the size."""
        return b"".join(self.roots)

    @classmethod
    def from_bytes(cls, size: int, data: bytes) -> Frontier:
        """What :meth:`to_bytes` wrote. Raises :class:`AuditInvalid` when it cannot be of ``size``."""
        if size < 0 or len(data) != HASH_SIZE * size.bit_count():
            raise AuditInvalid(
                f"{len(data)} bytes cannot be the frontier of a tree of {size} leaves",
                reason="frontier.length",
                hint="build it again from the records",
            )
        return cls(size, tuple(data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)))


def root_of(leaves: Iterable[bytes]) -> bytes:
    """The root over the hashes of leaves, read once."""
    frontier = Frontier()
    for leaf in leaves:
        frontier, _ = frontier.append(leaf)
    return frontier.root()


class Nodes:
    """All nodes of a tree, in memory; ``nodes.at`` is a :data:`NodeAt`."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.frontier = Frontier()
        self._levels: list[list[bytes]] = []
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> None:
        """Add the hash of one leaf."""
        self.frontier, nodes = self.frontier.append(leaf)
        for node in nodes:
            if node.level == len(self._levels):
                self._levels.append([])
            self._levels[node.level].append(node.hash)

    def at(self, level: int, index: int) -> bytes:
        """The hash of a node that is whole."""
        return self._levels[level][index]


def range_root(start: int, end: int, node: NodeAt) -> bytes:
    """The root over the leaves from ``start`` up to and without ``end``, as RFC 6962 builds it.

    ``start`` is a multiple of a power of two that is no less than ``end - start``, as it is for
    every range that a proof asks for, and so whole subtrees make it up. O(log n) look-ups.
    """
    roots = []
    while start < end:
        level = (end - start).bit_length() - 1
        roots.append(node(level, start >> level))
        start += 1 << level
    if not roots:
        return EMPTY_ROOT
    root = roots.pop()
    while roots:
        root = hash_children(roots.pop(), root)
    return root
