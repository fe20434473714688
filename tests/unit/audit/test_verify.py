"""Every way of tampering with an exported log, and what the verifier calls it.

First who can change the files but has no key; then who has the key of the log.
"""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reenact.audit.bundle import KeySpan, leaf_line
from reenact.audit.keys import Signer
from reenact.audit.log import Checkpoint, Log, open_head, origin_of, sign_head
from reenact.audit.merkle import hash_leaf, root_of
from reenact.audit.note import rotation_note
from reenact.audit.verify import verify_export
from reenact.audit.verify_records import CODES, KEPT, Report
from reenact.errors import AuditInvalid
from tests.unit.audit.samples import (
    ONE,
    ORIGIN,
    THIEF,
    TWO,
    Kept,
    a_log,
    a_record,
    edited,
    resigned,
)

COUNT = 12
Lines = list[bytes]


def codes(report: Report) -> set[str]:
    assert set(report.counts) <= set(CODES)
    return set(report.counts)


def verify(folder: Path, pinned: str | None = None) -> Report:
    return verify_export(folder, [ONE.key], None if pinned is None else pinned.encode())


def lines_of(folder: Path) -> Lines:
    return (folder / "records.jsonl").read_bytes().splitlines()


def put(folder: Path, lines: Lines) -> None:
    (folder / "records.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def put_all(folder: Path, lines: Lines) -> None:
    """Records, and all that can be made from them without a key."""
    put(folder, lines)
    hashes = list(map(hash_leaf, lines))
    (folder / "leaves").write_bytes(b"".join(map(leaf_line, hashes)))
    change_manifest(folder, size=len(lines), root=b64encode(root_of(hashes)).decode())


def change_manifest(folder: Path, **fields: object) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (folder / "manifest.json").write_text(json.dumps({**manifest, **fields}), encoding="utf-8")


@pytest.fixture
def kept() -> Kept:
    return a_log(COUNT, each=3)


@pytest.fixture
def folder(kept: Kept, tmp_path: Path) -> Path:
    return kept.export(tmp_path / "export")


def test_a_log_that_nobody_touched_is_fine_and_says_what_that_proves(
    kept: Kept, folder: Path
) -> None:
    report = verify(folder, kept.heads[1].to_text())
    assert report.ok
    assert (report.size, report.heads, report.pinned, report.first_bad) == (12, 4, 6, None)
    assert "12 records" in report.proven[0]
    assert "a trusted key" in report.proven[0]
    assert "first 6 records match the pinned head" in report.proven[1]
    assert ["records 6 and later" in text for text in report.not_proven] == [True]
    assert report.last_at is not None
    assert report.first_at is not None
    assert report.last_at - report.first_at == 11_000
    assert report.to_json()["version"] == 1
    assert report.to_json()["ok"] is True


def test_an_export_alone_says_that_it_vouches_for_itself(folder: Path) -> None:
    report = verify_export(folder)
    assert report.ok
    assert "the keys that the export itself names" in report.proven[0]
    who, whether = report.not_proven
    assert "who signed it" in who
    assert "no records were removed at the end" in whether


WITHOUT_KEY: dict[str, tuple[Callable[[Lines], Lines], set[str], int | None]] = {
    "edited": (
        lambda lines: [*lines[:5], edited(lines[5], outcome="failed"), *lines[6:]],
        {"record.edited"},
        5,
    ),
    "edited in two places": (
        lambda lines: [edited(x, env="z") if n in (2, 9) else x for n, x in enumerate(lines)],
        {"record.edited"},
        2,
    ),
    "edited time": (
        lambda lines: [*lines[:5], edited(lines[5], at=1), *lines[6:]],
        {"record.edited", "record.backdated"},
        5,
    ),
    "edited and the one before it deleted": (
        lambda lines: [*lines[:4], edited(lines[5], env="z"), *lines[6:]],
        {"record.edited", "record.deleted"},
        4,
    ),
    "renumbered": (
        lambda lines: [*lines[:4], edited(lines[4], seq=9), *lines[5:]],
        {"record.inserted", "record.deleted"},
        4,
    ),
    "made unreadable": (lambda lines: [*lines[:4], b"{", *lines[5:]], {"record.malformed"}, 4),
    "unreadable line inserted": (
        lambda lines: [*lines[:4], b"\xff\x00", *lines[4:]],
        {"record.malformed"},
        4,
    ),
    "written with other spaces": (
        lambda lines: [*lines[:4], lines[4].replace(b":", b": "), *lines[5:]],
        {"record.malformed"},
        4,
    ),
    "longer than any record": (
        lambda lines: [*lines[:4], b'"' + b"x" * 200_000 + b'"', *lines[5:]],
        {"record.malformed"},
        4,
    ),
    "first deleted": (lambda lines: lines[1:], {"record.deleted"}, 0),
    "some deleted": (lambda lines: [*lines[:3], *lines[6:]], {"record.deleted"}, 3),
    "last deleted": (lambda lines: lines[:-2], {"log.truncated"}, 10),
    "all deleted": (lambda lines: [], {"log.truncated"}, 0),
    "inserted": (
        lambda lines: [*lines[:6], edited(lines[5], env="z"), *lines[6:]],
        {"record.inserted"},
        5,
    ),
    "inserted before the one it copies": (
        lambda lines: [*lines[:5], edited(lines[5], env="z"), *lines[5:]],
        {"record.inserted"},
        5,
    ),
    "added at the end": (
        lambda lines: [*lines, edited(lines[-1], seq=12)],
        {"record.inserted"},
        12,
    ),
    "copied": (lambda lines: [*lines[:6], *lines[5:]], {"record.duplicate"}, 5),
    "copied ahead": (lambda lines: [*lines[:2], lines[8], *lines[2:]], {"record.duplicate"}, 8),
    "swapped": (
        lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]],
        {"record.reordered"},
        6,
    ),
    "moved down": (
        lambda lines: [*lines[:2], *lines[3:9], lines[2], *lines[9:]],
        {"record.reordered"},
        2,
    ),
    "moved up": (
        lambda lines: [*lines[:2], lines[8], *lines[2:8], *lines[9:]],
        {"record.reordered"},
        8,
    ),
    "turned round": (lambda lines: lines[::-1], {"record.reordered"}, 0),
}


@pytest.mark.parametrize("how", WITHOUT_KEY)
def test_changed_records_are_told_apart_and_pointed_at(how: str, folder: Path) -> None:
    change, expected, first = WITHOUT_KEY[how]
    put(folder, change(lines_of(folder)))
    report = verify(folder)
    assert codes(report) == expected
    assert report.first_bad == first
    assert report.proven == ()


REBUILT = {
    "edited": {"head.mismatch"},
    "some deleted": {"head.mismatch", "record.deleted", "log.truncated"},
    "last deleted": {"log.truncated"},
    "all deleted": {"log.truncated"},
    "inserted": {"head.mismatch", "record.duplicate", "log.unsigned"},
    "added at the end": {"log.unsigned"},
    "copied": {"head.mismatch", "record.duplicate", "log.unsigned"},
    "swapped": {"head.mismatch", "record.reordered"},
    "moved down": {"head.mismatch", "record.reordered"},
}


@pytest.mark.parametrize("how", REBUILT)
def test_who_makes_the_hashes_again_fails_at_the_heads(how: str, folder: Path) -> None:
    put_all(folder, WITHOUT_KEY[how][0](lines_of(folder)))
    report = verify(folder)
    assert codes(report) == REBUILT[how]


def test_the_heads_narrow_down_what_was_changed(folder: Path) -> None:
    put_all(folder, WITHOUT_KEY["edited"][0](lines_of(folder)))
    [finding] = verify(folder).findings
    assert (finding.code, finding.seq, finding.until) == ("head.mismatch", 3, 6)
    assert "and so on to size 12" in finding.message


def test_an_older_export_is_caught_by_a_pinned_head_only(kept: Kept, folder: Path) -> None:
    """Cut everything off at an earlier head: no key is needed, and all that is left is true."""
    put_all(folder, lines_of(folder)[:9])
    text = "\n".join(head.to_text() for head in kept.heads[:3])
    (folder / "checkpoints").write_text(text, encoding="utf-8")
    change_manifest(folder, heads=3)
    report = verify(folder)
    assert report.ok
    assert "no head from an earlier time was given" in report.not_proven[0]
    report = verify(folder, kept.heads[3].to_text())
    assert codes(report) == {"log.truncated"}
    assert (report.findings[0].seq, report.findings[0].until) == (9, 12)
    same = verify(folder, kept.heads[2].to_text())
    assert same.ok
    assert same.not_proven == (
        "that the log has no later records: this export ends with the pinned head",
    )


def change_heads(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    path = folder / "checkpoints"
    lines = path.read_text(encoding="utf-8").split("\n\n")
    notes = ["\n\n".join(lines[at : at + 2]).removesuffix("\n") for at in range(0, len(lines), 2)]
    path.write_text("\n\n".join(change(notes)) + "\n", encoding="utf-8")


def swap_root(note: str) -> str:
    lines = note.split("\n")
    return "\n".join([*lines[:2], b64encode(bytes(32)).decode(), *lines[3:]])


HEADS: dict[str, tuple[Callable[[list[str]], list[str]], set[str]]] = {
    "edited": (lambda notes: [swap_root(notes[0]), *notes[1:]], {"head.signature"}),
    "last edited": (
        lambda notes: [*notes[:-1], swap_root(notes[-1])],
        {"head.signature", "log.unsigned"},
    ),
    "in another order": (
        lambda notes: [notes[1], notes[0], *notes[2:]],
        {"head.order", "head.missing"},
    ),
    "removed": (
        lambda notes: [notes[0], *notes[2:]],
        {"head.missing", "manifest.mismatch"},
    ),
    "last removed": (lambda notes: notes[:-1], {"log.unsigned", "manifest.mismatch"}),
    "unreadable": (
        lambda notes: [*notes[:2], "nonsense\n\n— x y", *notes[2:]],
        {"head.malformed", "manifest.mismatch"},
    ),
    "too large": (
        lambda notes: [*notes, "x" * 1_000_001],
        {"head.malformed"},
    ),
    "twice": (lambda notes: [*notes[:2], notes[1], *notes[2:]], {"manifest.mismatch"}),
}


@pytest.mark.parametrize("how", HEADS)
def test_changed_heads_are_told_apart(how: str, folder: Path) -> None:
    change, expected = HEADS[how]
    change_heads(folder, change)
    assert codes(verify(folder)) == expected


def test_no_head_at_all_proves_nothing(folder: Path) -> None:
    (folder / "checkpoints").write_bytes(b"")
    change_manifest(folder, heads=0)
    report = verify(folder)
    assert codes(report) == {"log.unsigned", "head.missing"}
    assert report.first_bad == 0


def test_signed_again_with_another_key(kept: Kept, tmp_path: Path) -> None:
    forged = resigned(kept, kept.lines, THIEF)
    forged.keys = list(kept.keys)
    report = verify(forged.export(tmp_path / "a"))
    assert codes(report) == {"head.key", "log.unsigned"}
    assert THIEF.key.id.hex() in report.findings[0].message
    forged.keys = [KeySpan(0, THIEF.key)]
    own = forged.export(tmp_path / "b")
    assert codes(verify(own)) == {"key.untrusted"}
    assert codes(verify(own, kept.heads[0].to_text())) == {"key.untrusted"}
    alone = verify_export(own)
    assert alone.ok
    assert "who signed it" in alone.not_proven[0]


def with_key(kept: Kept, tmp_path: Path, change: Callable[[Lines], Lines]) -> Path:
    return resigned(kept, change(list(kept.lines))).export(tmp_path / "forged")


def test_the_holder_of_the_key_is_caught_by_a_pinned_head(kept: Kept, tmp_path: Path) -> None:
    forged = with_key(kept, tmp_path, WITHOUT_KEY["edited"][0])
    assert verify(forged).ok
    assert "did not rewrite the history" in verify(forged).not_proven[0]
    assert verify(forged, kept.heads[0].to_text()).ok  # record 5 came later
    report = verify(forged, kept.heads[1].to_text())
    assert codes(report) == {"log.forked"}
    assert (report.findings[0].seq, report.findings[0].until) == (0, 6)


def test_a_shorter_log_signed_with_the_right_key_is_caught_by_a_pinned_head(
    kept: Kept, tmp_path: Path
) -> None:
    forged = with_key(kept, tmp_path, lambda lines: lines[:10])
    assert verify(forged).ok
    assert verify(forged, kept.heads[2].to_text()).ok
    report = verify(forged, kept.heads[3].to_text())
    assert codes(report) == {"log.truncated"}
    assert report.first_bad == 10


SIGNED: dict[str, tuple[Callable[[Lines], Lines], set[str], int]] = {
    "back-dated": (
        lambda lines: [*lines[:5], edited(lines[5], at=1), *lines[6:]],
        {"record.backdated"},
        5,
    ),
    "deleted": (lambda lines: [*lines[:5], *lines[6:]], {"record.deleted"}, 5),
    "numbered twice": (
        lambda lines: [*lines[:5], edited(lines[5], seq=4), *lines[6:]],
        {"record.duplicate", "record.deleted"},
        4,
    ),
    "reordered": (
        lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
        {"record.reordered"},
        5,
    ),
    "of another tenant": (
        lambda lines: [*lines[:5], edited(lines[5], tenant="t-2"), *lines[6:]],
        {"record.foreign"},
        5,
    ),
    "naming a head of the future": (
        lambda lines: [*lines[:5], edited(lines[5], prevHeadSize=9), *lines[6:]],
        {"record.chain"},
        5,
    ),
    "naming a head that never was": (
        lambda lines: [*lines[:5], edited(lines[5], prevHeadSize=4), *lines[6:]],
        {"head.missing"},
        5,
    ),
    "no record": (lambda lines: [*lines[:5], b"[]", *lines[6:]], {"record.malformed"}, 5),
    "without its number": (
        lambda lines: [*lines[:5], edited(lines[5], seq="5"), *lines[6:]],
        {"record.malformed"},
        5,
    ),
}


@pytest.mark.parametrize("how", SIGNED)
def test_what_does_not_fit_is_found_though_it_is_signed(
    how: str, kept: Kept, tmp_path: Path
) -> None:
    change, expected, first = SIGNED[how]
    report = verify(with_key(kept, tmp_path, change))
    assert codes(report) == expected
    assert report.first_bad == first


def test_a_head_signed_over_other_records(kept: Kept, tmp_path: Path) -> None:
    kept.heads[1] = sign_head(Checkpoint(ORIGIN, 6, bytes(32)), [ONE])
    report = verify(kept.export(tmp_path / "export"))
    [finding] = report.findings
    assert (finding.code, finding.seq, finding.until) == ("head.mismatch", 3, 6)


def test_two_heads_of_one_size(kept: Kept, tmp_path: Path) -> None:
    kept.heads.insert(2, sign_head(Checkpoint(ORIGIN, 6, bytes(32)), [ONE]))
    report = verify(kept.export(tmp_path / "export"))
    assert codes(report) == {"head.mismatch"}
    assert "what differs is the head" in report.findings[0].message


def test_a_head_of_another_log(kept: Kept, tmp_path: Path) -> None:
    other = origin_of("acme.example", "t-2")
    _, head = Log(other).sign([ONE.named(other)])
    kept.heads.insert(0, head)
    assert codes(verify(kept.export(tmp_path / "export"))) == {"head.origin"}


def test_a_record_of_a_later_version_with_more_fields_verifies(kept: Kept, tmp_path: Path) -> None:
    new = edited(kept.lines[5], v=2, action="moon.landed", more={"$blob": [1.5, None]})
    forged = resigned(kept, [*kept.lines[:5], new, *kept.lines[6:]])
    assert verify(forged.export(tmp_path / "export")).ok


def rotated() -> Kept:
    kept = a_log(5)
    kept.rotate(TWO)
    kept.sign()
    kept.add(a_record(6))
    kept.sign()
    return kept


@pytest.mark.parametrize("trusted", [ONE, TWO], ids=["old", "new"])
def test_either_key_of_a_log_that_changed_it_is_enough(trusted: Signer, tmp_path: Path) -> None:
    report = verify_export(rotated().export(tmp_path / "export"), [trusted.key])
    assert report.ok
    assert report.keys == (ONE.key.to_text(), TWO.key.to_text())


def test_a_pinned_head_of_the_old_key_still_counts(tmp_path: Path) -> None:
    kept = rotated()
    pinned = kept.heads[2].to_text().encode()
    assert verify_export(kept.export(tmp_path / "export"), [TWO.key], pinned).pinned == 3


def test_a_retired_key_cannot_sign_what_came_later(tmp_path: Path) -> None:
    kept = rotated()
    kept.log, kept.heads[-1] = kept.log.sign([ONE])
    report = verify(kept.export(tmp_path / "export"))
    assert codes(report) == {"head.key", "log.unsigned"}
    assert "the key at that size is" in report.findings[0].message


def test_the_old_key_may_sign_beside_the_new_one(tmp_path: Path) -> None:
    kept = a_log(5)
    kept.rotate(TWO)
    kept.sign([ONE, TWO])
    assert verify(kept.export(tmp_path / "export")).ok
    open_head(kept.heads[-1].to_text().encode(), [ONE.key])


def test_a_key_that_no_record_announces(tmp_path: Path) -> None:
    kept = a_log(5)
    kept.keys.append(KeySpan(4, THIEF.key))
    kept.heads[3:] = resigned(kept, kept.lines, THIEF).heads[3:]
    report = verify(kept.export(tmp_path / "export"))
    assert codes(report) == {"key.rotation"}
    assert "no record announces the key" in report.findings[0].message


@pytest.mark.parametrize("span", [KeySpan(6, THIEF.key), KeySpan(7, TWO.key)], ids=["key", "size"])
def test_another_key_than_the_announced_one_is_listed(span: KeySpan, tmp_path: Path) -> None:
    kept = rotated()
    kept.keys[1] = span
    kept.heads[5:] = resigned(kept, kept.lines, THIEF if span.key == THIEF.key else TWO).heads[5:]
    if span.start == 7:
        kept.heads[5] = resigned(kept, kept.lines, ONE).heads[5]
    report = verify(kept.export(tmp_path / "export"))
    assert codes(report) == {"key.rotation"}
    assert "announces a key that is not listed for it" in report.findings[0].message


def test_a_key_that_is_announced_and_not_listed(tmp_path: Path) -> None:
    kept = rotated()
    kept.keys.pop()
    report = verify(kept.export(tmp_path / "export"))
    assert codes(report) == {"key.rotation", "head.key", "log.unsigned"}


@pytest.mark.parametrize(
    "note",
    [
        rotation_note(5, THIEF, TWO),
        rotation_note(4, ONE, TWO),
        rotation_note(5, ONE, TWO).rsplit("—", 1)[0],
        rotation_note(5, ONE, TWO).replace("v1\n5", "v1\n05"),
        "nonsense",
    ],
    ids=["other key", "other record", "one signature", "changed", "nonsense"],
)
def test_a_change_of_keys_that_the_old_key_did_not_announce(note: str, tmp_path: Path) -> None:
    kept = rotated()
    line = edited(kept.lines[5], rotation=note)
    forged = resigned(kept, [*kept.lines[:5], line, *kept.lines[6:]], TWO)
    forged.heads[:5] = kept.heads[:5]
    forged.keys = kept.keys
    report = verify(forged.export(tmp_path / "export"))
    assert codes(report) == {"key.rotation"}
    assert {finding.seq for finding in report.findings} == {5, 6}


def test_a_pinned_head_must_be_of_this_log(kept: Kept, folder: Path) -> None:
    other = origin_of("acme.example", "t-2")
    _, head = Log(other).sign([ONE.named(other)])
    foreign = verify_export(folder, [ONE.key, ONE.named(other).key], head.to_text().encode())
    assert codes(foreign) == {"pinned.invalid"}
    _, forged = kept.log.sign([THIEF])
    assert codes(verify(folder, forged.to_text())) == {"pinned.invalid"}
    assert codes(verify(folder, "nonsense")) == {"pinned.invalid"}
    _, empty = Log(ORIGIN).sign([ONE])
    assert verify(folder, empty.to_text()).pinned is None


@pytest.mark.parametrize(
    "field, value", [("size", 3), ("heads", 9), ("root", "x"), ("tenant", "t-2")]
)
def test_the_manifest_is_compared(field: str, value: object, folder: Path) -> None:
    change_manifest(folder, **{field: value})
    report = verify(folder)
    wrong = {"manifest.mismatch"} | ({"record.foreign"} if field == "tenant" else set())
    assert codes(report) == wrong


def test_hashes_that_cannot_be_read(folder: Path) -> None:
    path = folder / "leaves"
    data = path.read_bytes()
    path.write_bytes(data[:45] + b"!" * 44 + b"\n" + data[90:])
    report = verify(folder)
    assert {"leaves.malformed", "record.edited"} <= codes(report)
    assert report.first_bad == 1


def test_a_flood_of_faults_is_counted_and_not_kept(tmp_path: Path) -> None:
    kept = a_log(300, each=300)
    folder = kept.export(tmp_path / "export")
    put(folder, [edited(line, env="z") for line in kept.lines])
    report = verify(folder)
    assert report.counts == {"record.edited": 300}
    assert len(report.findings) == KEPT


def test_an_empty_log_that_is_signed_is_fine(tmp_path: Path) -> None:
    kept = Kept(keys=[KeySpan(0, ONE.key)])
    kept.sign()
    report = verify(kept.export(tmp_path / "export"))
    assert report.ok
    assert (report.size, report.first_at) == (0, None)


def test_what_is_no_export_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AuditInvalid, match="cannot be read") as caught:
        verify(tmp_path / "nowhere")
    assert caught.value.exit_code == 3
    (folder / "leaves").unlink()
    with pytest.raises(AuditInvalid, match="missing: leaves") as caught:
        verify(folder)
    assert caught.value.reason == "bundle.incomplete"


def test_every_finding_is_plain_data(folder: Path) -> None:
    put(folder, [])
    report = verify(folder)
    assert msgspec.json.decode(msgspec.json.encode(report.to_json()))["counts"] == report.counts
    assert report.findings[0].to_json()["code"] == "log.truncated"


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    folder = a_log(5_000, each=100).export(tmp_path / "export")
    size = (folder / "records.jsonl").stat().st_size
    tracemalloc.start()
    try:
        assert verify(folder).size == 5_000
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < size / 2
