"""A proof that stands by itself."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from reenact.audit.bundle import open_bundle
from reenact.audit.log import Checkpoint, origin_of, sign_head
from reenact.audit.merkle import (
    Nodes,
    check_consistency,
    hash_leaf,
    prove_consistency,
    prove_inclusion,
)
from reenact.audit.proof import (
    Proof,
    check_proof,
    last_head,
    parse_proof,
    prove_growth,
    prove_record,
)
from reenact.audit.record import read_record
from reenact.errors import AuditInvalid
from tests.unit.audit.samples import ONE, ORIGIN, TWO, a_log, edited


def a_proof(seq: int = 4, size: int = 7) -> Proof:
    kept = a_log(size)
    nodes = Nodes(map(hash_leaf, kept.lines))
    path = prove_inclusion(seq, size, nodes.at)
    return Proof(kept.lines[seq], seq, tuple(path), kept.heads[-1])


def test_a_proof_says_what_happened_and_that_the_log_has_it() -> None:
    text = a_proof().to_text()
    proof, envelope = check_proof(text.encode(), [ONE.key])
    assert envelope.seq == 4
    assert read_record(proof.leaf).replay_id == "r-4"
    assert proof.to_text() == text
    title, extra, index, *path = text.split("\n")
    assert (title, index) == ("c2sp.org/tlog-proof@v1", "index 4")
    assert extra == f"extra {b64encode(proof.leaf).decode()}"
    assert path[3:6] == ["", ORIGIN, "7"]


def test_the_only_record_of_a_log_needs_no_path() -> None:
    proof, _ = check_proof(a_proof(0, 1).to_text().encode(), [ONE.key])
    assert proof.path == ()


def test_a_proof_of_another_key_is_refused() -> None:
    with pytest.raises(AuditInvalid) as caught:
        check_proof(a_proof().to_text().encode(), [TWO.key])
    assert caught.value.reason == "note.unsigned"


TEXT = a_proof().to_text()
NODE = TEXT.split("\n")[3]


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "proof.malformed"),
        ("c2sp.org/tlog-proof@v1\n\n", "proof.malformed"),
        (TEXT.replace("proof@v1", "proof@v2"), "proof.malformed"),
        (TEXT.replace("index 4", "index 04"), "proof.malformed"),
        (TEXT.replace("index 4", "index -4"), "proof.malformed"),
        (TEXT.replace("index ", "index"), "proof.malformed"),
        (TEXT.replace("extra ", "extra  "), "proof.malformed"),
        (TEXT.replace("extra ", "more "), "proof.malformed"),
        (TEXT.replace(NODE, NODE[:-1]), "proof.malformed"),
        (TEXT.replace(NODE, "\n".join([NODE] * 65)), "proof.malformed"),
        (TEXT.replace(NODE, "AAAA"), "proof.hash"),
        (TEXT.replace(f"{NODE}\n", ""), "proof.short"),
        (TEXT.replace(NODE, f"{NODE}\n{NODE}"), "proof.long"),
        (TEXT.replace("index 4", "index 5"), "proof.root"),
        (TEXT.replace("index 4", "index 7"), "proof.index"),
        (TEXT.replace("\n7\n", "\n8\n"), "note.signature"),
        (TEXT.replace("\n7\n", "\n07\n"), "checkpoint.malformed"),
        (TEXT[:-1], "note.malformed"),
        (TEXT + "x" * 2_000_000, "proof.malformed"),
        (TEXT.replace("extra ", "extra \udc80"), "proof.malformed"),
    ],
    ids=range(20),
)
def test_what_is_not_exactly_the_proof_is_refused(text: str, reason: str) -> None:
    with pytest.raises(AuditInvalid) as caught:
        check_proof(text.encode("utf-8", "surrogateescape"), [ONE.key])
    assert caught.value.reason == reason


def test_no_byte_of_a_proof_can_be_another() -> None:
    data = TEXT.encode()
    survivors = []
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        try:
            check_proof(changed, [ONE.key])
            survivors.append(at)
        except AuditInvalid:
            continue
    assert survivors == []


def test_a_record_that_calls_itself_another_number_is_refused() -> None:
    kept = a_log(1)
    for line, says in (
        (edited(kept.lines[0], seq=1), "calls itself 1"),
        (edited(kept.lines[0], tenant="t-2"), "of tenant t-2"),
    ):
        head = sign_head(Checkpoint(ORIGIN, 1, hash_leaf(line)), [ONE])
        with pytest.raises(AuditInvalid, match=says) as caught:
            check_proof(Proof(line, 0, (), head).to_text().encode(), [ONE.key])
        assert caught.value.reason == "proof.record"


def test_a_proof_is_good_for_the_log_of_its_tenant_only() -> None:
    other = origin_of("acme.example", "t-2")
    line = a_log(1).lines[0]
    head = sign_head(Checkpoint(other, 1, hash_leaf(line)), [ONE.named(other)])
    with pytest.raises(AuditInvalid, match="and the log of another one"):
        check_proof(Proof(line, 0, (), head).to_text().encode(), [ONE.named(other).key])


def test_proofs_out_of_an_export(tmp_path: Path) -> None:
    kept = a_log(7, each=3)
    bundle = open_bundle(kept.export(tmp_path / "export"))
    assert last_head(bundle) == kept.heads[-1]
    for seq in range(7):
        proof = prove_record(bundle, seq)
        assert parse_proof(proof.to_text().encode()) == proof
        assert check_proof(proof.to_text().encode(), [ONE.key])[1].seq == seq
    old, new = kept.heads[0], kept.heads[-1]
    growth = prove_growth(bundle, old.size, new.size)
    check_consistency(old.size, new.size, old.root, new.root, growth)
    assert growth == prove_consistency(3, 7, Nodes(map(hash_leaf, kept.lines)).at)
    with pytest.raises(AuditInvalid, match="record 7 cannot be in a log of 7"):
        prove_record(bundle, 7)


def test_no_proof_comes_out_of_an_export_that_was_changed(tmp_path: Path) -> None:
    folder = a_log(5).export(tmp_path / "export")
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes().replace(b"r-3", b"r-9"))
    bundle = open_bundle(folder)
    assert prove_record(bundle, 2).index == 2
    with pytest.raises(AuditInvalid) as caught:
        prove_record(bundle, 3)
    assert caught.value.reason == "proof.root"
    (folder / "checkpoints").write_bytes(b"")
    with pytest.raises(AuditInvalid, match="no signed head"):
        prove_record(open_bundle(folder), 2)
