"""What a recording says about itself besides its events, and copies of them with changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reenact.errors import SinkError, UsageError
from reenact.format.manifest import Flag
from reenact.policy.redaction.redactor import Redactor
from reenact.store.reader import open_recording
from reenact.store.rewrite import redact_again
from reenact.store.sinks.base import Sink
from reenact.store.sinks.copy import Copier, CopyOnWriteSink
from reenact.store.sinks.memory import MemorySink, memory_seed, memory_source
from tests.unit.store.samples import (
    CLOCK,
    PLAIN,
    datas,
    draft,
    make_seed,
    make_sink,
    notes,
    read_manifest,
    record,
    start_sink,
)

PLACES = pytest.mark.parametrize("name", ["capture", "tape.jsonl"])


def _flags(path: Path) -> list[int]:
    """What a recording says besides what every tape says."""
    return [flag for flag in read_manifest(path).flags if flag != Flag.REVIEWED]


def _flagged(path: Path) -> Path:
    sink = start_sink(path)
    sink.append(draft(data={"n": 1}))
    sink.flag(Flag.APPROXIMATE)
    sink.finalize()
    return path


@PLACES
def test_a_flag_is_in_the_manifest_and_a_reader_knows_it(tmp_path: Path, name: str) -> None:
    assert _flags(_flagged(tmp_path / name)) == [3]


@PLACES
def test_without_being_told_there_is_none(tmp_path: Path, name: str) -> None:
    assert _flags(record(tmp_path / name, notes(1))) == []


def test_it_is_in_recordings_in_memory_too() -> None:
    sink = MemorySink()
    sink.start(memory_seed())
    sink.flag(Flag.APPROXIMATE)
    assert sink.finalize().flags == [Flag.APPROXIMATE]


def test_it_stays_when_segments_of_other_processes_are_merged(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "capture")
    sink.flag(Flag.APPROXIMATE)
    pid = os.fork()
    if pid == 0:
        sink.append(draft(data={"n": 2}, lane="0.1"))
        sink.leave()
        os._exit(0)
    os.waitpid(pid, 0)
    sink.append(draft(data={"n": 1}))
    manifest = sink.finalize()
    assert (manifest.event_count, manifest.flags) == (2, [Flag.APPROXIMATE])


@PLACES
def test_it_stays_when_a_recording_is_redacted_again_or_copied(tmp_path: Path, name: str) -> None:
    old = _flagged(tmp_path / f"old-{name}")
    again = tmp_path / f"again-{name}"
    redact_again(old, again, Redactor("strict"), CLOCK)
    assert _flags(again) == [3]
    copy = start_sink(tmp_path / f"copy-{name}")
    with open_recording(old) as source:
        Copier(source, copy).rest()
    copy.finalize()
    assert _flags(tmp_path / f"copy-{name}") == [3]


def test_a_sink_that_starts_late_is_flagged_when_it_does() -> None:
    for is_new in (True, False):
        sink = MemorySink(options=PLAIN)
        late = CopyOnWriteSink(sink, memory_source(*notes(2)))
        late.start(make_seed())
        late.flag(Flag.APPROXIMATE)
        if is_new:
            late.append(draft())
        assert (Flag.APPROXIMATE in late.finalize().flags) is is_new


def test_a_sink_that_has_started_is_flagged_at_once() -> None:
    sink = MemorySink(options=PLAIN)
    late = CopyOnWriteSink(sink)
    late.start(make_seed())
    late.flag(Flag.APPROXIMATE)
    assert late.finalize().flags == [Flag.APPROXIMATE]


def test_every_sink_can_be_flagged(tmp_path: Path) -> None:
    sinks: list[Sink] = [
        MemorySink(),
        make_sink(tmp_path / "x"),
        make_sink(tmp_path / "x.jsonl"),
        CopyOnWriteSink(MemorySink()),
    ]
    for sink in sinks:
        sink.start(make_seed("tape" if sink is sinks[2] else "events.jsonl"))
        sink.flag(Flag.APPROXIMATE)
        assert Flag.APPROXIMATE in sink.finalize().flags


# Copies with changes


def test_fields_of_a_copy_are_replaced_added_and_taken_away() -> None:
    sink = MemorySink(options=PLAIN)
    sink.start(make_seed())
    copier = Copier(memory_source(*notes(3)), sink)
    copier.copy(1, {"n": 7, "more": [1]})
    copier.copy(2, {"n": None, "gone": None})
    copier.copy(3, {"n": 3})
    assert [event.data for event in sink.events] == [{"n": 7, "more": [1]}, {}, {"n": 3}]


@PLACES
def test_what_is_left_out_is_not_copied_at_the_end(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, notes(5))
    with open_recording(path) as old:
        late = CopyOnWriteSink(
            make_sink(path, replace=True),
            old,
            is_kept=lambda event: event.data["n"] != 4,
            rest_fields={"rest": True},
        )
        late.start(make_seed("tape" if name.endswith("jsonl") else "events.jsonl"))
        late.leave_out(2)
        late.copy(3, {"used": True})
        late.append(draft(data={"new": 1}))
        late.finalize()
    assert datas(path) == [
        {"n": 3, "used": True},
        {"new": 1},
        {"n": 1, "rest": True},
        {"n": 5, "rest": True},
    ]


def test_an_event_is_left_out_or_used_once() -> None:
    late = CopyOnWriteSink(MemorySink(options=PLAIN), memory_source(*notes(3)))
    late.start(make_seed())
    late.leave_out(1)
    for use in (late.leave_out, late.copy):
        with pytest.raises(UsageError, match="already"):
            use(1)
        with pytest.raises(LookupError):
            use(4)


def test_notes_are_written_at_their_places_and_only_with_something_new() -> None:
    for is_new in (True, False):
        sink = MemorySink(options=PLAIN)
        late = CopyOnWriteSink(sink, memory_source(*notes(3)))
        late.start(make_seed())
        late.note(draft(data={"note": 0}))
        late.copy(2)
        late.note(draft(data={"note": 1}))
        late.note(draft(data={"note": 2}))
        late.copy(1)
        if is_new:
            assert late.append(draft(data={"new": 1})) == 6
            assert late.note(draft(data={"note": 3})) == 7
        late.finalize()
        told = [{"note": 0}, {"n": 2}, {"note": 1}, {"note": 2}, {"n": 1}, {"new": 1}, {"note": 3}]
        assert [event.data for event in sink.events] == ([*told, {"n": 3}] if is_new else [])
        with pytest.raises(SinkError):
            late.note(draft())
