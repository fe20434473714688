"""A place has one writer. A second one is refused, a dead one is not in the way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import start_recording, verify
from reenact.errors import RecordingExists, RecordingUnfinished, SinkError, WriterBusy
from reenact.store.reader import open_recording
from reenact.store.recover import recover
from reenact.store.sinks.base import Options
from reenact.store.sinks.segments import join_directory
from tests.clocks import start_clock
from tests.integration.processes import Acks, start_program
from tests.integration.stories import brief_story

NAMES = ["capture", "tape.jsonl"]


def _attempts(place: Path) -> dict[str, Callable[[], object]]:
    return {
        "start": lambda: start_recording(place, redaction="none", seal=False),
        "overwrite": lambda: start_recording(place, redaction="none", seal=False, overwrite=True),
        "recover": lambda: recover(place, start_clock()),
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attempt", ["start", "overwrite", "recover"])
def test_a_second_writer_in_the_same_process_is_refused(
    attempt: str, name: str, tmp_path: Path
) -> None:
    place = tmp_path / name
    recording = start_recording(place, redaction="none", seal=False)
    recording.sink.append(brief_story("a")[0])
    with pytest.raises(WriterBusy):
        _attempts(place)[attempt]()
    recording.sink.append(brief_story("a")[1])
    recording.finish()
    assert verify(place).manifest.event_count == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_writer_in_another_process_is_respected_until_it_dies(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    with Acks(tmp_path / "pipe") as acks:
        holder = start_program("hold", place, acks.path)
        try:
            acks.wait_for(1)
            for attempt in _attempts(place).values():
                with pytest.raises(WriterBusy):
                    attempt()
            with pytest.raises(RecordingUnfinished, match="still being recorded"):
                open_recording(place)
        finally:
            holder.kill()
            holder.communicate()
    with pytest.raises(RecordingExists, match="never finished"):
        start_recording(place, redaction="none", seal=False)
    assert recover(place, start_clock()).manifest.event_count == 1
    verify(place)


@pytest.mark.parametrize("name", NAMES)
def test_refused_attempts_do_not_disturb_the_writer(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    with Acks(tmp_path / "pipe") as acks:
        holder = start_program("hold", place, acks.path)
        acks.wait_for(1)
        for attempt in _attempts(place).values():
            with pytest.raises(WriterBusy):
                attempt()
        holder.communicate()
    assert holder.returncode == 0
    assert verify(place).manifest.status == "ok"


@pytest.mark.parametrize("name", NAMES)
def test_an_abandoned_recording_is_replaced_only_when_told_to(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    with Acks(tmp_path / "pipe") as acks:
        holder = start_program("hold", place, acks.path)
        acks.wait_for(1)
        holder.kill()
        holder.communicate()
    with start_recording(place, redaction="none", seal=False, overwrite=True) as recording:
        recording.sink.append(brief_story("new")[1])
    assert verify(place).manifest.event_count == 1
    with open_recording(place) as source:
        assert next(iter(source)).data == brief_story("new")[1].data


@pytest.mark.parametrize("name", NAMES)
def test_of_many_who_start_at_once_exactly_one_records(name: str, tmp_path: Path) -> None:
    for number in range(20):
        place = tmp_path / str(number) / name
        place.parent.mkdir()
        together = threading.Barrier(6)
        won: list[object] = []
        lost: list[SinkError] = []

        def start(
            place: Path = place,
            together: threading.Barrier = together,
            won: list[object] = won,
            lost: list[SinkError] = lost,
        ) -> None:
            together.wait()
            try:
                won.append(start_recording(place, redaction="none", seal=False))
            except SinkError as refusal:
                lost.append(refusal)

        threads = [threading.Thread(target=start) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert len(lost) == 5
        assert {type(error) for error in lost} <= {WriterBusy, RecordingExists}


def test_only_a_capture_that_is_being_recorded_can_be_joined(tmp_path: Path) -> None:
    place = tmp_path / "capture"
    with pytest.raises(SinkError):
        join_directory(place, "0.1", Options())
    with start_recording(place, redaction="none", seal=False):
        pass
    with pytest.raises(SinkError):
        join_directory(place, "0.1", Options())
    verify(place)
