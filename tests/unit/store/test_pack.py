from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from reenact.errors import RecordingDamaged, RecordingExists, RecordingMissing, SinkUnwritable
from reenact.policy.redaction.redactor import Redactor
from reenact.store.pack import pack, unpack
from reenact.store.seal import Seal
from reenact.store.sign import check_signature, new_key, sign
from reenact.store.sinks.base import Options
from reenact.store.verify import verify
from tests.unit.store.samples import PLAIN, contents, draft, notes, read_manifest, record

DRAFTS = [*notes(3), draft(data={"text": "x" * 2_000, "b": b"\xff" * 900})]
OPTIONS = replace(PLAIN, blob_threshold=700)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def packed_with(target: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with lzma.open(target, "wb") as out, tarfile.open(fileobj=out, mode="w") as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return target


def members(recording: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [
        (tarfile.TarInfo(name), (recording / name).read_bytes())
        for name in ("manifest.json", "events.jsonl")
    ]


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
def test_what_is_unpacked_is_what_was_packed(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, DRAFTS, OPTIONS)
    report = pack(path, tmp_path / "one.tar.xz")
    assert report.manifest == read_manifest(path)
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / f"copy-{name}"
    assert unpack(tmp_path / "one.tar.xz", target).manifest == report.manifest
    verify(target)
    assert contents(target) == contents(path)
    left = {target.name, f"{target.name}.blobs"} if "." in name else {target.name}
    assert names(tmp_path / "elsewhere") == left


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
def test_the_same_recording_packs_to_the_same_bytes(tmp_path: Path, name: str) -> None:
    one = record(tmp_path / name, DRAFTS, OPTIONS)
    two = record(tmp_path / f"other-{name}", DRAFTS, OPTIONS)
    pack(one, tmp_path / "one")
    pack(two, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_low_preset_takes_more_room_for_the_same(tmp_path: Path) -> None:
    words = [draft(data={"n": n, "text": f"{n * 7919 % 977} {n % 31}"}) for n in range(2_000)]
    path = record(tmp_path / "c", words, OPTIONS)
    pack(path, tmp_path / "low", preset=0)
    pack(path, tmp_path / "high", preset=9)
    assert (tmp_path / "low").stat().st_size > (tmp_path / "high").stat().st_size
    assert unpack(tmp_path / "low", tmp_path / "copy").manifest == read_manifest(path)


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
def test_a_signature_travels_along(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, DRAFTS, OPTIONS)
    public = new_key(tmp_path / "key")
    sign(path, read_manifest(path), tmp_path / "key")
    pack(path, tmp_path / "one.tar.xz")
    target = tmp_path / f"copy-{name}"
    unpack(tmp_path / "one.tar.xz", target)
    check_signature(target, read_manifest(target), public)
    assert verify(target).manifest.event_count == 4


def test_sealed_values_and_what_was_torn_stay_at_home(tmp_path: Path) -> None:
    secret = "hunter" + "2" * 20
    options = Options(
        redactor=Redactor("default", declared=[secret]), seal=Seal(bytes(32)), durability="none"
    )
    result = draft("tool_result", {"callId": "c", "ok": True, "result": secret})
    path = record(tmp_path / "c", [result], options)
    (path / "torn").mkdir()
    (path / "torn" / "events.jsonl.tail").write_bytes(b"half a line")
    pack(path, tmp_path / "one.tar.xz")
    unpack(tmp_path / "one.tar.xz", tmp_path / "copy")
    assert names(tmp_path / "copy") == {"manifest.json", "events.jsonl"}


def test_a_damaged_recording_is_not_packed(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(2))
    (path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RecordingDamaged):
        pack(path, tmp_path / "one.tar.xz")
    assert names(tmp_path) == {"c"}


def test_nothing_is_overwritten_and_nothing_is_left_behind(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(2))
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(RecordingExists):
        pack(path, tmp_path / "taken")
    pack(path, tmp_path / "one")
    with pytest.raises(RecordingExists):
        unpack(tmp_path / "one", tmp_path / "taken")
    with pytest.raises(RecordingMissing):
        unpack(tmp_path / "two", tmp_path / "new")
    with pytest.raises(SinkUnwritable):
        pack(path, tmp_path / "no" / "folder")
    assert names(tmp_path) == {"c", "taken", "one"}


@pytest.mark.parametrize("content", [b"", b"text", b"\xfd7zXZ\x00", lzma.compress(b"text")])
def test_a_file_that_is_not_packed_is_damage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises((RecordingDamaged, RecordingMissing)):
        unpack(tmp_path / "bad", tmp_path / "new")
    assert names(tmp_path) == {"bad"}


def test_a_packed_file_cut_anywhere_is_damage_or_still_holds_everything(tmp_path: Path) -> None:
    path = record(tmp_path / "c", DRAFTS, OPTIONS)
    pack(path, tmp_path / "one")
    whole = (tmp_path / "one").read_bytes()
    refused = 0
    for size in range(0, len(whole), 23):
        (tmp_path / "cut").write_bytes(whole[:size])
        target = tmp_path / f"from-{size}"
        try:
            unpack(tmp_path / "cut", target)
        except RecordingDamaged:
            refused += 1
            assert not target.exists()
        else:  # only the checksum of the compression was lost
            assert contents(target) == contents(path)
    assert refused > len(whole) // 23 * 3 // 4


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../escape",
        "blobs/../escape",
        "blobs/aa/../../escape",
        "/blobs/aa/bb",
        "./manifest.json",
        "notes.txt",
        "sealed",
        "open.json",
        "blobs/aa",
        "blobs/aa/bb/cc",
        "other/aa/bb",
        "torn/x",
    ],
)
def test_a_member_that_no_recording_has_is_refused(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / "c", notes(1))
    packed = packed_with(tmp_path / "bad", *members(path), (tarfile.TarInfo(name), b"x"))
    with pytest.raises(RecordingDamaged, match="which no recording has") as caught:
        unpack(packed, tmp_path / "new")
    assert caught.value.place == f"member {name!r}"
    assert names(tmp_path) == {"c", "bad"}


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
)
@pytest.mark.parametrize("name", ["events.jsonl", "blobs/aa/bb"])
def test_a_member_that_is_not_a_file_is_refused(tmp_path: Path, kind: bytes, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, "manifest.json"
    path = record(tmp_path / "c", notes(1))
    packed = packed_with(tmp_path / "bad", members(path)[0], (entry, b""))
    with pytest.raises(RecordingDamaged):
        unpack(packed, tmp_path / "new")
    assert names(tmp_path) == {"c", "bad"}


def test_a_member_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    packed = packed_with(tmp_path / "bad", *members(path), members(path)[1])
    with pytest.raises(RecordingDamaged, match="twice"):
        unpack(packed, tmp_path / "new")
    assert names(tmp_path) == {"c", "bad"}


def test_a_packed_recording_that_does_not_verify_is_refused(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(2))
    manifest, (entry, log) = members(path)
    packed = packed_with(tmp_path / "bad", manifest, (entry, log.replace(b'"n":1', b'"n":7')))
    with pytest.raises(RecordingDamaged, match=r"events\.jsonl line 1"):
        unpack(packed, tmp_path / "new")
    assert names(tmp_path) == {"c", "bad"}
