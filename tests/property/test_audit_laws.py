"""Laws of the Merkle tree of the audit log: every proof there is holds, and nothing like it does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.audit.merkle import (
    Frontier,
    Nodes,
    check_consistency,
    check_inclusion,
    consistency_ranges,
    inclusion_ranges,
    prove_consistency,
    prove_inclusion,
    range_root,
    root_of,
    roots_of_ranges,
)
from reenact.errors import AuditInvalid

MOST = 40
LEAVES = [hashlib.sha256(b"leaf %d" % number).digest() for number in range(MOST)]
NODES = Nodes(LEAVES)
Proof = list[bytes]


def split(start: int, end: int) -> int:
    return start + max(2**power for power in range(64) if 2**power < end - start)


@cache
def mth(start: int, end: int) -> bytes:
    """MTH of RFC 6962, section 2.1, over some of the leaves."""
    if end - start == 1:
        return LEAVES[start]
    k = split(start, end)
    return hashlib.sha256(b"\x01" + mth(start, k) + mth(k, end)).digest()


def path(m: int, start: int, end: int) -> Proof:
    """PATH of section 2.1.1."""
    if end - start == 1:
        return []
    k = split(start, end)
    if m < k:
        return [*path(m, start, k), mth(k, end)]
    return [*path(m, k, end), mth(start, k)]


def subproof(m: int, start: int, end: int, whole: bool) -> Proof:
    """SUBPROOF of section 2.1.2."""
    if m == end:
        return [] if whole else [mth(start, end)]
    k = split(start, end)
    if m <= k:
        return [*subproof(m, start, k, whole), mth(k, end)]
    return [*subproof(m, k, end, False), mth(start, k)]


ROOTS = [b"", *(mth(0, size) for size in range(1, MOST + 1))]


def test_every_record_of_every_size_has_its_proof() -> None:
    for size in range(1, MOST + 1):
        assert root_of(LEAVES[:size]) == ROOTS[size]
        for index in range(size):
            proof = prove_inclusion(index, size, NODES.at)
            assert proof == path(index, 0, size)
            check_inclusion(LEAVES[index], index, size, ROOTS[size], proof)


def test_every_size_begins_with_every_smaller_one() -> None:
    for new in range(1, MOST + 1):
        for old in range(1, new + 1):
            proof = prove_consistency(old, new, NODES.at)
            assert proof == subproof(old, 0, new, True)
            check_consistency(old, new, ROOTS[old], ROOTS[new], proof)


@given(st.data())
def test_one_pass_over_the_leaves_gives_the_same_proofs(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, MOST))
    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(1, size))
    assert roots_of_ranges(inclusion_ranges(index, size), LEAVES) == path(index, 0, size)
    assert roots_of_ranges(consistency_ranges(old, size), LEAVES) == subproof(old, 0, size, True)


@given(st.integers(0, MOST))
def test_a_frontier_survives_being_stored(size: int) -> None:
    frontier = Frontier()
    for leaf in LEAVES[:size]:
        frontier, _ = frontier.append(leaf)
    again = Frontier.from_bytes(size, frontier.to_bytes())
    assert again == frontier
    assert again.root() == range_root(0, size, NODES.at)


def changed(proof: Proof, bits: Iterable[int]) -> Iterator[Proof]:
    """Everything that is like ``proof`` and is not it, with one of ``bits`` flipped in a node."""
    for at in range(len(proof)):
        for bit in bits:
            flipped = bytearray(proof[at])
            flipped[bit // 8] ^= 1 << bit % 8
            yield [*proof[:at], bytes(flipped), *proof[at + 1 :]]
        yield [*proof[:at], *proof[at + 1 :]]
        yield [*proof[:at], proof[at], *proof[at:]]
        for other in range(at):
            if proof[other] != proof[at]:
                swapped = list(proof)
                swapped[at], swapped[other] = swapped[other], swapped[at]
                yield swapped
    for extra in (bytes(32), LEAVES[0], *proof[:1]):
        yield [*proof, extra]
        yield [extra, *proof]


def refused(check: Callable[[Proof], None], proof: Proof) -> bool:
    try:
        check(proof)
    except AuditInvalid:
        return True
    return False


def no_other_proof_of_inclusion(index: int, size: int, bits: Iterable[int]) -> bool:
    def check(proof: Proof) -> None:
        check_inclusion(LEAVES[index], index, size, ROOTS[size], proof)

    proof = prove_inclusion(index, size, NODES.at)
    return not refused(check, proof) and all(refused(check, p) for p in changed(proof, bits))


def no_other_proof_of_consistency(old: int, new: int, bits: Iterable[int]) -> bool:
    def check(proof: Proof) -> None:
        check_consistency(old, new, ROOTS[old], ROOTS[new], proof)

    proof = prove_consistency(old, new, NODES.at)
    return not refused(check, proof) and all(refused(check, p) for p in changed(proof, bits))


def test_no_bit_of_a_proof_can_be_another() -> None:
    for new, places in ((3, range(3)), (7, (0, 4, 6)), (8, (5,))):
        for place in places:
            assert no_other_proof_of_inclusion(place, new, range(256))
            assert no_other_proof_of_consistency(place + 1, new, range(256))


@given(st.data())
def test_no_changed_proof_holds(data: st.DataObject) -> None:
    new = data.draw(st.integers(1, MOST))
    place = data.draw(st.integers(0, new - 1))
    bits = [data.draw(st.integers(0, 255))]
    assert no_other_proof_of_inclusion(place, new, bits)
    assert no_other_proof_of_consistency(place + 1, new, bits)


@given(st.data())
def test_a_proof_holds_for_its_own_place_only(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, MOST))
    index, other = data.draw(
        st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True)
    )
    proof = prove_inclusion(index, size, NODES.at)
    for leaf, at, root in (
        (LEAVES[index], other, ROOTS[size]),
        (LEAVES[other], index, ROOTS[size]),
        (LEAVES[index], index, ROOTS[size - 1]),
    ):
        with pytest.raises(AuditInvalid):
            check_inclusion(leaf, at, size, root, proof)


@given(st.data())
def test_a_log_does_not_begin_with_another_one(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, MOST))
    old = data.draw(st.integers(1, new - 1))
    other = data.draw(st.integers(1, new - 1).filter(lambda size: size != old))
    proof = prove_consistency(old, new, NODES.at)
    for at, old_root, new_root in (
        (old, ROOTS[other], ROOTS[new]),
        (old, ROOTS[old], ROOTS[other]),
        (other, ROOTS[old], ROOTS[new]),
    ):
        with pytest.raises(AuditInvalid):
            check_consistency(at, new, old_root, new_root, proof)
