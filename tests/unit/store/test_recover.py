from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from reenact.errors import RecordingDamaged, RecordingMissing, RecordingUnfinished, WriterBusy
from reenact.format.manifest import Flag
from reenact.policy.redaction.redactor import Redactor
from reenact.store.reader import open_recording
from reenact.store.recover import recover
from reenact.store.seal import Seal
from reenact.store.sinks.base import Options
from reenact.store.sinks.segments import join_directory
from reenact.store.verify import verify
from tests.unit.store.samples import (
    CLOCK,
    NOW,
    PLAIN,
    abandon,
    contents,
    datas,
    draft,
    notes,
    record,
    start_sink,
)

CONTAINERS = pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
BLOBS = replace(PLAIN, blob_threshold=500)


def log_of(path: Path) -> Path:
    return path / "events.jsonl" if path.is_dir() else path.with_name(f"{path.name}.part")


def torn_of(path: Path) -> list[bytes]:
    if path.is_dir():
        return [file.read_bytes() for file in sorted((path / "torn").iterdir())]
    return [path.with_name(f"{path.name}.torn").read_bytes()]


@CONTAINERS
def test_every_whole_line_stays_and_the_manifest_is_added(tmp_path: Path, name: str) -> None:
    path = abandon(tmp_path / name, notes(3))
    before = log_of(path).read_bytes()
    recovery = recover(path, CLOCK)
    assert (recovery.cut, recovery.already_whole) == ((), False)
    assert recovery.manifest.status == "recovered"
    assert (recovery.manifest.capture_id, recovery.manifest.model.model) == ("cap_1", "m-1")
    report = verify(path)
    assert report.notes == ("recovered: its writer never closed it",)
    assert datas(path) == [{"n": 1}, {"n": 2}, {"n": 3}]
    after = (path / "events.jsonl" if path.is_dir() else path).read_bytes()
    assert after.startswith(before)


@CONTAINERS
def test_a_torn_tail_is_set_aside_and_reported(tmp_path: Path, name: str) -> None:
    path = abandon(tmp_path / name, notes(2))
    with log_of(path).open("ab") as file:
        file.write(b'{"version":1,"capt')
    recovery = recover(path, CLOCK)
    assert len(recovery.cut) == 1
    assert recovery.cut[0].startswith("18 bytes")
    assert torn_of(path) == [b'{"version":1,"capt']
    verify(path)
    assert datas(path) == [{"n": 1}, {"n": 2}]


@CONTAINERS
def test_a_recording_without_events_is_recovered_too(tmp_path: Path, name: str) -> None:
    path = abandon(tmp_path / name, [])
    assert recover(path, CLOCK).manifest.event_count == 0
    verify(path)
    assert contents(path) == []


@CONTAINERS
def test_a_whole_recording_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, notes(2))
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    recovery = recover(path, CLOCK)
    assert recovery.already_whole
    assert recovery.manifest.status == "ok"
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}


@CONTAINERS
def test_recovering_twice_changes_nothing(tmp_path: Path, name: str) -> None:
    path = abandon(tmp_path / name, notes(2))
    first = recover(path, CLOCK)
    again = recover(path, CLOCK)
    assert again.already_whole
    assert again.manifest == first.manifest


@CONTAINERS
def test_a_living_writer_is_not_disturbed(tmp_path: Path, name: str) -> None:
    sink = start_sink(tmp_path / name)
    sink.append(draft())
    with pytest.raises(WriterBusy, match="still being written"):
        recover(tmp_path / name, CLOCK)
    sink.append(draft())
    sink.finalize()
    assert verify(tmp_path / name).manifest.event_count == 2


@CONTAINERS
def test_nothing_there_is_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordingMissing):
        recover(tmp_path / name, CLOCK)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordingMissing, match="no events to recover"):
        recover(tmp_path / "empty", CLOCK)


@CONTAINERS
def test_a_whole_line_that_is_no_event_is_damage_unless_the_rest_is_given_up(
    tmp_path: Path, name: str
) -> None:
    path = abandon(tmp_path / name, notes(4))
    log = log_of(path)
    # A line of a tape says no seq, and one that does has to be right.
    said = b'"seq":8' if path.is_dir() else b'"seq":8,"ts"'
    lines = log.read_bytes().splitlines(keepends=True)
    number = 3 if path.is_dir() else 4
    was = b'"seq":3' if path.is_dir() else b'"ts"'
    lines[number - 1] = lines[number - 1].replace(was, said, 1)
    log.write_bytes(b"".join(lines))
    with pytest.raises(RecordingDamaged, match="expected event 3") as caught:
        recover(path, CLOCK)
    assert caught.value.place == f"{log.name} line {number}, field seq"
    recovery = recover(path, CLOCK, cut_damage=True)
    assert recovery.manifest.event_count == 2
    assert len(recovery.cut) == 1
    verify(path)
    assert datas(path) == [{"n": 1}, {"n": 2}]
    assert torn_of(path)[0].count(b"\n") == 2


@CONTAINERS
def test_a_lane_that_is_none_is_damage(tmp_path: Path, name: str) -> None:
    path = abandon(tmp_path / name, [draft(lane="0.1"), draft()])
    log = log_of(path)
    log.write_bytes(log.read_bytes().replace(b'"lane":"0.1"', b'"lane":"0.x"'))
    with pytest.raises(RecordingDamaged, match="is not a lane"):
        recover(path, CLOCK)


@CONTAINERS
def test_blobs_and_deltas_are_recovered(tmp_path: Path, name: str) -> None:
    drafts = [draft(data={"text": "word " * 300, "n": n}, op="chat") for n in range(4)]
    path = abandon(tmp_path / name, drafts, BLOBS)
    manifest = recover(path, CLOCK).manifest
    verify(path)
    assert datas(path) == [one.data for one in drafts]
    assert (Flag.DELTAS in manifest.flags) == path.is_dir()
    assert manifest.blobs.count == 1


def test_blobs_that_no_event_refers_to_are_set_aside(tmp_path: Path) -> None:
    path = abandon(tmp_path / "c", [draft(data={"text": "x" * 600})], BLOBS)
    for name in ("44/44f8", "ab/abcd.123-0.tmp"):
        (path / "blobs" / name).parent.mkdir(exist_ok=True)
        (path / "blobs" / name).write_bytes(b"orphan")
    recovery = recover(path, CLOCK)
    assert recovery.cut == (
        "blob 44f8, which no event refers to",
        "blob abcd.123-0.tmp, which no event refers to",
    )
    verify(path)
    assert torn_of(path) == [b"orphan", b"orphan"]


def test_without_open_json_the_first_event_says_who_it_was(tmp_path: Path) -> None:
    path = abandon(tmp_path / "c", notes(2))
    (path / "open.json").unlink()
    with pytest.raises(RecordingUnfinished, match="never finished"):
        open_recording(path)
    manifest = recover(path, CLOCK).manifest
    assert (manifest.capture_id, manifest.run_id) == ("cap_1", "run_1")
    assert manifest.created_at == NOW + 1
    verify(path)


@pytest.mark.parametrize("content", [b"", b'{"seed":', b"[]", b"\xff"])
def test_an_open_json_that_was_never_written_whole_is_no_obstacle(
    tmp_path: Path, content: bytes
) -> None:
    path = abandon(tmp_path / "c", notes(2))
    (path / "open.json").write_bytes(content)
    assert recover(path, CLOCK).manifest.event_count == 2
    verify(path)
    assert not (path / "open.json").exists()


def test_neither_an_event_nor_who_it_was_cannot_be_recovered(tmp_path: Path) -> None:
    path = abandon(tmp_path / "c", [])
    (path / "open.json").unlink()
    with pytest.raises(RecordingUnfinished) as caught:
        recover(path, CLOCK)
    assert caught.value.hint == "remove it and record again"


def test_half_a_manifest_beside_is_no_obstacle(tmp_path: Path) -> None:
    path = abandon(tmp_path / "c", notes(2))
    (path / "manifest.json.tmp").write_bytes(b'{"version"')
    assert recover(path, CLOCK).manifest.event_count == 2
    verify(path)


def test_segments_of_other_processes_are_merged(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    sink.append(draft(data={"of": 0}, ts=NOW))
    other = join_directory(tmp_path / "c", "p2", PLAIN)
    other.append(draft(data={"of": 1}, ts=NOW - 5, lane="0.1"))
    other.close()
    other.release()
    sink.append(draft(data={"of": 2}, ts=NOW + 1))
    sink.after_fork()
    with (tmp_path / "c" / "segments" / "p2.jsonl").open("ab") as file:
        file.write(b"torn")
    recovery = recover(tmp_path / "c", CLOCK)
    assert recovery.cut == ("4 bytes after the last complete event of p2.jsonl",)
    verify(tmp_path / "c")
    assert datas(tmp_path / "c") == [{"of": 1}, {"of": 0}, {"of": 2}]


def test_a_living_segment_is_not_disturbed(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    other = join_directory(tmp_path / "c", "p2", PLAIN)
    sink.after_fork()
    with pytest.raises(WriterBusy):
        recover(tmp_path / "c", CLOCK)
    other.append(draft())
    other.close()
    other.release()
    assert recover(tmp_path / "c", CLOCK).manifest.event_count == 1


def test_a_merge_that_stopped_in_the_middle_is_finished(tmp_path: Path) -> None:
    """The merged log is written; the segments, or the old log, may still be there."""
    for leftover in ("segments and log", "log", "nothing"):
        path = abandon(tmp_path / leftover, notes(2))
        shutil.copy(path / "events.jsonl", path / "merged.jsonl")
        if leftover == "segments and log":
            (path / "segments").mkdir()
            (path / "segments" / "p1.jsonl").write_bytes(b"")
        elif leftover == "nothing":
            (path / "events.jsonl").unlink()
        recover(path, CLOCK)
        verify(path)
        assert datas(path) == [{"n": 1}, {"n": 2}]
        assert {entry.name for entry in path.iterdir()} == {"manifest.json", "events.jsonl"}


def test_sealed_values_are_still_sealed_after_recovery(tmp_path: Path) -> None:
    secret = "hunter" + "2" * 20
    seal = Seal(bytes(32))
    options = Options(redactor=Redactor("default", declared=[secret]), seal=seal, durability="none")
    result = draft("tool_result", {"callId": "c", "ok": True, "result": secret})
    path = abandon(tmp_path / "c", [result], options)
    with (path / "sealed").open("ab") as file:
        file.write(b'{"seq":2,"pa')
    manifest = recover(path, CLOCK).manifest
    assert manifest.sealed == {"keyId": seal.key_id}
    with open_recording(path) as source:
        assert source.restored(source.at(1), seal).data["result"] == secret


def test_a_tape_that_was_closed_but_not_renamed_is_finished(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", notes(2))
    tape.rename(tmp_path / "t.jsonl.part")
    manifest = recover(tape, CLOCK).manifest
    assert (manifest.status, manifest.event_count) == ("recovered", 2)
    verify(tape)


def test_a_tape_beside_an_unfinished_one_is_for_people_to_decide(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", notes(2))
    sink = start_sink(tape, replace=True)
    sink.append(draft())
    sink.after_fork()
    with pytest.raises(RecordingUnfinished, match="both") as caught:
        recover(tape, CLOCK)
    assert "move one of them away" in caught.value.hint
    verify(tape)


def test_blobs_of_a_tape_are_found_wherever_the_kill_left_them(tmp_path: Path) -> None:
    drafts = [draft(data={"text": letter * 600}) for letter in "abc"]
    tape = abandon(tmp_path / "t.jsonl", drafts, BLOBS)
    own = tmp_path / "t.jsonl.part.blobs"
    first = next(file for file in sorted(own.rglob("*")) if file.is_file())
    moved = tmp_path / "t.jsonl.blobs" / first.relative_to(own)
    moved.parent.mkdir(parents=True)
    first.rename(moved)
    recover(tape, CLOCK)
    verify(tape)
    assert datas(tape) == [one.data for one in drafts]
    assert not own.exists()


@pytest.mark.parametrize("header", [b"", b'{"version":1', b"{}\n", b"[]\n"])
def test_a_tape_without_a_header_is_damage(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "t.jsonl.part").write_bytes(header)
    with pytest.raises(RecordingDamaged) as caught:
        recover(tmp_path / "t.jsonl", CLOCK)
    assert caught.value.place == "t.jsonl.part line 1"
