"""The Merkle tree of RFC 6962: hashes, growth, and proofs of inclusion and consistency.

A tree of ``n`` leaves is never built in memory. It grows as a :class:`Frontier`, the roots of its
complete subtrees from left to right, at most one per height: O(log n) to store, extend and sum up.
A *node* is the root of a complete subtree: ``(level, index)`` covers ``2**level`` leaves starting with
leaf ``index * 2**level`` and never changes. All proofs can be computed from the stored nodes.

Creating a proof means looking up the roots of a few ranges of leaves. Checking one follows RFC 9162,
sections 2.1.3.2 and 2.1.4.2. The check is strict: a proof whose length does not match the tree sizes
is refused before anything is hashed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from reenact.errors import AuditInvalid

__all__ = [
    "EMPTY_ROOT",
    "HASH_SIZE",
    "Frontier",
    "Node",
    "NodeAt",
    "Nodes",
    "check_consistency",
    "check_inclusion",
    "consistency_ranges",
    "hash_children",
    "hash_leaf",
    "inclusion_ranges",
    "prove_consistency",
    "prove_inclusion",
    "range_root",
    "root_of",
    "roots_of_ranges",
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
    """A tree of ``size`` leaves.

    ``roots`` has one hash per bit that is set in ``size``, the tallest subtree first. Nothing else
    needs to be stored in order to append.
    """

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
        """Return the concatenated hashes, for a database column next to the size."""
        return b"".join(self.roots)

    @classmethod
    def from_bytes(cls, size: int, data: bytes) -> Frontier:
        """Parse the result of :meth:`to_bytes`. Raises :class:`AuditInvalid` if it cannot be of
        ``size``.
        """
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
    """Return the root over the leaves from ``start`` up to but excluding ``end``, as in RFC 6962.

    ``start`` is a multiple of a power of two that is at least ``end - start``, as in every range of
    a proof. The range therefore consists of complete subtrees. O(log n) lookups.
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


Range = tuple[int, int]
"""Leaves from the first up to and without the second."""


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Whose roots prove that leaf ``index`` is in a tree of ``size`` leaves, from the leaf up."""
    _check_index(index, size)
    ranges: list[Range] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def consistency_ranges(old: int, new: int) -> list[Range]:
    """Whose roots prove that a tree of ``new`` leaves begins with the one of ``old`` leaves."""
    _check_sizes(old, new)
    ranges: list[Range] = []
    start, end = 0, new
    while old < end:
        middle = start + _split(end - start)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    if start > 0:
        ranges.append((start, end))  # else it is the old root, which the checker has
    return ranges[::-1]


def _split(count: int) -> int:
    """The largest power of two below ``count``, which is at least 2."""
    return 1 << ((count - 1).bit_length() - 1)


def prove_inclusion(index: int, size: int, node: NodeAt) -> list[bytes]:
    """The audit path of leaf ``index`` in the tree of ``size`` leaves."""
    return [range_root(start, end, node) for start, end in inclusion_ranges(index, size)]


def prove_consistency(old: int, new: int, node: NodeAt) -> list[bytes]:
    """Proof that the tree of ``new`` leaves begins with the tree of ``old`` leaves."""
    return [range_root(start, end, node) for start, end in consistency_ranges(old, new)]


def roots_of_ranges(ranges: Sequence[Range], leaves: Iterable[bytes]) -> list[bytes]:
    """The roots of ``ranges``, which do not overlap, from one pass over the hashes of all leaves."""
    frontiers = dict.fromkeys(ranges, Frontier())
    waiting = sorted(ranges, reverse=True)
    for at, leaf in enumerate(leaves):
        while waiting and at >= waiting[-1][1]:
            waiting.pop()
        if waiting and at >= waiting[-1][0]:
            frontiers[waiting[-1]], _ = frontiers[waiting[-1]].append(leaf)
    short = [end for start, end in ranges if frontiers[(start, end)].size != end - start]
    if short:
        raise AuditInvalid(
            f"there are fewer than {max(short)} leaves", reason="proof.leaves", hint="export again"
        )
    return [frontiers[wanted].root() for wanted in ranges]


def check_inclusion(
    leaf: bytes, index: int, size: int, root: bytes, proof: Sequence[bytes]
) -> None:
    """Raises :class:`AuditInvalid` unless ``proof`` leads from the hash of a leaf to ``root``."""
    _check_index(index, size)
    _check_nodes([leaf, root, *proof])
    _check_length(proof, len(inclusion_ranges(index, size)))
    at, last = index, size - 1
    found = leaf
    for sibling in proof:
        if at & 1 or at == last:
            found = hash_children(sibling, found)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            found = hash_children(found, sibling)
        at, last = at >> 1, last >> 1
    if found != root:
        raise AuditInvalid(
            f"the proof does not lead from record {index} to the root of the {size} records: "
            "the record, the root, or a node of the proof is wrong or at the wrong position",
            reason="proof.root",
            hint="do not trust this record; ask for the proof again, and compare the heads",
        )


def check_consistency(
    old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """Raises :class:`AuditInvalid` unless ``proof`` shows that the tree of ``new`` leaves begins
    with the tree of ``old`` leaves, and so that nothing that was in it was changed or removed."""
    _check_sizes(old, new)
    _check_nodes([old_root, new_root, *proof])
    _check_length(proof, len(consistency_ranges(old, new)))
    if old == new:
        if old_root != new_root:
            raise _forked(old, new)
        return
    path = list(proof)
    if old & (old - 1) == 0:
        path.insert(0, old_root)
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    first = second = path[0]
    for node in path[1:]:
        if at & 1 or at == last:
            first, second = hash_children(node, first), hash_children(node, second)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            second = hash_children(second, node)
        at, last = at >> 1, last >> 1
    if first != old_root or second != new_root:
        raise _forked(old, new)


def _forked(old: int, new: int) -> AuditInvalid:
    return AuditInvalid(
        f"the log of {new} records does not begin with the log of {old} records: "
        "its history was changed, or the proof is of another log",
        reason="proof.consistency",
        hint="keep both heads: together they show that there are two histories",
    )


def _check_index(index: int, size: int) -> None:
    if not 0 <= index < size:
        raise AuditInvalid(
            f"record {index} cannot be in a log of {size} records", reason="proof.index"
        )


def _check_sizes(old: int, new: int) -> None:
    if old < 1:
        raise AuditInvalid(
            f"a log of {old} records proves nothing about a later one",
            reason="proof.empty",
            hint="keep a head that has records",
        )
    if old > new:
        raise AuditInvalid(
            f"a log of {new} records cannot begin with one of {old} records: it was cut off",
            reason="proof.shrunk",
            hint="keep both heads: together they show that records were removed",
        )


def _check_nodes(nodes: Iterable[bytes]) -> None:
    for node in nodes:
        if len(node) != HASH_SIZE:
            raise AuditInvalid(
                f"a hash of {len(node)} bytes instead of {HASH_SIZE}", reason="proof.hash"
            )


def _check_length(proof: Sequence[bytes], wanted: int) -> None:
    if len(proof) != wanted:
        how = "short" if len(proof) < wanted else "long"
        raise AuditInvalid(
            f"the proof is too {how}: it has {len(proof)} nodes where there must be {wanted}",
            reason=f"proof.{how}",
        )
