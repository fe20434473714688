from __future__ import annotations

from pathlib import Path

import pytest

from reenact.errors import RecordingMissing
from reenact.store.reader import follow
from reenact.store.sinks.segments import join_directory
from tests.unit.store.samples import PLAIN, abandon, draft, notes, record, start_sink


def test_a_finished_recording_is_read_to_its_end(tmp_path: Path) -> None:
    for name in ("capture", "tape.jsonl"):
        path = record(tmp_path / name, notes(3))
        assert [event.data["n"] for event in follow(path)] == [1, 2, 3]


def test_an_abandoned_capture_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    path = abandon(tmp_path / "c", notes(2))
    with (path / "events.jsonl").open("ab") as file:
        file.write(b'{"version":1')
    assert [event.seq for event in follow(path)] == [1, 2]


def test_events_are_seen_as_they_come_until_the_writer_ends(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) < 3:
            sink.append(draft(data={"n": len(waits)}))
        else:
            sink.finalize()

    seen = [event.data["n"] for event in follow(tmp_path / "c", pause=pause)]
    assert seen == [1, 2]
    assert len(waits) == 3


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    path = abandon(tmp_path / "other", notes(1))
    line = (path / "events.jsonl").read_bytes()
    sink = start_sink(tmp_path / "c")
    log = tmp_path / "c" / "events.jsonl"
    halves = [line[:20], line[20:]]

    def pause(_: float) -> None:
        if halves:
            with log.open("ab") as file:
                file.write(halves.pop(0))
        else:
            sink.after_fork()

    assert [event.data for event in follow(tmp_path / "c", pause=pause)] == [{"n": 1}]


def test_other_processes_are_followed_too(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    sink.append(draft(data={"of": 0}))
    other = join_directory(tmp_path / "c", "p", PLAIN)
    other.append(draft(data={"of": 1}, lane="0.1"))
    events = follow(tmp_path / "c", pause=lambda _: None, patience=0)
    assert [event.data["of"] for event in events] == [0, 1]
    other.close()
    other.release()
    assert sink.finalize().event_count == 2


def test_a_segment_that_came_and_was_merged_between_two_looks_is_seen(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    sink.append(draft(data={"of": 0}))

    def pause(_: float) -> None:
        other = join_directory(tmp_path / "c", "p", PLAIN)
        other.append(draft(data={"of": 1}, lane="0.1"))
        other.close()
        other.release()
        sink.append(draft(data={"of": 2}))
        sink.finalize()

    events = list(follow(tmp_path / "c", pause=pause))
    assert sorted(event.data["of"] for event in events) == [0, 1, 2]


def test_patience_ends_the_wait(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    waits: list[float] = []
    assert list(follow(tmp_path / "c", pause=waits.append, patience=4)) == []
    assert len(waits) == 4
    assert sink.finalize().event_count == 0


def test_nothing_to_follow_is_missing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("nothing", "empty"):
        with pytest.raises(RecordingMissing):
            list(follow(tmp_path / name))
