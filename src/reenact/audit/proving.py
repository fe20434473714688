"""Proofs about a Merkle tree: that a leaf is in it, and that it only grew (RFC 6962, section 2.1).

Making one is asking for the roots of a few ranges of leaves. Checking one follows RFC 9162, section
2.1.3.2 and 2.1.4.2, which is the same proof with the algorithm spelt out, and is strict: a proof
that is not exactly as long as the sizes demand is refused before anything is hashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reenact.audit.merkle import HASH_SIZE, Frontier, NodeAt, hash_children, range_root
from reenact.errors import AuditInvalid

__all__ = [
    "check_consistency",
    "check_inclusion",
    "consistency_ranges",
    "inclusion_ranges",
    "prove_consistency",
    "prove_inclusion",
    "roots_of_ranges",
]

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
            "the record, the root, or a node of the proof is another one, or stands elsewhere",
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
