from __future__ import annotations

import stat
from pathlib import Path

import pytest

from reenact.errors import RecordingDamaged
from reenact.format.manifest import Flag
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor
from reenact.store.reader import open_recording
from reenact.store.seal import Seal, read_sealed
from reenact.store.sinks.base import Options
from reenact.store.sinks.segments import join_directory
from reenact.store.verify import verify
from tests.unit.store.samples import NOW, draft, read_manifest, record, start_sink

SECRET = "hunter" + "2" * 20
OWN, OTHER = Seal(bytes(32)), Seal(bytes([1] * 32))
RESULT = {"callId": "c", "ok": True, "result": {"text": f"<{SECRET}>", "n": [1.0]}}
BINARY = {"callId": "d", "ok": True, "result": [b"\xff " + SECRET.encode()]}


def sealing(seal: Seal | None = OWN) -> Options:
    return Options(redactor=Redactor("default", declared=[SECRET]), seal=seal, durability="none")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    drafts = [
        draft("tool_result", RESULT),
        draft("tool_result", BINARY),
        draft("tool_call", {"name": "t", "callId": "c", "args": [SECRET]}),
    ]
    return record(tmp_path / "c", drafts, sealing())


def test_with_the_key_the_program_gets_back_what_it_received(recording: Path) -> None:
    verify(recording)
    with open_recording(recording) as source:
        for seq, told in ((1, RESULT), (2, BINARY)):
            restored = source.restored(source.at(seq), OWN)
            assert restored.absent == ()
            assert {**told, "redacted": restored.data["redacted"]} == restored.data


def test_the_event_itself_keeps_its_placeholder(recording: Path) -> None:
    with open_recording(recording) as source:
        event = source.at(1)
        source.restored(event, OWN)
        assert event.data["result"]["text"] == f"<{PLACEHOLDER}>"
        assert event.data["redacted"] == ["$.result.text"]


@pytest.mark.parametrize("seal", [None, OTHER])
def test_without_the_key_the_placeholder_stays_and_is_reported(
    recording: Path, seal: Seal | None
) -> None:
    with open_recording(recording) as source:
        restored = source.restored(source.at(1), seal)
        assert restored.absent == ("$.result.text",)
        assert restored.data == source.at(1).data


def test_without_the_sealed_file_the_placeholder_stays_and_is_reported(recording: Path) -> None:
    (recording / "sealed").unlink()
    verify(recording)
    with open_recording(recording) as source:
        assert source.restored(source.at(1), OWN).absent == ("$.result.text",)


def test_what_the_program_sent_is_not_sealed(recording: Path) -> None:
    with open_recording(recording) as source:
        event = source.at(3)
        assert event.data["args"] == [PLACEHOLDER]
        assert source.restored(event, OWN).data == event.data
    assert [line.seq for line in read_sealed(recording / "sealed")] == [1, 2]


def test_the_sealed_file_is_private_and_holds_no_plain_text(recording: Path) -> None:
    file = recording / "sealed"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    everything = b"".join(path.read_bytes() for path in recording.iterdir())
    assert SECRET.encode() not in everything
    assert {line.key for line in read_sealed(file)} == {OWN.key_id}


def test_the_manifest_says_that_values_are_sealed_and_with_which_key(recording: Path) -> None:
    manifest = read_manifest(recording)
    assert Flag.SEALED in manifest.flags
    assert manifest.sealed == {"keyId": OWN.key_id}


def test_nothing_to_seal_leaves_no_trace_of_sealing(tmp_path: Path) -> None:
    path = record(tmp_path / "c", [draft(data={"a": 1})], sealing())
    assert not (path / "sealed").exists()
    assert read_manifest(path).flags == []
    assert read_manifest(path).sealed is None


def test_a_box_that_was_moved_to_another_event_does_not_open(recording: Path) -> None:
    file = recording / "sealed"
    first, second = file.read_bytes().splitlines(keepends=True)
    moved = second.replace(b'"seq":2', b'"seq":1').replace(b"$.result[0]", b"$.result.text")
    file.write_bytes(moved)
    assert moved != first
    with open_recording(recording) as source, pytest.raises(RecordingDamaged):
        source.restored(source.at(1), OWN)


def test_a_sealed_line_that_is_not_one_is_damage(recording: Path) -> None:
    (recording / "sealed").write_bytes(b'{"seq":"one"}\n')
    with pytest.raises(RecordingDamaged) as caught, open_recording(recording) as source:
        source.restored(source.at(1), OWN)
    assert caught.value.place == "sealed line 1"


def test_sealed_values_follow_their_events_through_a_merge(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c", sealing())
    other = join_directory(tmp_path / "c", "p", sealing())
    told = []
    for turn in range(6):
        for number, writer in enumerate((sink, other)):
            data = {"callId": f"{number}", "ok": True, "result": f"{SECRET} {number} {turn}"}
            told.append(data)
            stamp = NOW + turn
            writer.append(draft("tool_result", data, ts=stamp, lane=f"0.{number}"))
    other.close()
    other.release()
    manifest = sink.finalize()
    verify(tmp_path / "c")
    assert manifest.sealed == {"keyId": OWN.key_id}
    with open_recording(tmp_path / "c") as source:
        for event, data in zip(source, told, strict=True):
            restored = source.restored(event, OWN)
            assert restored.absent == ()
            assert restored.data["result"] == data["result"]
