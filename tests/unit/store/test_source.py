from __future__ import annotations

import os
import random
import shutil
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reenact.errors import (
    RecordingDamaged,
    RecordingMissing,
    RecordingOutdated,
    RecordingTooNew,
    RecordingUnfinished,
)
from reenact.format.event import Prefix
from reenact.store.log import Tally
from reenact.store.payload_decoder import is_delta
from reenact.store.reader import open_recording
from reenact.store.verify import verify
from tests.unit.store.samples import (
    PLAIN,
    abandon,
    contents,
    datas,
    draft,
    forge,
    notes,
    raw_lines,
    read_manifest,
    record,
    rewrite_manifest,
)

CONTAINERS = pytest.mark.parametrize("name", ["capture", "tape.jsonl"])


def flip(path: Path, line: int, old: bytes, new: bytes) -> None:
    """Change one line (counted from 1) of a log without changing its length."""
    assert len(old) == len(new)
    log = path / "events.jsonl" if path.is_dir() else path
    lines = log.read_bytes().splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new)
    log.write_bytes(b"".join(lines))


# The cursor


@CONTAINERS
def test_events_are_served_in_order_until_there_are_none(tmp_path: Path, name: str) -> None:
    with open_recording(record(tmp_path / name, notes(3))) as source:
        seen = []
        while (event := source.next()) is not None:
            seen.append((event.seq, event.data, source.remaining()))
        assert seen == [(1, {"n": 1}, 2), (2, {"n": 2}, 1), (3, {"n": 3}, 0)]
        assert source.next() is None
        assert source.peek() is None
        assert len(source) == 3


@CONTAINERS
def test_an_expected_type_is_served_or_nothing_moves(tmp_path: Path, name: str) -> None:
    drafts = [draft("a"), draft("b"), draft("a")]
    with open_recording(record(tmp_path / name, drafts)) as source:
        assert source.next("b") is None
        assert source.next("c") is None
        assert source.remaining() == 3
        first = source.next("a")
        assert first is not None
        assert first.seq == 1
        assert source.next("a") is None
        second = source.next("b")
        assert second is not None
        assert second.seq == 2
        assert source.remaining() == 1


@CONTAINERS
def test_peeking_does_not_move(tmp_path: Path, name: str) -> None:
    with open_recording(record(tmp_path / name, notes(2))) as source:
        assert source.peek() is source.peek()
        head = source.peek()
        assert head is not None
        assert source.remaining() == 2
        assert source.next() is head
        following = source.peek()
        assert following is not None
        assert following.seq == 2


@CONTAINERS
def test_neither_random_access_nor_iterating_moves_the_cursor(tmp_path: Path, name: str) -> None:
    with open_recording(record(tmp_path / name, notes(5))) as source:
        source.next()
        assert source.at(5).data == {"n": 5}
        assert [event.seq for event in source] == [1, 2, 3, 4, 5]
        following = source.next()
        assert following is not None
        assert following.seq == 2


@CONTAINERS
@pytest.mark.parametrize("seq", [0, -1, 4])
def test_an_event_that_does_not_exist_is_a_lookup_error(
    tmp_path: Path, name: str, seq: int
) -> None:
    with open_recording(record(tmp_path / name, notes(3))) as source:
        with pytest.raises(LookupError):
            source.at(seq)
        assert source.remaining() == 3


# Laziness


@CONTAINERS
def test_a_payload_is_loaded_when_it_is_looked_at_not_before(tmp_path: Path, name: str) -> None:
    drafts = [draft("big", {"text": "x" * 2_000}), draft("small")]
    path = record(tmp_path / name, drafts, replace(PLAIN, blob_threshold=1_000))
    shutil.rmtree(path / "blobs" if path.is_dir() else tmp_path / f"{name}.blobs")
    with open_recording(path) as source:
        event = source.next("big")
        assert event is not None
        assert (event.seq, event.type, source.remaining()) == (1, "big", 1)
        with pytest.raises(RecordingDamaged) as caught:
            _ = event.data
        assert caught.value.place.startswith("blob sha256:")
        assert source.at(2).data == {}


def test_a_blob_with_other_content_is_refused_when_it_is_looked_at(tmp_path: Path) -> None:
    drafts = [draft(data={"text": "x" * 2_000})]
    path = record(tmp_path / "c", drafts, replace(PLAIN, blob_threshold=1_000))
    [blob] = [file for file in (path / "blobs").rglob("*") if file.is_file()]
    blob.write_bytes(b"y" * 2_000)
    with (
        open_recording(path) as source,
        pytest.raises(RecordingDamaged, match="does not match its name"),
    ):
        _ = source.at(1).data


def test_an_event_whose_line_goes_after_opening_is_reported(tmp_path: Path) -> None:
    options = replace(PLAIN, blob_threshold=10**6, deltas=False)
    path = record(tmp_path / "c", [draft(data={"text": "x" * 70_000})] * 9, options)
    with open_recording(path) as source:
        assert source.at(1).seq == 1
        (path / "events.jsonl").write_bytes(b"")
        with pytest.raises(RecordingDamaged):
            source.at(9)


# Random access


def chat(turns: int) -> list[dict[str, Any]]:
    history = ["a question of some length " * 30]
    found = []
    for turn in range(turns):
        found.append({"messages": list(history), "model": "m"})
        history.append(f"turn {turn}")
    return found


@pytest.mark.parametrize("order", ["forwards", "backwards", "shuffled", "every event twice"])
def test_any_event_of_a_long_chain_can_be_read_first(tmp_path: Path, order: str) -> None:
    told = chat(120)
    path = record(tmp_path / "c", [draft("x_request", data, op="chat") for data in told])
    assert sum(is_delta(line[line.index(b'"data":') + 7 :]) for line in raw_lines(path)) == 119
    sequence = list(range(1, 121))
    if order == "backwards":
        sequence.reverse()
    elif order == "shuffled":
        random.Random(1).shuffle(sequence)
    elif order == "every event twice":
        sequence = [seq for seq in sequence for _ in range(2)]
    with open_recording(path) as source:
        for seq in sequence:
            assert source.at(seq).data == told[seq - 1]


def test_answers_repeated_in_the_next_question_are_not_stored_twice(tmp_path: Path) -> None:
    history: list[dict[str, str]] = [{"role": "user", "text": "hello " * 100}]
    drafts = []
    for turn in range(20):
        drafts.append(draft("x_request", {"messages": list(history)}, op="chat"))
        answer = {"role": "assistant", "text": random.Random(turn).randbytes(600).hex()}
        drafts.append(draft("x_response", {"message": answer}, op="chat"))
        history.append(answer)
    path = record(tmp_path / "c", drafts)
    assert datas(path) == [one.data for one in drafts]
    new_text = 20 * 1_200 + 600
    assert (path / "events.jsonl").stat().st_size < 2 * new_text


@CONTAINERS
def test_the_cursor_and_random_access_may_be_mixed_in_any_order(tmp_path: Path, name: str) -> None:
    """Several batches of lines, so that each pulls the other's reading along."""
    told = [{"n": number, "pad": "x" * 300} for number in range(1, 1_001)]
    path = record(tmp_path / name, [draft(data=data) for data in told])
    chance = random.Random(3)
    served = []
    with open_recording(path) as source:
        while source.remaining():
            for _ in range(chance.randrange(3)):
                seq = chance.randint(1, 1_000)
                assert source.at(seq).data == told[seq - 1]
            head = source.peek() if chance.random() < 0.3 else None
            event = source.next()
            assert event is not None
            assert head in (None, event)
            served.append(event.data)
    assert served == told


# A second reader


@CONTAINERS
def test_a_second_reader_has_a_cursor_of_its_own(tmp_path: Path, name: str) -> None:
    with open_recording(record(tmp_path / name, notes(4))) as first:
        first.next()
        first.next()
        with first.reopen() as second:
            assert second.manifest() == first.manifest()
            assert [one.data["n"] for one in iter(second.next, None)] == [1, 2, 3, 4]
            assert first.remaining() == 2
        assert first.at(4).data == {"n": 4}


@CONTAINERS
def test_readers_in_threads_and_a_forked_child_do_not_disturb_each_other(
    tmp_path: Path, name: str
) -> None:
    told = [{"n": number, "pad": "x" * 300} for number in range(1, 1_001)]
    with open_recording(record(tmp_path / name, [draft(data=data) for data in told])) as source:
        source.next()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                own = source.reopen()
                status = 0 if [event.data for event in own] == told else 2
            finally:
                os._exit(status)
        found: list[list[dict[str, Any]]] = []

        def read() -> None:
            with source.reopen() as own:
                found.append([event.data for event in own])

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        rest = [event.data for event in iter(source.next, None)]
        for thread in threads:
            thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert rest == told[1:]
        assert found == [told] * 3


def test_a_second_reader_is_not_verified_again(tmp_path: Path) -> None:
    path = record(tmp_path / "c", [draft(data={"pad": "aaaa"})] * 3)
    with open_recording(path) as source:
        log = (path / "events.jsonl").read_bytes()
        with (path / "events.jsonl").open("rb+") as file:  # the same file, so nobody looks
            file.write(log.replace(b"aaaa", b"bbbb"))
        with source.reopen() as second:
            assert second.at(1).data == {"pad": "bbbb"}


@CONTAINERS
def test_another_recording_in_the_same_place_is_not_the_verified_one(
    tmp_path: Path, name: str
) -> None:
    path = record(tmp_path / name, notes(2))
    with open_recording(path) as source:
        record(path, notes(9), replace=True)
        with pytest.raises(RecordingDamaged, match="has been replaced") as caught:
            source.reopen()
        assert caught.value.hint == "open the recording again"
        assert source.at(2).data == {"n": 2}
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        with pytest.raises(RecordingDamaged, match="cannot be opened again"):
            source.reopen()


@pytest.mark.slow
def test_reading_in_order_costs_no_more_memory_than_the_index(tmp_path: Path) -> None:
    count = 200_000
    path = record(tmp_path / "c", [])
    prefix = Prefix("cap_1", "run_1")
    small = b'{"n":1234567}'
    forge(path, b"".join(prefix.line(seq, draft(), small) for seq in range(1, count + 1)))
    with open_recording(path) as source:
        served = 0
        tracemalloc.start()
        try:
            while source.next() is not None:
                served += 1
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert served == count
    # The index, an eighth for the growing of an array, and a few batches of lines.
    assert peak < 8 * count * 9 // 8 + 500_000


@CONTAINERS
def test_unknown_fields_of_an_event_can_be_asked_for(tmp_path: Path, name: str) -> None:
    drafts = [draft(extra={"mood": {"data": 1}}, lane="0.1"), draft(parent=1)]
    with open_recording(record(tmp_path / name, drafts)) as source:
        assert [source.extra(1), source.extra(2)] == [{"mood": {"data": 1}}, {}]


# Where the damage is


@CONTAINERS
@pytest.mark.parametrize("line", [1, 2, 100, 256])
def test_the_damaged_line_of_a_small_log_is_named(tmp_path: Path, name: str, line: int) -> None:
    count = 256 if name == "capture" else 255
    path = record(tmp_path / name, [draft(data={"pad": "aaaa"}) for _ in range(count)])
    if name != "capture" and line == 1:
        line = 2  # the header has its own error
    flip(path, line, b"aaaa", b"bbbb")
    with pytest.raises(RecordingDamaged) as caught:
        open_recording(path)
    log = "events.jsonl" if name == "capture" else name
    assert caught.value.place == f"{log} line {line}"
    assert "restore" in caught.value.hint


@pytest.mark.parametrize("line", [1, 2, 3, 300, 699, 700])
def test_the_damaged_stretch_of_a_large_log_is_named(tmp_path: Path, line: int) -> None:
    path = record(tmp_path / "c", [draft(data={"pad": "aaaa"}) for _ in range(700)])
    assert read_manifest(path).integrity.checkpoints.every == 4
    flip(path, line, b"aaaa", b"bbbb")
    with pytest.raises(RecordingDamaged) as caught:
        open_recording(path)
    first = (line - 1) // 4 * 4 + 1
    assert caught.value.place == f"events.jsonl lines {first} to {first + 3}"


def test_damage_behind_the_last_checkpoint_is_located_too(tmp_path: Path) -> None:
    path = record(tmp_path / "c", [draft(data={"pad": "aaaa"}) for _ in range(703)])
    flip(path, 703, b"aaaa", b"bbbb")
    with pytest.raises(RecordingDamaged) as caught:
        open_recording(path)
    assert caught.value.place == "events.jsonl, line 701 or later"


@pytest.mark.parametrize(
    "change, place",
    [
        (lambda log: log[:-1], "events.jsonl line 3"),
        (lambda log: log[: log.rindex(b"{")], "events.jsonl line 3"),
        (lambda log: log + b"x", "events.jsonl, behind line 3"),
        (lambda log: log + log.splitlines(keepends=True)[-1], "events.jsonl line 4"),
        (lambda log: b"", "events.jsonl line 1"),
        (lambda log: b"\n" + log, "events.jsonl line 1"),
        (lambda log: log.replace(b"\n", b"\r\n"), "events.jsonl line 1"),
    ],
)
def test_lines_that_are_missing_or_added_are_named(tmp_path: Path, change: Any, place: str) -> None:
    path = record(tmp_path / "c", notes(3))
    log = path / "events.jsonl"
    log.write_bytes(change(log.read_bytes()))
    with pytest.raises(RecordingDamaged) as caught:
        open_recording(path)
    assert caught.value.place == place


def test_a_log_that_is_gone_is_damage(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    (path / "events.jsonl").unlink()
    with pytest.raises(RecordingDamaged) as caught:
        open_recording(path)
    assert caught.value.place == "file events.jsonl"


def test_there_are_never_more_than_256_checkpoints() -> None:
    tally = Tally()
    for number in range(5_000):
        tally.add(b"%d\n" % number)
        found = tally.checkpoints()
        hashes = found.hashes.split()
        assert len(hashes) == tally.lines // found.every <= Tally.MOST_CHECKPOINTS
    assert found.every == 32


# Four errors, four next steps


def test_missing_unfinished_damaged_and_too_new_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    unfinished = abandon(tmp_path / "unfinished", notes(1))
    damaged = record(tmp_path / "damaged", notes(1))
    (damaged / "manifest.json").write_bytes(b"{")
    newer = record(tmp_path / "newer", notes(1))
    rewrite_manifest(newer, format={"name": "reenact", "version": "2.0"})
    found = {}
    for place in (tmp_path / "nothing", tmp_path / "empty", unfinished, damaged, newer):
        with pytest.raises(
            (RecordingMissing, RecordingUnfinished, RecordingDamaged, RecordingTooNew)
        ) as caught:
            open_recording(place)
        found[place.name] = (type(caught.value), caught.value.hint, caught.value.exit_code)
    assert found == {
        "nothing": (RecordingMissing, "check the path", 3),
        "empty": (RecordingMissing, "check the path with ls", 3),
        "unfinished": (RecordingUnfinished, f"reenact recover {unfinished}", 3),
        "damaged": (RecordingDamaged, "restore it from a copy", 3),
        "newer": (RecordingTooNew, "pip install --upgrade reenact", 3),
    }


def test_an_older_major_is_outdated(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    rewrite_manifest(path, format={"name": "reenact", "version": "0.9"})
    with pytest.raises(RecordingOutdated) as caught:
        open_recording(path)
    assert caught.value.hint == "reenact migrate OLD NEW"


def test_a_tape_of_a_later_major_is_too_new(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", notes(1))
    tape.write_bytes(tape.read_bytes().replace(b'"version":"1.0"', b'"version":"2.0"'))
    with pytest.raises(RecordingTooNew):
        open_recording(tape)


def test_a_behaviour_flag_from_the_future_is_too_new(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    rewrite_manifest(path, flags=[7])
    with pytest.raises(RecordingTooNew, match=r"flags \[7\]"):
        open_recording(path)


def test_a_later_minor_is_read_and_its_fields_are_kept(tmp_path: Path) -> None:
    path = record(tmp_path / "c", [draft(extra={"mood": {"a": 1, "data": 2}})])
    rewrite_manifest(path, format={"name": "reenact", "version": "1.9"}, weather=["rain"])
    manifest = verify(path).manifest
    assert manifest.extra == {"weather": ["rain"]}
    assert manifest.format.version == "1.9"
    assert contents(path) == [(1, "x_note", "0", None, {})]


def test_a_manifest_that_names_another_log_is_refused(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    rewrite_manifest(path, eventLogPath="../other.jsonl")
    with pytest.raises(RecordingDamaged) as caught:
        open_recording(path)
    assert caught.value.place == "manifest.json, field eventLogPath"
