from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reenact.errors import RecordingDamaged
from reenact.store.reader import open_recording
from reenact.store.verify import verify
from tests.unit.store.samples import (
    PLAIN,
    draft,
    forge,
    notes,
    read_manifest,
    record,
    rewrite_manifest,
    start_sink,
)

CONTAINERS = pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
BLOBS = replace(PLAIN, blob_threshold=500)


def place_of(path: Path) -> str:
    with pytest.raises(RecordingDamaged) as caught:
        verify(path)
    return caught.value.place


def blobs_of(path: Path) -> Path:
    return path / "blobs" if path.is_dir() else path.with_name(f"{path.name}.blobs")


def blob_files(path: Path) -> list[Path]:
    return [file for file in blobs_of(path).rglob("*") if file.is_file()]


@CONTAINERS
def test_a_whole_recording_passes_without_notes(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, [*notes(3), draft(data={"text": "x" * 600})], BLOBS)
    report = verify(path)
    assert (report.path, report.notes) == (path, ())
    assert report.manifest == read_manifest(path)


def test_an_error_at_the_end_is_a_note_not_a_fault(tmp_path: Path) -> None:
    for error, note in (("it broke", "it broke"), (None, "which one was not recorded")):
        sink = start_sink(tmp_path / str(error))
        sink.finalize("error", error)
        assert verify(tmp_path / str(error)).notes == (f"ended with an error: {note}",)


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "manifest.json.tmp", "segments"])
def test_a_file_that_does_not_belong_is_named(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / "c", notes(1))
    (path / name).mkdir() if name == "segments" else (path / name).write_bytes(b"")
    with open_recording(path) as source:
        assert source.remaining() == 1  # a replay does not depend on it
    assert place_of(path) == f"file {name}"


@CONTAINERS
def test_a_blob_that_no_event_refers_to_is_named(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, [draft(data={"text": "x" * 600})], BLOBS)
    stray = blobs_of(path) / "ab" / "cdef"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"")
    assert place_of(path) == f"file {blobs_of(path).name}/ab/cdef"


@CONTAINERS
@pytest.mark.parametrize("damage", ["gone", "edited", "cut"])
def test_a_bad_blob_is_named(tmp_path: Path, name: str, damage: str) -> None:
    path = record(tmp_path / name, [draft(), draft(data={"text": "x" * 600})], BLOBS)
    [file] = blob_files(path)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(b"y" * 600 if damage == "edited" else b"x" * 599)
    assert place_of(path) == f"blob sha256:{file.name}"


@CONTAINERS
def test_a_missing_minimum_field_is_named(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, [draft(), draft("tool_call", {"name": "t", "callId": "c"})])
    log = "events.jsonl line 2" if path.is_dir() else "tape.jsonl line 3"
    assert place_of(path) == f"{log}, field $.data"
    with pytest.raises(RecordingDamaged, match="`args`"):
        verify(path)


@pytest.mark.parametrize("parent", [0, 2, 3, 99])
def test_a_parent_that_cannot_be_one_is_named(tmp_path: Path, parent: int) -> None:
    path = record(tmp_path / "c", notes(2))
    log = (path / "events.jsonl").read_bytes()
    forge(path, log.replace(b'"data":{"n":2}', b'"parent":%d,"data":{"n":2}' % parent))
    assert place_of(path) == "events.jsonl line 2, field $.parent"


@pytest.mark.parametrize(
    "old, new, place",
    [
        (b'"data":{"n":2}', b'"data":{"n":2,"n":2}', "events.jsonl line 2, field $"),
        (b'"cap_1","runId":"run_1","seq":2', b'"cap_2","runId":"run_1","seq":2',
         "events.jsonl line 2, field $.captureId"),
        (b'"run_1","seq":2', b'"run_2","seq":2', "events.jsonl line 2, field $.runId"),
        (b'"data":{"n":2}', b'"data":[2]', "events.jsonl line 2, field $.data"),
        (b'"seq":2', b'"seq":3', "events.jsonl line 2, field seq"),
        (b'{"version":1,"captureId":"cap_1","runId":"run_1","seq":2', b'{"version":2,"captureId"'
         b':"cap_1","runId":"run_1","seq":2', "events.jsonl line 2, field version"),
        (b'"n":2', b'"n":3', "manifest.json, field integrity.contentHash"),
        (b'"type":"x_note","data":{"n":2}', b'"type":"x_note","lane":"0.1","data":{"n":2}',
         "manifest.json, field integrity.contentHash"),
    ],
)  # fmt: skip
def test_a_forger_who_mends_the_hashes_is_still_caught(
    tmp_path: Path, old: bytes, new: bytes, place: str
) -> None:
    """Not against somebody who mends everything: that is what signatures are for."""
    path = record(tmp_path / "c", notes(3))
    log = (path / "events.jsonl").read_bytes()
    assert log.count(old) == 1
    forge(path, log.replace(old, new))
    assert place_of(path) == place


@pytest.mark.parametrize(
    "change, place",
    [
        ({"lanes": 2}, "manifest.json, field lanes"),
        ({"blobs": {"count": 1, "bytes": 0}}, "manifest.json, field blobs"),
        ({"blobs": {"count": 0, "bytes": 9}}, "manifest.json, field blobs"),
        ({"eventCount": 2}, "events.jsonl line 2"),
        ({"eventCount": 0}, "events.jsonl line 1"),
    ],
)
def test_a_manifest_that_counts_otherwise_is_damage(
    tmp_path: Path, change: dict[str, Any], place: str
) -> None:
    path = record(tmp_path / "c", notes(1))
    rewrite_manifest(path, **change)
    assert place_of(path) == place


def test_a_delta_that_rebuilds_something_else_is_damage(tmp_path: Path) -> None:
    drafts = [draft(data={"text": "word " * 300, "n": n}, op="chat") for n in range(3)]
    path = record(tmp_path / "c", drafts)
    log = (path / "events.jsonl").read_bytes()
    first = log.index(b"word word")
    forge(path, log[:first] + b"sword" + log[first + 5 :])
    assert place_of(path) == "event 2"
