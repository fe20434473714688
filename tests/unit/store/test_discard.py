"""A recording that is given up leaves nothing, and harms nothing beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from reenact.errors import SinkError, SinkUnwritable, WriterBusy
from reenact.format.canonical import digest_bytes
from reenact.policy.redaction.redactor import Redactor
from reenact.store.seal import Seal
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.segments import join_directory
from reenact.store.verify import verify
from tests.unit.store.samples import (
    CLOCK,
    PLAIN,
    datas,
    draft,
    make_seed,
    make_sink,
    notes,
    record,
    start_sink,
)

CONTAINERS = pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
BLOBS = replace(PLAIN, blob_threshold=500)
SECRET = "hunter" + "2" * 20


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file below ``folder`` with its content, every folder with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def big(word: str) -> dict[str, str]:
    return {"text": word * 600}


@CONTAINERS
def test_nothing_is_left_and_the_place_can_be_used_at_once(tmp_path: Path, name: str) -> None:
    sink = start_sink(tmp_path / name, BLOBS)
    sink.append(draft(data=big("a")))
    assert len(tree(tmp_path)) > 2
    sink.discard()
    assert tree(tmp_path) == {}
    assert datas(record(tmp_path / name, notes(2))) == [{"n": 1}, {"n": 2}]


@CONTAINERS
def test_giving_up_twice_is_giving_up_once(tmp_path: Path, name: str) -> None:
    sink = start_sink(tmp_path / name)
    sink.discard()
    other = start_sink(tmp_path / name)
    other.append(draft())
    sink.discard()
    assert other.finalize().event_count == 1
    verify(tmp_path / name)


@CONTAINERS
def test_before_the_start_there_is_nothing_to_give_up(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, notes(1))
    before = tree(tmp_path)
    make_sink(path, replace=True).discard()
    refused = make_sink(path)
    with pytest.raises(SinkError):
        refused.start(make_seed())
    refused.discard()
    assert tree(tmp_path) == before


@CONTAINERS
def test_a_finished_recording_stays(tmp_path: Path, name: str) -> None:
    sink = start_sink(tmp_path / name, BLOBS)
    sink.append(draft(data=big("a")))
    manifest = sink.finalize()
    before = tree(tmp_path)
    sink.discard()
    assert tree(tmp_path) == before
    assert sink.finalize() is manifest


@CONTAINERS
def test_the_recording_that_was_to_be_replaced_stays_as_it_was(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, [draft(data=big("a")), draft(data=big("b"))], BLOBS)
    before = tree(tmp_path)
    sink = start_sink(path, BLOBS, replace=True)
    for word in "bc":
        sink.append(draft(data=big(word)))
    sink.discard()
    assert tree(tmp_path) == before
    verify(path)


@CONTAINERS
def test_a_discarded_recording_takes_no_event_and_cannot_be_finished(
    tmp_path: Path, name: str
) -> None:
    sink = start_sink(tmp_path / name)
    sink.discard()
    with pytest.raises(SinkError, match="closed"):
        sink.append(draft())
    with pytest.raises(SinkError, match="given up"):
        sink.finalize()
    assert tree(tmp_path) == {}


@CONTAINERS
def test_a_discarded_recording_is_nothing_to_a_child_that_is_forked_later(
    tmp_path: Path, name: str
) -> None:
    sink = start_sink(tmp_path / name)
    sink.discard()
    sink.after_fork()
    with pytest.raises(SinkError, match="closed"):
        sink.append(draft())


@CONTAINERS
def test_a_forked_child_only_leaves(tmp_path: Path, name: str) -> None:
    parent = start_sink(tmp_path / name)
    parent.append(draft(data={"from": "parent"}))
    child = os.fork()
    if child == 0:
        try:
            parent.append(draft(data={"from": "child"}, ts=0))
            parent.discard()
            parent.discard()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    parent.append(draft(data={"from": "parent, later"}))
    parent.finalize()
    verify(tmp_path / name)
    found = [data["from"] for data in datas(tmp_path / name)]
    assert [who for who in found if who != "child"] == ["parent", "parent, later"]
    assert found.count("child") == (1 if name == "capture" else 0)


@CONTAINERS
def test_a_place_that_somebody_else_has_taken_meanwhile_is_theirs(
    tmp_path: Path, name: str
) -> None:
    sink = start_sink(tmp_path / name)
    sink.append(draft())
    written = tmp_path / (name if name == "capture" else f"{name}.part")
    written.rename(tmp_path / "moved")
    other = start_sink(tmp_path / name)
    other.append(draft(data={"other": 1}))
    before = tree(tmp_path)
    sink.discard()
    assert tree(tmp_path) == before
    other.finalize()
    assert datas(tmp_path / name) == [{"other": 1}]


@CONTAINERS
def test_files_of_others_stay(tmp_path: Path, name: str) -> None:
    sink = start_sink(tmp_path / name, BLOBS)
    sink.append(draft(data=big("a")))
    beside = tmp_path / name if name == "capture" else tmp_path
    blobs = beside / "blobs" if name == "capture" else tmp_path / "tape.jsonl.part.blobs"
    mine = [beside / "thesis.txt", blobs / "photo.png", blobs / "holiday" / "beach.png"]
    mine[2].parent.mkdir()
    for file in mine:
        file.write_bytes(b"mine")
    sink.discard()
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(left) == sorted(mine)


def test_an_empty_directory_that_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    sink = start_sink(tmp_path / "capture")
    sink.append(draft())
    sink.discard()
    assert tree(tmp_path) == {"capture": None}


def test_sealed_values_and_segments_go_too(tmp_path: Path) -> None:
    options = Options(
        redactor=Redactor("default", declared=[SECRET]),
        seal=Seal(bytes(32)),
        durability="none",
        blob_threshold=500,
    )
    sink = start_sink(tmp_path / "c", options)
    other = join_directory(tmp_path / "c", "worker", options)
    answer = draft("tool_result", {"callId": "c", "ok": True, "result": SECRET, **big("a")})
    for writer in (sink, other):
        writer.append(answer)
    other.close()
    other.release()
    assert {"c/sealed", "c/segments/worker.sealed"} <= tree(tmp_path).keys()
    sink.discard()
    assert tree(tmp_path) == {}


def test_nothing_is_taken_from_a_process_that_still_writes(tmp_path: Path) -> None:
    sink = DirectorySink(tmp_path / "c", clock=CLOCK, options=PLAIN, patience=0.0)
    sink.start(make_seed())
    other = join_directory(tmp_path / "c", "slow", PLAIN)
    with pytest.raises(WriterBusy, match=r"segments/slow\.jsonl"):
        sink.discard()
    other.append(draft())
    other.close()
    other.release()
    sink.discard()
    assert tree(tmp_path) == {}


def test_a_directory_whose_end_failed_can_still_be_given_up(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(2))
    before = tree(tmp_path)
    sink = start_sink(path, BLOBS, replace=True)
    sink.append(draft(data=big("a")))
    obstacle = tmp_path / "c.new" / "manifest.json.tmp"
    obstacle.mkdir()
    with pytest.raises(SinkUnwritable):
        sink.finalize()
    obstacle.rmdir()
    sink.discard()
    assert tree(tmp_path) == before


def test_a_tape_whose_end_failed_takes_its_blobs_back(tmp_path: Path) -> None:
    """It had put some of them beside those of the older tape."""
    tape = record(tmp_path / "t.jsonl", [draft(data=big("a")), draft(data=big("b"))], BLOBS)
    before = tree(tmp_path)
    sink = start_sink(tape, BLOBS, replace=True)
    for word in "bcdef":
        sink.append(draft(data=big(word)))
    last = max(digest_bytes((word * 600).encode()) for word in "cdef").removeprefix("sha256:")
    obstacle = tmp_path / "t.jsonl.blobs" / last[:2]
    obstacle.write_bytes(b"in the way")
    with pytest.raises(SinkUnwritable):
        sink.finalize()
    obstacle.unlink()
    assert len(tree(tmp_path / "t.jsonl.blobs")) > len(before) - 2
    sink.discard()
    assert tree(tmp_path) == before
