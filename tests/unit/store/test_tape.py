from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from reenact.errors import (
    RecordingDamaged,
    RecordingExists,
    RecordingMissing,
    RecordingUnfinished,
    SinkError,
    UsageError,
    WriterBusy,
)
from reenact.format.manifest import Flag
from reenact.store.reader import open_recording
from reenact.store.sinks.tape import TapeSink
from reenact.store.verify import verify
from tests.unit.store.samples import (
    CLOCK,
    NOW,
    PLAIN,
    abandon,
    contents,
    datas,
    draft,
    make_seed,
    notes,
    raw_lines,
    read_manifest,
    record,
    start_sink,
)

BLOBS = replace(PLAIN, blob_threshold=500)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


def test_a_tape_is_a_header_one_line_per_event_and_a_closing_line(tmp_path: Path) -> None:
    tape = record(
        tmp_path / "t.jsonl",
        [
            draft("tool_call", {"name": "t", "callId": "c", "args": b"\xff"}, ts=5),
            draft(lane="0.1"),
        ],
    )
    header, first, second, closing = raw_lines(tape)
    assert json.loads(header) == {
        "version": 1,
        "format": {"name": "reenact", "version": "1.0"},
        "captureId": "cap_1",
        "runId": "run_1",
        "createdAt": NOW,
        "mode": "capture",
        "model": {"provider": "example", "model": "m-1"},
        "eventLogPath": "tape",
        "redaction": {"enabled": False, "profile": "none"},
        "environment": {"python": "3.11.0"},
    }
    assert first == (
        b'{"ts":5,"type":"tool_call","data":{"args":{"$bytes":"/w=="},"callId":"c","name":"t"}}'
    )
    assert second == b'{"ts":%d,"type":"x_note","lane":"0.1","data":{}}' % NOW
    closed = json.loads(closing)
    assert list(closed) == ["closed"]
    assert not set(closed["closed"]) & set(json.loads(header))
    assert closed["closed"]["eventCount"] == 2
    assert names(tmp_path) == {"t.jsonl"}


def test_recording_the_same_again_changes_no_event_line(tmp_path: Path) -> None:
    one = record(tmp_path / "a.jsonl", notes(5))
    two = record(tmp_path / "b.jsonl", notes(5), capture_id="cap_9", run_id="run_9")
    assert raw_lines(one)[1:-1] == raw_lines(two)[1:-1]
    assert raw_lines(one)[0] != raw_lines(two)[0]


def test_a_changed_event_changes_its_own_line_only(tmp_path: Path) -> None:
    """Deltas would make every later line depend on it: a tape has none."""
    long = [draft(data={"text": "word " * 300, "n": number}) for number in range(6)]
    edited = [*long]
    edited[2] = draft(data={"text": "other " * 300, "n": 2})
    one, two = record(tmp_path / "a.jsonl", long), record(tmp_path / "b.jsonl", edited)
    changed = [
        number
        for number, pair in enumerate(zip(raw_lines(one), raw_lines(two), strict=True))
        if pair[0] != pair[1]
    ]
    assert changed == [3, 7]
    assert read_manifest(one).flags == [Flag.REVIEWED]


def test_what_is_above_the_threshold_lies_beside_the_tape(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [draft(data={"big": "x" * 600, "small": "y"})], BLOBS)
    assert names(tmp_path) == {"t.jsonl", "t.jsonl.blobs"}
    assert b'"kind":"text"' in raw_lines(tape)[1]
    assert b'"small":"y"' in raw_lines(tape)[1]
    verify(tape)
    assert datas(tape) == [{"big": "x" * 600, "small": "y"}]


def test_a_tape_has_another_name_until_it_is_finished(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "t.jsonl")
    sink.append(draft())
    assert names(tmp_path) == {"t.jsonl.part"}
    with pytest.raises(RecordingUnfinished, match="still being recorded"):
        open_recording(tmp_path / "t.jsonl")
    with pytest.raises(WriterBusy):
        start_sink(tmp_path / "t.jsonl")
    with pytest.raises(WriterBusy):
        start_sink(tmp_path / "t.jsonl", replace=True)
    manifest = sink.finalize()
    assert names(tmp_path) == {"t.jsonl"}
    assert sink.finalize() is manifest
    with pytest.raises(SinkError, match="closed"):
        sink.append(draft())


def test_a_tape_sink_is_started_once_and_before_it_is_used(tmp_path: Path) -> None:
    sink = TapeSink(tmp_path / "t.jsonl", clock=CLOCK, options=PLAIN)
    with pytest.raises(UsageError, match="start the sink"):
        sink.append(draft())
    with pytest.raises(UsageError):
        sink.finalize()
    sink.start(make_seed("tape"))
    with pytest.raises(UsageError, match="started already"):
        sink.start(make_seed("tape"))
    assert sink.finalize().event_count == 0


def test_a_place_that_is_taken_is_refused_with_a_hint_of_its_own(tmp_path: Path) -> None:
    finished = record(tmp_path / "finished.jsonl", notes(1))
    unfinished = abandon(tmp_path / "unfinished.jsonl", notes(1))
    with pytest.raises(RecordingExists, match="already exists") as caught:
        start_sink(finished)
    assert caught.value.hint == "choose another place, or say overwrite"
    with pytest.raises(
        RecordingExists, match=r"\.part is a recording that was never fin"
    ) as caught:
        start_sink(unfinished)
    assert caught.value.hint == f"reenact recover {unfinished}, or say overwrite to give it up"


def test_the_old_tape_is_whole_until_the_new_one_is_finished(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [draft(data={"old": "x" * 600})], BLOBS)
    sink = start_sink(tape, BLOBS, replace=True)
    sink.append(draft(data={"new": "y" * 700}))
    verify(tape)
    assert datas(tape) == [{"old": "x" * 600}]
    sink.finalize()
    verify(tape)
    assert datas(tape) == [{"new": "y" * 700}]
    assert names(tmp_path) == {"t.jsonl", "t.jsonl.blobs"}
    assert files(tmp_path / "t.jsonl.blobs") == 1


def test_a_replacement_that_never_finishes_leaves_the_old_tape_whole(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [draft(data={"old": "x" * 600})], BLOBS)
    sink = start_sink(tape, BLOBS, replace=True)
    sink.append(draft(data={"new": "y" * 700}))
    sink.after_fork()  # as if its process had ended
    verify(tape)
    assert datas(tape) == [{"old": "x" * 600}]
    record(tape, [draft(data={"newer": "z" * 700})], BLOBS, replace=True)
    verify(tape)
    assert datas(tape) == [{"newer": "z" * 700}]
    assert names(tmp_path) == {"t.jsonl", "t.jsonl.blobs"}


def test_a_blob_that_both_tapes_use_survives_the_replacement(tmp_path: Path) -> None:
    shared = draft(data={"shared": "x" * 600})
    tape = record(tmp_path / "t.jsonl", [shared, draft(data={"gone": "y" * 600})], BLOBS)
    record(tape, [shared], BLOBS, replace=True)
    verify(tape)
    assert datas(tape) == [shared.data]
    assert files(tmp_path / "t.jsonl.blobs") == 1


def test_a_forked_child_records_nothing_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    sink = start_sink(tmp_path / "t.jsonl", replace(PLAIN, warn=said.append))
    sink.after_fork()
    assert sink.append(draft()) == 0
    assert len(said) == 1
    assert "holds one process" in said[0]


def test_a_tape_is_never_sealed_and_never_a_delta(tmp_path: Path) -> None:
    from reenact.policy.redaction.redactor import Redactor
    from reenact.store.seal import Seal

    secret = "hunter" + "2" * 20
    options = replace(PLAIN, redactor=Redactor("default", declared=[secret]), seal=Seal(bytes(32)))
    result = draft("tool_result", {"callId": "c", "ok": True, "result": f"it is {secret}"})
    tape = record(tmp_path / "t.jsonl", [result], options)
    assert names(tmp_path) == {"t.jsonl"}
    assert read_manifest(tape).flags == [Flag.REVIEWED]
    assert secret not in tape.read_text(encoding="utf-8")


def test_nothing_there_is_missing_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(RecordingMissing, match="no recording found"):
        open_recording(tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    "damage, place",
    [
        (lambda lines: lines[:-1], "t.jsonl line 4"),
        (lambda lines: [lines[0], *lines[2:]], "t.jsonl line 2"),
        (
            lambda lines: [*lines[:2], lines[2].replace(b'"n":2', b'"n":9'), *lines[3:]],
            "t.jsonl line 3",
        ),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], "t.jsonl line 4"),
        (lambda lines: [b"{}\n", *lines[1:]], "t.jsonl line 1"),
        (lambda lines: [*lines[:-1], lines[-1][:-20]], "t.jsonl line 5"),
        (lambda lines: [], "t.jsonl line 1"),
        (
            lambda lines: [lines[0].replace(b"cap_1", b"cap_2"), *lines[1:]],
            "t.jsonl (first and last line)",
        ),
        (
            lambda lines: [*lines[:-1], lines[-1].replace(b'"ok"', b'"error"')],
            "t.jsonl (first and last line)",
        ),
    ],
)
def test_damage_is_located(tmp_path: Path, damage: object, place: str) -> None:
    assert callable(damage)
    tape = record(tmp_path / "t.jsonl", notes(3))
    lines = tape.read_bytes().splitlines(keepends=True)
    tape.write_bytes(b"".join(damage(lines)))
    with pytest.raises(RecordingDamaged) as caught:
        open_recording(tape)
    assert caught.value.place == place


def test_fields_of_a_later_version_in_the_header_are_kept(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", notes(1), extra={"mood": {"good": True}})
    assert json.loads(raw_lines(tape)[0])["mood"] == {"good": True}
    assert read_manifest(tape).extra == {"mood": {"good": True}}
    verify(tape)


def test_events_come_back_with_the_ids_of_the_header(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [draft(data={"a": b"x"}, lane="0.2"), draft(parent=1)])
    assert contents(tape) == [
        (1, "x_note", "0.2", None, {"a": b"x"}),
        (2, "x_note", "0", 1, {}),
    ]
    with open_recording(tape) as source:
        assert {(one.capture_id, one.run_id) for one in source} == {("cap_1", "run_1")}
