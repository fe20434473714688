"""The tree of RFC 6962, against the published vectors and against the text of the RFC."""

from __future__ import annotations

import hashlib

import pytest

from reenact.audit.merkle import (
    EMPTY_ROOT,
    Frontier,
    Nodes,
    check_consistency,
    check_inclusion,
    hash_leaf,
    prove_consistency,
    prove_inclusion,
    range_root,
    root_of,
    roots_of_ranges,
)
from reenact.errors import AuditInvalid

# The test data of the Certificate Transparency log of 8 leaves.
INPUTS = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "0298d122906dcfc10892cb53a73992fc5b9f493ea4c9badb27b791b4127a7fe7",
        "07506a85fd9dd2f120eb694f86011e5bb4662e5c415a62917033d4a9624487e7",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "4271a26be0d8a84f0bd54c8c302e7cb3a3b5d1fa6780a40bcce2873477dab658",
        "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f",
        "46f6ffadd3d06a09ff3c5860d2755c8b9819db7df44251788c7d8e3180de8eb1",
    )
]
ROOTS = [
    bytes.fromhex(text)
    for text in (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    )
]
INCLUSION = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
NODES = Nodes(LEAVES)


def mth(data: list[bytes]) -> bytes:
    """The oracle: section 2.1 of the RFC, word for word."""
    if not data:
        return hashlib.sha256(b"").digest()
    if len(data) == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = max(2**power for power in range(64) if 2**power < len(data))
    return hashlib.sha256(b"\x01" + mth(data[:k]) + mth(data[k:])).digest()


def test_leaves_and_roots_are_the_published_ones() -> None:
    assert list(map(hash_leaf, INPUTS)) == LEAVES
    assert [root_of(LEAVES[:size]) for size in range(9)] == ROOTS
    assert [mth(INPUTS[:size]) for size in range(9)] == ROOTS
    assert ROOTS[0] == EMPTY_ROOT


@pytest.mark.parametrize("index, size", INCLUSION)
def test_inclusion_proofs_are_the_published_ones(index: int, size: int) -> None:
    proof = [bytes.fromhex(text) for text in INCLUSION[index, size]]
    assert prove_inclusion(index, size, NODES.at) == proof
    check_inclusion(LEAVES[index], index, size, ROOTS[size], proof)


@pytest.mark.parametrize("old, new", CONSISTENCY)
def test_consistency_proofs_are_the_published_ones(old: int, new: int) -> None:
    proof = [bytes.fromhex(text) for text in CONSISTENCY[old, new]]
    assert prove_consistency(old, new, NODES.at) == proof
    check_consistency(old, new, ROOTS[old], ROOTS[new], proof)


def test_appending_needs_the_frontier_only_and_tells_each_whole_node_once() -> None:
    stored: dict[tuple[int, int], bytes] = {}
    size, kept = 0, b""
    for leaf in LEAVES:
        frontier, nodes = Frontier.from_bytes(size, kept).append(leaf)
        assert not stored.keys() & {(node.level, node.index) for node in nodes}
        stored |= {(node.level, node.index): node.hash for node in nodes}
        size, kept = frontier.size, frontier.to_bytes()
        assert frontier.root() == ROOTS[size]
        assert len(kept) == 32 * size.bit_count()
    assert len(stored) == 15
    for index in range(8):
        proof = prove_inclusion(index, 7 if index < 7 else 8, lambda *at: stored[at])
        check_inclusion(
            LEAVES[index], index, 7 if index < 7 else 8, ROOTS[7 if index < 7 else 8], proof
        )


@pytest.mark.parametrize("size, length", [(1, 0), (1, 33), (3, 32), (0, 32), (-1, 0)])
def test_a_frontier_of_another_size_is_refused(size: int, length: int) -> None:
    with pytest.raises(AuditInvalid, match="cannot be the frontier") as caught:
        Frontier.from_bytes(size, bytes(length))
    assert caught.value.reason == "frontier.length"


def test_the_root_of_no_leaves_is_that_of_an_empty_tree() -> None:
    assert range_root(4, 4, NODES.at) == EMPTY_ROOT
    assert Frontier().root() == EMPTY_ROOT


WRONG_INCLUSION = {
    "proof.index": (8, 8, INCLUSION[5, 8]),
    "proof.short": (5, 8, INCLUSION[5, 8][:-1]),
    "proof.long": (5, 8, [*INCLUSION[5, 8], "00" * 32]),
    "proof.hash": (5, 8, [*INCLUSION[5, 8][:-1], "00" * 31]),
    "proof.root": (5, 8, INCLUSION[5, 8][::-1]),
}


@pytest.mark.parametrize("reason", WRONG_INCLUSION)
def test_a_wrong_inclusion_proof_is_refused_in_its_own_words(reason: str) -> None:
    index, size, proof = WRONG_INCLUSION[reason]
    with pytest.raises(AuditInvalid) as caught:
        check_inclusion(LEAVES[5], index, size, ROOTS[8], list(map(bytes.fromhex, proof)))
    assert caught.value.reason == reason
    assert caught.value.exit_code == 3


def test_an_index_before_the_first_and_an_empty_tree_are_refused() -> None:
    for index, size in ((-1, 8), (0, 0), (3, 3), (0, -1)):
        with pytest.raises(AuditInvalid, match="cannot be in a log of") as caught:
            check_inclusion(LEAVES[0], index, size, ROOTS[8], [])
        assert caught.value.reason == "proof.index"


WRONG_CONSISTENCY = {
    "proof.empty": (0, 8, ROOTS[0], []),
    "proof.shrunk": (9, 8, ROOTS[6], CONSISTENCY[6, 8]),
    "proof.short": (6, 8, ROOTS[6], []),
    "proof.long": (8, 8, ROOTS[8], ["00" * 32]),
    "proof.hash": (6, 8, ROOTS[6][:-1], CONSISTENCY[6, 8]),
    "proof.consistency": (6, 8, ROOTS[5], CONSISTENCY[6, 8]),
}


@pytest.mark.parametrize("reason", WRONG_CONSISTENCY)
def test_a_wrong_consistency_proof_is_refused_in_its_own_words(reason: str) -> None:
    old, new, root, proof = WRONG_CONSISTENCY[reason]
    with pytest.raises(AuditInvalid) as caught:
        check_consistency(old, new, root, ROOTS[8], list(map(bytes.fromhex, proof)))
    assert caught.value.reason == reason


def test_two_roots_of_one_size_are_two_histories() -> None:
    with pytest.raises(AuditInvalid, match="history was changed") as caught:
        check_consistency(8, 8, ROOTS[7], ROOTS[8], [])
    assert "two histories" in caught.value.hint


def test_too_few_leaves_for_a_proof_are_told() -> None:
    with pytest.raises(AuditInvalid, match="fewer than 6 leaves"):
        roots_of_ranges([(4, 6)], LEAVES[:5])
