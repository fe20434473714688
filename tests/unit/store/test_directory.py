from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from reenact.errors import (
    RecordingExists,
    RecordingUnfinished,
    SinkError,
    UsageError,
    ValueRefused,
    WriterBusy,
)
from reenact.store.reader import open_recording
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.segments import join_directory, read_open
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


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_lines_are_laid_out_as_documented_byte_for_byte(tmp_path: Path) -> None:
    path = record(
        tmp_path / "c",
        [
            draft("tool_call", {"name": "t", "callId": "c", "args": [1.0]}, ts=5),
            draft("dream", {}, ts=6, lane="0.1", parent=1),
        ],
    )
    assert (path / "events.jsonl").read_bytes() == (
        b'{"version":1,"captureId":"cap_1","runId":"run_1","seq":1,"ts":5,"type":"tool_call",'
        b'"data":{"args":[1.0],"callId":"c","name":"t"}}\n'
        b'{"version":1,"captureId":"cap_1","runId":"run_1","seq":2,"ts":6,"type":"dream",'
        b'"lane":"0.1","parent":1,"data":{}}\n'
    )


def test_a_finished_directory_holds_manifest_and_events_only(tmp_path: Path) -> None:
    assert names(record(tmp_path / "c", notes(3))) == {"manifest.json", "events.jsonl"}


def test_the_manifest_states_the_sums(tmp_path: Path) -> None:
    drafts = [*notes(2), draft(lane="0.3"), draft(data={"big": "x" * 600})]
    path = record(tmp_path / "c", drafts, replace(PLAIN, blob_threshold=500, deltas=False))
    manifest = read_manifest(path)
    log = (path / "events.jsonl").read_bytes()
    assert manifest.event_count == 4
    assert manifest.lanes == 2
    assert manifest.integrity.events_hash == f"sha256:{hashlib.sha256(log).hexdigest()}"
    assert (manifest.blobs.count, manifest.blobs.bytes) == (1, 600)
    assert (manifest.status, manifest.completed_at, manifest.flags) == ("ok", NOW, [])
    assert "\n  " in (path / "manifest.json").read_text(encoding="utf-8")


def test_unknown_event_types_are_kept(tmp_path: Path) -> None:
    path = record(tmp_path / "c", [draft("of_the_future", {"a": 1}), draft("ünïcode", {})])
    verify(path)
    assert [kind for _, kind, *_ in contents(path)] == ["of_the_future", "ünïcode"]


def test_append_returns_the_seq_and_finalize_is_said_once(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    assert [sink.append(one) for one in notes(3)] == [1, 2, 3]
    manifest = sink.finalize("error", "why")
    assert (manifest.status, manifest.error) == ("error", "why")
    assert sink.finalize() is manifest
    with pytest.raises(SinkError, match="closed"):
        sink.append(draft())


def test_an_empty_recording_is_a_recording(tmp_path: Path) -> None:
    path = record(tmp_path / "c", [])
    assert verify(path).manifest.event_count == 0
    assert contents(path) == []


def test_a_sink_is_started_once_and_before_it_is_used(tmp_path: Path) -> None:
    sink = DirectorySink(tmp_path / "c", clock=CLOCK, options=PLAIN)
    with pytest.raises(UsageError, match="start the sink before appending"):
        sink.append(draft())
    with pytest.raises(UsageError, match="start the sink before finalising"):
        sink.finalize()
    sink.start(make_seed())
    with pytest.raises(UsageError, match="started already"):
        sink.start(make_seed())
    assert sink.finalize().event_count == 0


def test_an_empty_directory_is_a_good_place(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    assert datas(record(tmp_path / "c", notes(1))) == [{"n": 1}]


def test_missing_parents_are_made(tmp_path: Path) -> None:
    assert verify(record(tmp_path / "a" / "b" / "c", notes(1))).manifest.event_count == 1


def test_a_place_that_is_taken_is_refused_with_a_hint_of_its_own(tmp_path: Path) -> None:
    finished = record(tmp_path / "finished", notes(1))
    unfinished = abandon(tmp_path / "unfinished", notes(1))
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work", encoding="utf-8")
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    found = {}
    for place in (finished, unfinished, other, file):
        with pytest.raises(RecordingExists) as caught:
            start_sink(place)
        found[place.name] = (caught.value.message.removeprefix(str(place)), caught.value.hint)
    assert found == {
        "finished": (" already holds a recording", "choose another place, or say overwrite"),
        "unfinished": (
            " holds a recording that was never finished",
            f"reenact recover {unfinished}, or say overwrite to give it up",
        ),
        "other": (" is not empty", "choose an empty or new directory"),
        "file": (" is a file, not a capture directory", ""),
    }


def test_a_directory_that_is_being_written_is_busy_for_everybody_else(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    for overwrite in (False, True):
        with pytest.raises(WriterBusy, match="is being written by process"):
            start_sink(tmp_path / "c", replace=overwrite)
    with pytest.raises(RecordingUnfinished, match="still being recorded") as caught:
        open_recording(tmp_path / "c")
    assert "--follow" in caught.value.hint
    sink.append(draft())
    assert sink.finalize().event_count == 1


def test_the_old_recording_stays_until_the_new_one_is_finished(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(2))
    sink = start_sink(path, replace=True)
    sink.append(draft(data={"new": 1}))
    verify(path)
    assert datas(path) == [{"n": 1}, {"n": 2}]
    sink.finalize()
    verify(path)
    assert datas(path) == [{"new": 1}]
    assert names(tmp_path) == {"c"}


def test_a_replacement_that_never_finishes_leaves_the_old_recording(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(2))
    sink = start_sink(path, replace=True)
    sink.append(draft(data={"new": 1}))
    sink.after_fork()  # as if its process had ended
    verify(path)
    assert datas(path) == [{"n": 1}, {"n": 2}]
    assert datas(record(path, notes(1), replace=True)) == [{"n": 1}]
    assert names(tmp_path) == {"c"}


def test_an_unfinished_recording_can_be_given_up(tmp_path: Path) -> None:
    path = abandon(tmp_path / "c", notes(2))
    assert datas(record(path, notes(1), replace=True)) == [{"n": 1}]
    assert verify(path).manifest.status == "ok"


def test_a_directory_with_foreign_files_is_never_replaced(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    (path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(RecordingExists, match="contains files that are not a recording") as caught:
        start_sink(path, replace=True)
    assert caught.value.hint == "choose an empty or new directory"
    assert (path / "thesis.txt").exists()


def test_a_refused_value_leaves_no_trace(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c", replace(PLAIN, blob_threshold=1_000))
    big = "x" * 2_000
    sink.append(draft(data={"text": big}, op="chat"))
    with pytest.raises(ValueRefused, match=r"\$\.bad: nan"):
        sink.append(draft(data={"text": big, "bad": float("nan")}, op="chat"))
    with pytest.raises(ValueRefused, match="is not a lane"):
        sink.append(draft(data={"other": big + "!"}, lane="left"))
    with pytest.raises(ValueRefused):
        sink.append(draft(data={"text": big + "?"}, op="chat", extra={"x": float("inf")}))
    with pytest.raises(TypeError):
        sink.append(draft(data={"text": big + "#"}, op="chat", parent="one"))
    assert sink.append(draft(data={"text": big + " again"}, op="chat")) == 2
    sink.finalize()
    verify(tmp_path / "c")
    assert datas(tmp_path / "c") == [{"text": big}, {"text": big + " again"}]
    assert "torn" not in names(tmp_path / "c")


@pytest.mark.parametrize("depth", [198, 199])
def test_data_as_deep_as_allowed_verifies(tmp_path: Path, depth: int) -> None:
    deep: object = 1
    for _ in range(depth):
        deep = [deep]
    path = record(tmp_path / "c", [draft(data={"deep": deep})])
    verify(path)
    assert datas(path) == [{"deep": deep}]


def test_threads_append_side_by_side_without_gaps(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    numbers: list[int] = []

    def work(lane: int) -> None:
        for count in range(50):
            numbers.append(sink.append(draft(data={"count": count}, lane=f"0.{lane}")))

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.finalize()
    verify(tmp_path / "c")
    assert sorted(numbers) == list(range(1, 201))
    for lane in range(4):
        own = [data["count"] for *_, of, _, data in contents(tmp_path / "c") if of == f"0.{lane}"]
        assert own == list(range(50))


def test_every_durability_writes_the_same_bytes(tmp_path: Path) -> None:
    logs = set()
    for durability in ("none", "interval", "event"):
        options = replace(PLAIN, durability=durability, blob_threshold=600)
        path = record(tmp_path / durability, [*notes(3), draft(data={"b": "y" * 700})], options)
        verify(path)
        logs.add((path / "events.jsonl").read_bytes())
    assert len(logs) == 1


def test_another_process_writes_a_segment_that_finalising_merges(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    sink.append(draft(data={"from": "first"}, ts=NOW))
    other = join_directory(tmp_path / "c", "worker", PLAIN)
    other.append(draft(data={"from": "other"}, ts=NOW + 1, lane="0.1"))
    other.append(draft(data={"from": "other", "inside": 1}, ts=NOW + 3, lane="0.1", parent=1))
    sink.append(draft(data={"from": "first, later"}, ts=NOW + 2))
    other.close()
    other.release()
    sink.finalize()
    verify(tmp_path / "c")
    assert contents(tmp_path / "c") == [
        (1, "x_note", "0", None, {"from": "first"}),
        (2, "x_note", "0.1", None, {"from": "other"}),
        (3, "x_note", "0", None, {"from": "first, later"}),
        (4, "x_note", "0.1", 2, {"from": "other", "inside": 1}),
    ]
    assert names(tmp_path / "c") == {"manifest.json", "events.jsonl"}


def test_deltas_of_a_segment_refer_to_their_own_events_after_the_merge(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    others = [join_directory(tmp_path / "c", "worker", PLAIN) for _ in range(2)]
    told = []
    for turn in range(12):
        for number, writer in enumerate([sink, *others]):
            data = {"text": f"process {number} " * 90, "turn": turn}
            told.append(data)
            writer.append(draft(data=data, ts=NOW + turn, lane=f"0.{number}", op="chat"))
    for writer in others:
        writer.close()
        writer.release()
    manifest = sink.finalize()
    verify(tmp_path / "c")
    assert manifest.flags == [1]
    assert sorted(map(str, datas(tmp_path / "c"))) == sorted(map(str, told))


def test_two_segments_with_the_same_wish_get_names_of_their_own(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    for _ in range(3):
        join_directory(tmp_path / "c", "p1", PLAIN).release()
    assert names(tmp_path / "c" / "segments") == {"p1.jsonl", "p1-1.jsonl", "p1-2.jsonl"}
    assert sink.finalize().event_count == 0


def test_finalising_waits_only_so_long_for_other_writers(tmp_path: Path) -> None:
    sink = DirectorySink(tmp_path / "c", clock=CLOCK, options=PLAIN, patience=0.0)
    sink.start(make_seed())
    other = join_directory(tmp_path / "c", "slow", PLAIN)
    with pytest.raises(WriterBusy, match=r"segments/slow\.jsonl") as caught:
        sink.finalize()
    assert caught.value.hint == f"when they have ended: reenact recover {tmp_path / 'c'}"
    other.close()
    other.release()
    assert sink.finalize().event_count == 0


def test_only_a_capture_that_is_being_written_can_be_joined(tmp_path: Path) -> None:
    path = record(tmp_path / "c", [])
    for place in (path, tmp_path / "nothing"):
        with pytest.raises(SinkError, match="is not being recorded"):
            join_directory(place, "p", PLAIN)


def test_open_json_says_who_writes_and_what(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c", extra={"later": 1})
    begun = read_open(tmp_path / "c")
    assert begun is not None
    assert begun.seed == make_seed(extra={"later": 1})
    sink.finalize()
    assert read_open(tmp_path / "c") is None
    assert json.loads((tmp_path / "c" / "manifest.json").read_bytes())["later"] == 1


def test_the_lines_of_a_log_keep_their_number_when_somebody_else_reads(tmp_path: Path) -> None:
    """A reader of an unfinished log must not disturb its writer."""
    sink = start_sink(tmp_path / "c")
    sink.append(draft())
    assert len(raw_lines(tmp_path / "c")) == 1
    sink.append(draft())
    sink.finalize()
    assert len(raw_lines(tmp_path / "c")) == 2
