from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reenact import __version__
from reenact.errors import RecordingExists, SinkUnwritable, UsageError
from reenact.format.event_fields import LlmRequest, RunEnd, RunStart, ToolCall, ToolResult
from reenact.format.manifest import Model, Origin, PolicyRef
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor
from reenact.store.reader import open_recording
from reenact.store.recording import Recording, start_recording
from reenact.store.seal import Seal, key_path, load_key
from reenact.store.verify import verify
from tests.unit.store.samples import contents, datas, read_manifest

SECRET = "hunter" + "2" * 20


class Broken(Exception):
    pass


def start(path: Path, **options: object) -> Recording:
    return start_recording(path, **{"redaction": "default", "durability": "none", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
def test_typed_events_and_plain_ones_are_recorded(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with start(path) as recording:
        assert recording.add(RunStart(input="hi")) == 1
        call = recording.add(ToolCall(name="t", args={"a": 1}, call_id="c"), lane="0.1")
        recording.add("tool_result", {"callId": "c", "ok": True, "result": 1.0}, parent=call)
        recording.add(RunEnd(status="ok"))
    verify(path)
    assert read_manifest(path).status == "ok"
    assert contents(path) == [
        (1, "run_start", "0", None, {"input": "hi"}),
        (2, "tool_call", "0.1", None, {"name": "t", "args": {"a": 1}, "callId": "c"}),
        (3, "tool_result", "0", 2, {"callId": "c", "ok": True, "result": 1.0}),
        (4, "run_end", "0", None, {"status": "ok"}),
    ]


def test_a_tape_is_chosen_by_its_name_or_by_saying_so(tmp_path: Path) -> None:
    for name, tape, is_file in (
        ("a.jsonl", None, True),
        ("b", None, False),
        ("c", True, True),
        ("d.jsonl", False, False),
    ):
        with start(tmp_path / name, tape=tape) as recording:
            recording.add(RunStart())
        assert (tmp_path / name).is_file() is is_file


def test_time_stamps_never_run_backwards(tmp_path: Path) -> None:
    with start(tmp_path / "c") as recording:
        for _ in range(20):
            recording.add(RunStart())
    with open_recording(tmp_path / "c") as source:
        stamps = [event.ts for event in source]
    manifest = read_manifest(tmp_path / "c")
    assert manifest.completed_at is not None
    assert sorted(stamps) == stamps
    assert manifest.created_at <= stamps[0] <= stamps[-1] <= manifest.completed_at


def test_two_recordings_have_different_ids(tmp_path: Path) -> None:
    for name in "ab":
        with start(tmp_path / name):
            pass
    one, two = read_manifest(tmp_path / "a"), read_manifest(tmp_path / "b")
    assert one.capture_id != two.capture_id
    assert one.run_id != two.run_id


def test_the_manifest_says_what_it_was_told_and_where_it_ran(tmp_path: Path) -> None:
    model, policy, parent = Model("p", "m"), PolicyRef("id", "sha256:1"), Origin("cap_0", 3)
    with start(tmp_path / "c", model=model, policy=policy, parent=parent):
        pass
    manifest = read_manifest(tmp_path / "c")
    assert (manifest.model, manifest.policy, manifest.parent) == (model, policy, parent)
    assert (manifest.mode, manifest.redaction.profile) == ("capture", "default")
    assert set(manifest.environment) == {"python", "platform", "reenact", "argvDigest"}
    assert manifest.environment["reenact"] == __version__


def test_a_body_that_raises_ends_the_recording_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(Broken), start(tmp_path / "c") as recording:
        recording.add(RunStart())
        raise Broken
    manifest = verify(tmp_path / "c").manifest
    assert (manifest.status, manifest.error, manifest.event_count) == ("error", "Broken", 1)


def test_an_exit_that_is_no_exception_is_an_end_too(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), start(tmp_path / "c"):
        raise KeyboardInterrupt
    assert read_manifest(tmp_path / "c").error == "KeyboardInterrupt"


def test_a_recording_that_cannot_be_closed_never_hides_what_the_body_raised(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    with pytest.raises(Broken), start(tmp_path / "c", warn=said.append) as recording:
        recording.add(RunStart())
        shutil.rmtree(tmp_path / "c")
        raise Broken
    assert len(said) == 1
    assert "cannot write" in said[0]


def test_a_recording_that_cannot_be_closed_says_so_when_the_body_was_fine(tmp_path: Path) -> None:
    with pytest.raises(SinkUnwritable), start(tmp_path / "c") as recording:
        recording.add(RunStart())
        shutil.rmtree(tmp_path / "c")


def test_a_place_that_cannot_be_written_is_refused_before_the_body_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    ran = False
    for name in ("file/capture", "file/tape.jsonl"):
        with pytest.raises(SinkUnwritable), start(tmp_path / name):
            ran = True
    assert not ran


def test_overwriting_must_be_said(tmp_path: Path) -> None:
    for name in ("capture", "tape.jsonl"):
        with start(tmp_path / name) as recording:
            recording.add(RunStart(input=1))
        with pytest.raises(RecordingExists):
            start(tmp_path / name)
        with start(tmp_path / name, overwrite=True) as recording:
            recording.add(RunStart(input=2))
        verify(tmp_path / name)
        assert datas(tmp_path / name) == [{"input": 2}]


def test_types_that_do_not_exist_and_data_that_is_missing_are_refused(tmp_path: Path) -> None:
    with start(tmp_path / "c") as recording:
        with pytest.raises(UsageError, match="not an event type") as caught:
            recording.add("dream", {})
        assert "run_start" in caught.value.hint
        with pytest.raises(UsageError, match="is missing"):
            recording.add("run_end")
    assert read_manifest(tmp_path / "c").event_count == 0


def test_received_secrets_are_sealed_with_the_users_own_key(tmp_path: Path) -> None:
    redactor = Redactor("default", declared=[SECRET])
    with start(tmp_path / "c", redaction=redactor) as recording:
        recording.add(ToolResult(call_id="c", ok=True, result=SECRET))
    key = load_key(key_path(dict(os.environ)))
    assert key is not None
    with open_recording(tmp_path / "c") as source:
        event = source.at(1)
        assert event.data["result"] == PLACEHOLDER
        assert source.restored(event, Seal(key)).data["result"] == SECRET


def test_sealing_can_be_switched_off(tmp_path: Path) -> None:
    redactor = Redactor("default", declared=[SECRET])
    with start(tmp_path / "c", redaction=redactor, seal=False) as recording:
        recording.add(ToolResult(call_id="c", ok=True, result=SECRET))
    assert not (tmp_path / "c" / "sealed").exists()
    assert read_manifest(tmp_path / "c").sealed is None


def test_repetition_is_found_without_naming_the_operation(tmp_path: Path) -> None:
    long = "a long question " * 100
    with start(tmp_path / "c") as recording:
        for turn in range(3):
            for model in ("m1", "m2"):
                extra = {"messages": [model, long, turn]}
                recording.add(LlmRequest(provider="p", model=model, input_hash="h", extra=extra))
    assert (tmp_path / "c" / "events.jsonl").stat().st_size < 3 * len(long)
    verify(tmp_path / "c")
