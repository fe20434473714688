"""The heads that were seen, and what a log must show next time."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reenact.audit.bundle import open_bundle
from reenact.audit.log import Log, origin_of
from reenact.audit.merkle import Nodes, hash_leaf, prove_consistency
from reenact.audit.proof import last_head, prove_growth
from reenact.audit.seen_heads import SeenHeads
from reenact.audit.verify import verify_export
from reenact.errors import AuditInvalid, SinkError
from tests.unit.audit.samples import ONE, ORIGIN, THIEF, Kept, a_log, a_record, edited, resigned

KEPT = a_log(9)
KEYS = [ONE.key]


def note(size: int, kept: Kept = KEPT) -> bytes:
    return kept.heads[size - 1].to_text().encode()


def growth(old: int, new: int, kept: Kept = KEPT) -> list[bytes]:
    return prove_consistency(old, new, Nodes(map(hash_leaf, kept.lines)).at)


@pytest.fixture
def heads(tmp_path: Path) -> SeenHeads:
    return SeenHeads(tmp_path / "seen" / "heads.json")


def test_the_first_head_is_believed_and_the_next_must_grow_from_it(heads: SeenHeads) -> None:
    assert heads.last(ORIGIN) is None
    assert heads.see(note(3), KEYS) == "first"
    assert heads.see(note(3), KEYS) == "same"
    assert heads.see(note(7), KEYS, growth(3, 7)) == "grown"
    assert heads.see(note(4), KEYS, growth(4, 7)) == "older"
    last = heads.last(ORIGIN)
    assert last is not None
    assert last.size == 7


def test_the_file_is_private_and_has_one_head_per_log(heads: SeenHeads) -> None:
    other = origin_of("acme.example", "t-2")
    _, empty = Log(other).sign([ONE.named(other)])
    heads.see(note(3), KEYS)
    heads.see(empty.to_text().encode(), [ONE.named(other).key])
    assert stat.S_IMODE(heads.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(heads.path.parent.stat().st_mode) == 0o700
    assert list(json.loads(heads.path.read_bytes())["heads"]) == [ORIGIN, other]
    assert [path.name for path in heads.path.parent.iterdir()] == ["heads.json"]


FORGED = resigned(KEPT, [edited(KEPT.lines[0], env="z"), *KEPT.lines[1:]])


@pytest.mark.parametrize(
    "data, proof, reason",
    [
        (note(7), [], "proof.short"),
        (note(7), growth(3, 8), "proof.consistency"),
        (note(7), growth(4, 7), "proof.short"),
        (note(4, FORGED), growth(4, 5, FORGED)[:0], "proof.short"),
        (note(5, FORGED), [], "proof.consistency"),
        (note(9, FORGED), growth(5, 9, FORGED), "proof.consistency"),
        (note(2), [], "proof.short"),
        (resigned(KEPT, KEPT.lines, THIEF).heads[-1].to_text().encode(), [], "note.unsigned"),
        (b"nonsense", [], "note.malformed"),
        (Log(ORIGIN).sign([ONE])[1].to_text().encode(), [], "proof.shrunk"),
    ],
    ids=[
        "no proof",
        "proof of another size",
        "proof from another size",
        "shorter, of another history",
        "same size, another history",
        "another history",
        "shorter without proof",
        "another key",
        "nonsense",
        "emptied",
    ],
)
def test_what_does_not_follow_is_refused_and_not_kept(
    data: bytes, proof: list[bytes], reason: str, heads: SeenHeads
) -> None:
    heads.see(note(5), KEYS)
    before = heads.path.read_bytes()
    with pytest.raises(AuditInvalid) as caught:
        heads.see(data, KEYS, proof)
    assert caught.value.reason == reason
    assert heads.path.read_bytes() == before


def test_the_head_of_an_empty_log_binds_to_nothing(heads: SeenHeads) -> None:
    _, empty = Log(ORIGIN).sign([ONE])
    assert heads.see(empty.to_text().encode(), KEYS) == "first"
    assert heads.see(note(3), KEYS) == "first"


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\xff", b'{"format":"reenact-audit-heads/2","heads":{}}'],
    ids=["empty", "other", "not text", "later"],
)
def test_a_damaged_file_is_not_the_same_as_none(content: bytes, heads: SeenHeads) -> None:
    heads.see(note(3), KEYS)
    heads.path.write_bytes(content)
    with pytest.raises(AuditInvalid, match="cannot be read") as caught:
        heads.see(note(3), KEYS)
    assert caught.value.reason == "heads.damaged"
    assert heads.path.read_bytes() == content


def test_a_client_that_comes_back_with_every_export(heads: SeenHeads, tmp_path: Path) -> None:
    kept = a_log(4)
    seen = []
    for number in range(3):
        path = kept.export(tmp_path / f"export-{number}")
        last, bundle = heads.last(ORIGIN), open_bundle(path)
        report = verify_export(path, KEYS, last.to_text().encode() if last else None)
        assert report.ok
        assert report.pinned == (last.size if last else None)
        head = last_head(bundle)
        proof = prove_growth(bundle, last.size, head.size) if last else []
        seen.append(heads.see(head.to_text().encode(), KEYS, proof))
        for _ in range(5):
            kept.add(a_record())
        kept.sign()
    assert seen == ["first", "grown", "grown"]


def test_heads_of_many_logs_at_once_are_all_kept(heads: SeenHeads) -> None:
    origins = [origin_of("acme.example", f"t-{number}") for number in range(12)]

    def see(origin: str) -> str:
        _, head = Log(origin).sign([ONE.named(origin)])
        return SeenHeads(heads.path).see(head.to_text().encode(), [ONE.named(origin).key])

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(see, origins)) == {"first"}
    assert all(heads.last(origin) is not None for origin in origins)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((SinkError, AuditInvalid), match="file"):
        SeenHeads(tmp_path / "file" / "heads.json").see(note(3), KEYS)
    (tmp_path / "folder").mkdir()
    with pytest.raises(AuditInvalid, match="cannot be read"):
        SeenHeads(tmp_path / "folder").last(ORIGIN)
