from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import RecordingDamaged, RecordingExists, RecordingMissing, UsageError
from reenact.format.event import unknown_fields
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor
from reenact.store.reader import open_recording
from reenact.store.recover import recover
from reenact.store.rewrite import migrate, redact_again
from reenact.store.seal import Seal
from reenact.store.sinks.base import Options
from reenact.store.verify import verify
from tests.unit.store.samples import (
    CLOCK,
    NOW,
    abandon,
    contents,
    datas,
    draft,
    notes,
    read_manifest,
    record,
    rewrite_manifest,
)

SECRET = "hunter" + "2" * 20
REDACTOR = Redactor("default", declared=[SECRET])


# Redacting again


@pytest.mark.parametrize("old", ["capture", "tape.jsonl"])
@pytest.mark.parametrize("new", ["copy", "copy.jsonl"])
def test_a_copy_has_less_in_it_and_is_a_recording_of_its_own(
    tmp_path: Path, old: str, new: str
) -> None:
    drafts = [
        draft(data={"text": SECRET}, lane="0.1"),
        draft(data={"n": 2}, parent=1, ts=NOW + 1),
        draft("tool_result", {"callId": "c", "ok": True, "result": [SECRET, SECRET]}),
    ]
    source = record(tmp_path / old, drafts)
    before = contents(source)
    removed = redact_again(source, tmp_path / new, REDACTOR, CLOCK)
    verify(tmp_path / new)
    assert contents(tmp_path / new) == [
        (1, "x_note", "0.1", None, {"text": PLACEHOLDER}),
        (2, "x_note", "0", 1, {"n": 2}),
        (
            3,
            "tool_result",
            "0",
            None,
            {
                "callId": "c",
                "ok": True,
                "result": [PLACEHOLDER, PLACEHOLDER],
                "redacted": ["$.result[0]", "$.result[1]"],
            },
        ),
    ]
    assert removed.events == {1: ["$.text"], 3: ["$.result[0]", "$.result[1]"]}
    assert removed.by_rule == {"declared": 3}
    assert contents(source) == before
    manifest = read_manifest(tmp_path / new)
    assert manifest == removed.manifest
    assert (manifest.capture_id, manifest.run_id) == ("cap_1", "run_1")
    assert (manifest.redaction.enabled, manifest.redaction.profile) == (True, "default")
    assert manifest.integrity.content_hash != read_manifest(source).integrity.content_hash


@pytest.mark.parametrize("new", ["copy", "copy.jsonl"])
def test_fields_of_a_later_minor_version_are_copied(tmp_path: Path, new: str) -> None:
    source = record(tmp_path / "c", [draft(extra={"mood": {"data": 1}}), draft(lane="0.1")])
    rewrite_manifest(source, format={"name": "reenact", "version": "1.9"}, weather=["rain"])
    redact_again(source, tmp_path / new, REDACTOR, CLOCK)
    verify(tmp_path / new)
    with open_recording(tmp_path / new) as copy:
        assert copy.manifest().extra == {"weather": ["rain"]}
        assert copy.manifest().format.version == "1.9"
        assert unknown_fields(copy.raw(1)) == {"mood": {"data": 1}}
        assert unknown_fields(copy.raw(2)) == {}


def test_how_the_recording_ended_is_copied(tmp_path: Path) -> None:
    abandon(tmp_path / "c", notes(2))
    recover(tmp_path / "c", CLOCK)
    assert redact_again(tmp_path / "c", tmp_path / "d", REDACTOR, CLOCK).manifest.status == (
        "recovered"
    )


def test_nothing_sealed_is_copied_and_earlier_marks_stay(tmp_path: Path) -> None:
    mail = "somebody" + "@" + "example.org"
    result = {"callId": "c", "ok": True, "result": {"a": SECRET, "b": mail}}
    options = Options(redactor=REDACTOR, seal=Seal(bytes(32)), durability="none")
    source = record(tmp_path / "c", [draft("tool_result", result)], options)
    assert datas(source)[0]["redacted"] == ["$.result.a"]
    removed = redact_again(source, tmp_path / "d", Redactor("strict"), CLOCK)
    assert removed.manifest.flags == []
    assert removed.manifest.sealed is None
    assert not (tmp_path / "d" / "sealed").exists()
    [data] = datas(tmp_path / "d")
    assert mail not in str(data)
    assert data["redacted"] == ["$.result.a", "$.result.b"]


def test_redacting_with_nothing_or_onto_something_is_refused(tmp_path: Path) -> None:
    source = record(tmp_path / "c", notes(1))
    with pytest.raises(UsageError, match="removes nothing"):
        redact_again(source, tmp_path / "d", Redactor("none"), CLOCK)
    with pytest.raises(RecordingExists):
        redact_again(source, source, REDACTOR, CLOCK)
    verify(source)


def test_a_damaged_recording_is_not_copied(tmp_path: Path) -> None:
    source = record(tmp_path / "c", notes(1))
    (source / "events.jsonl").write_bytes(b"")
    with pytest.raises(RecordingDamaged):
        redact_again(source, tmp_path / "d", REDACTOR, CLOCK)
    assert not (tmp_path / "d").exists()


# Format 0: the source document's own


def old_events(first: int = 1) -> list[dict[str, Any]]:
    told: list[tuple[str, dict[str, Any]]] = [
        ("run_start", {"input": "hi", "sessionKey": "main"}),
        ("llm_request", {"provider": "p", "model": "m", "inputHash": "h"}),
        (
            "llm_response",
            {
                "provider": "p",
                "model": "m",
                "stopReason": "stop",
                "usage": {"n": 1},
                "response": "é",
            },
        ),
        ("nondeterministic", {"source": "clock", "key": "now", "valueHash": "h", "value": 1.0}),
        ("run_end", {"status": "ok"}),
    ]
    return [
        {
            "version": 1,
            "captureId": "cap-0",
            "runId": "run-0",
            "seq": seq,
            "ts": NOW + seq,
            "type": kind,
            "data": data,
        }
        for seq, (kind, data) in enumerate(told, first)
    ]


def old_capture(
    folder: Path, events: list[dict[str, Any]], *, prefix: str = "", **changes: Any
) -> Path:
    """A capture as the source document's own sink writes it: no ``format``, plain JSON lines."""
    folder.mkdir()
    log = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events).encode()
    manifest = {
        "version": 1,
        "captureId": "cap-0",
        "runId": "run-0",
        "createdAt": NOW,
        "completedAt": NOW + 9,
        "mode": "capture",
        "model": {"provider": "p", "model": "m"},
        "eventCount": len(events),
        "eventLogPath": "events.jsonl",
        "redaction": {"enabled": True, "profile": "default"},
        "integrity": {
            "algorithm": "sha256",
            "eventsHash": prefix + hashlib.sha256(log).hexdigest(),
        },
        "status": "ok",
    }
    (folder / "events.jsonl").write_bytes(log)
    text = json.dumps({**manifest, **changes}, indent=2)
    (folder / "manifest.json").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("prefix", ["", "sha256:"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_capture_of_format_0_becomes_one_of_this_format(
    tmp_path: Path, prefix: str, first: int
) -> None:
    old = old_capture(tmp_path / "old", old_events(first), prefix=prefix)
    manifest = migrate(old, tmp_path / "new", CLOCK)
    verify(tmp_path / "new")
    assert manifest.format.version == "1.0"
    assert (manifest.capture_id, manifest.run_id, manifest.created_at) == ("cap-0", "run-0", NOW)
    assert (manifest.model.provider, manifest.model.model) == ("p", "m")
    assert (manifest.redaction.profile, manifest.status, manifest.event_count) == (
        "default",
        "ok",
        5,
    )
    assert [(seq, kind, data) for seq, kind, _, _, data in contents(tmp_path / "new")] == [
        (number, event["type"], event["data"]) for number, event in enumerate(old_events(), 1)
    ]
    with open_recording(tmp_path / "new") as source:
        assert [event.ts for event in source] == [event["ts"] for event in old_events(first)]


def test_how_an_old_capture_ended_and_what_else_it_said_are_kept(tmp_path: Path) -> None:
    old = old_capture(tmp_path / "old", [], status="error", error="it broke", note={"a": 1})
    manifest = migrate(old, tmp_path / "new", CLOCK)
    assert (manifest.status, manifest.error) == ("error", "it broke")
    assert manifest.extra == {"note": {"a": 1}}


def test_a_secret_in_an_old_capture_is_redacted_on_the_way(tmp_path: Path) -> None:
    events = old_events()
    events[0]["data"]["env"] = {"SOME_API_KEY": SECRET}
    migrate(old_capture(tmp_path / "old", events), tmp_path / "new", CLOCK)
    assert SECRET not in (tmp_path / "new" / "events.jsonl").read_text(encoding="utf-8")


def test_a_damaged_old_capture_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    old = old_capture(tmp_path / "old", old_events())
    log = old / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"hi"', b'"ho"'))
    with pytest.raises(RecordingDamaged, match="its hash differs") as caught:
        migrate(old, tmp_path / "new", CLOCK)
    assert caught.value.place == "file events.jsonl"
    log.unlink()
    with pytest.raises(RecordingDamaged, match="cannot be read"):
        migrate(old, tmp_path / "new", CLOCK)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["ts", "type", "data"])
def test_an_old_event_without_a_field_is_named(tmp_path: Path, name: str) -> None:
    events = old_events()
    del events[2][name]
    with pytest.raises(RecordingDamaged) as caught:
        migrate(old_capture(tmp_path / "old", events), tmp_path / "new", CLOCK)
    assert caught.value.place == "event 3"


def test_there_must_be_something_to_migrate(tmp_path: Path) -> None:
    with pytest.raises(RecordingMissing):
        migrate(tmp_path / "nothing", tmp_path / "new", CLOCK)
    with pytest.raises(UsageError, match="format 1 already"):
        migrate(record(tmp_path / "c", notes(1)), tmp_path / "new", CLOCK)


def test_migrating_onto_something_is_refused(tmp_path: Path) -> None:
    old = old_capture(tmp_path / "old", old_events())
    taken = record(tmp_path / "new", notes(1))
    with pytest.raises(RecordingExists):
        migrate(old, taken, CLOCK)
    verify(taken)
