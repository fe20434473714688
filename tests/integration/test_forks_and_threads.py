"""One recording used by many: threads at once, and forks in the middle of it."""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import Draft, open_recording, start_recording, verify
from reenact.errors import SinkError
from tests.integration.processes import let_some_instants_pass
from tests.integration.stories import brief_story, long_story

THREADS = 8
EACH = 150


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
@pytest.mark.parametrize("durability", ["none", "interval"])
def test_eight_threads_append_every_event_once(name: str, durability: str, tmp_path: Path) -> None:
    recording = start_recording(
        tmp_path / name,
        redaction="default",
        seal=False,
        durability="none" if durability == "none" else "interval",
    )
    given: list[list[int]] = [[] for _ in range(THREADS)]
    together = threading.Barrier(THREADS)

    def append(number: int) -> None:
        chance = random.Random(number)
        together.wait()
        for index in range(EACH):
            text = "word " * chance.randint(1, 1_000)
            data = {"callId": f"{number}/{index}", "ok": True, "result": text}
            draft = Draft(type="tool_result", data=data, ts=0, lane=f"0.{number}", op="same")
            given[number].append(recording.sink.append(draft))

    threads = [threading.Thread(target=append, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recording.finish()
    assert verify(tmp_path / name).manifest.event_count == THREADS * EACH
    assert sorted(seq for mine in given for seq in mine) == list(range(1, THREADS * EACH + 1))
    with open_recording(tmp_path / name) as source:
        for number, mine in enumerate(given):
            assert mine == sorted(mine)
            found = [source.at(seq) for seq in mine]
            assert [e.data["callId"] for e in found] == [f"{number}/{i}" for i in range(EACH)]
            assert {e.lane for e in found} == {f"0.{number}"}


def _in_child(work: object) -> int:
    """Fork, run ``work`` in the child, return its exit status: 0 when nothing was raised."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert callable(work)
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_fork_while_other_threads_append_harms_neither_side(tmp_path: Path) -> None:
    recording = start_recording(tmp_path / "capture", redaction="none", seal=False)
    stop = threading.Event()
    counts = [0, 0, 0]

    def append(number: int) -> None:
        for draft in long_story(str(number), lane=f"0.{number}"):
            if stop.is_set():
                return
            assert recording.sink.append(draft) > 0
            counts[number] += 1

    threads = [threading.Thread(target=append, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()

    for child in range(10):

        def work(lane: str = f"0.9.{child}") -> None:
            for draft in brief_story(lane, lane=lane):
                assert recording.sink.append(draft) > 0
            # Ends without a word, as a child that calls os._exit does.

        assert _in_child(work) == 0
    stop.set()
    for thread in threads:
        thread.join()
    recording.finish()
    verify(tmp_path / "capture")
    by_lane: dict[str, int] = defaultdict(int)
    with open_recording(tmp_path / "capture") as source:
        for event in source:
            assert event.data["i"] == by_lane[event.lane]
            by_lane[event.lane] += 1
    expected = {f"0.{number}": count for number, count in enumerate(counts)}
    assert by_lane == {**expected, **{f"0.9.{child}": 6 for child in range(10)}}


def test_a_grandchild_writes_a_segment_of_its_own(tmp_path: Path) -> None:
    recording = start_recording(tmp_path / "capture", redaction="none", seal=False)
    sink = recording.sink

    def grandchild() -> None:
        for draft in brief_story("c", lane="0.1.1"):
            sink.append(draft)

    def child() -> None:
        sink.append(brief_story("b", lane="0.1")[0])
        assert _in_child(grandchild) == 0
        sink.append(brief_story("b", lane="0.1")[1])

    sink.append(brief_story("a")[0])
    assert _in_child(child) == 0
    recording.finish()
    verify(tmp_path / "capture")
    with open_recording(tmp_path / "capture") as source:
        found = [event.lane for event in source]
    assert sorted(found) == ["0", "0.1", "0.1"] + ["0.1.1"] * 6


def test_a_forked_child_cannot_finalise_what_its_parent_records(tmp_path: Path) -> None:
    recording = start_recording(tmp_path / "capture", redaction="none", seal=False)

    def finalise() -> None:
        with pytest.raises(SinkError):
            recording.finish()

    assert _in_child(finalise) == 0
    recording.sink.append(brief_story("a")[0])
    recording.finish()
    assert verify(tmp_path / "capture").manifest.event_count == 1


def test_a_child_of_a_tape_records_nothing_and_harms_nothing(tmp_path: Path) -> None:
    warnings: list[str] = []
    recording = start_recording(tmp_path / "t.jsonl", redaction="none", warn=warnings.append)
    first, second = brief_story("a")[:2]
    recording.sink.append(first)

    def child() -> None:
        assert recording.sink.append(second) == 0
        assert len(warnings) == 1

    assert _in_child(child) == 0
    recording.sink.append(second)
    recording.finish()
    assert verify(tmp_path / "t.jsonl").manifest.event_count == 2
    assert warnings == []


@pytest.mark.soak
def test_a_process_that_comes_while_the_recording_is_closed_is_turned_away(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    """Either it joins in time and everything it was told is recorded is there, or it is told 0."""
    for number in range(rounds(20, 600)):
        path = tmp_path / str(number)
        warnings: list[str] = []
        recording = start_recording(path, redaction="none", seal=False, warn=warnings.append)
        recording.sink.append(brief_story("parent")[0])
        ready, told = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.read(ready[0], 1)
                let_some_instants_pass(random.Random(number))
                for draft in brief_story("child", lane="0.1"):
                    os.write(told[1], b"1" if recording.sink.append(draft) else b"0")
                status = 0 if len(warnings) <= 1 else 2
            finally:
                os._exit(status)
        os.write(ready[1], b"go")
        manifest = recording.finish()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os.close(told[1])
        answers = os.read(told[0], 100)
        for end in (*ready, told[0]):
            os.close(end)
        assert answers in (b"111111", b"000000")
        assert manifest.event_count == 1 + answers.count(b"1")
        assert verify(path).manifest == manifest


def test_a_process_that_comes_too_late_goes_on_without_recording(tmp_path: Path) -> None:
    warnings: list[str] = []
    recording = start_recording(
        tmp_path / "capture", redaction="none", seal=False, warn=warnings.append
    )
    ready = os.pipe()

    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.read(ready[0], 1)
            for draft in brief_story("child", lane="0.1"):
                assert recording.sink.append(draft) == 0
            assert len(warnings) == 1
            status = 0
        finally:
            os._exit(status)
    recording.finish()
    os.write(ready[1], b"go")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for end in ready:
        os.close(end)
    assert verify(tmp_path / "capture").manifest.event_count == 0
