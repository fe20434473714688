"""The sealed values of a recording, damaged: noticed, or the placeholder stays. Never another value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Draft, Redactor, open_recording, verify
from reenact.errors import RecordingDamaged
from reenact.policy.redaction.redactor import PLACEHOLDER
from reenact.store.recording import make_seed
from reenact.store.recover import recover
from reenact.store.seal import Seal, read_sealed, restore
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from tests.clocks import start_clock
from tests.integration.scenes import KEY, PASSWORDS

CHANGES: dict[str, Callable[[bytes, int], bytes]] = {
    "cut": lambda content, place: content[:place],
    "^0x01": lambda content, place: _with_byte(content, place, content[place] ^ 0x01),
    "^0x20": lambda content, place: _with_byte(content, place, content[place] ^ 0x20),
    "^0x80": lambda content, place: _with_byte(content, place, content[place] ^ 0x80),
    "newline": lambda content, place: _with_byte(content, place, 0x0A),
}


def _with_byte(content: bytes, place: int, byte: int) -> bytes:
    return content[:place] + bytes([byte]) + content[place + 1 :]


def _data(number: int) -> dict[str, Any]:
    return {"callId": "c", "ok": True, "result": {"password": PASSWORDS % number}}


def _start(path: Path) -> DirectorySink:
    clock = start_clock()
    redactor = Redactor("default", engine="python")
    options = Options(redactor=redactor, seal=Seal(KEY), durability="none")
    sink = DirectorySink(path, clock=clock, options=options)
    sink.start(make_seed(clock=clock, redactor=redactor, log="events.jsonl"))
    for number in range(2):
        sink.append(Draft(type="tool_result", data=_data(number), ts=1 + number))
    return sink


def _restored(path: Path) -> list[dict[str, Any]]:
    """What a replay with the key would serve."""
    boxes = list(read_sealed(path / "sealed"))
    with open_recording(path) as source:
        return [
            restore(event, [box for box in boxes if box.seq == event.seq], Seal(KEY)).data
            for event in source
        ]


@pytest.mark.parametrize("change", CHANGES)
def test_every_byte_of_the_sealed_values_changed_in_turn(change: str, memory_path: Path) -> None:
    path = memory_path / "capture"
    _start(path).finalize()
    sealed = path / "sealed"
    content = sealed.read_bytes()
    seen: Counter[str] = Counter()
    for place in range(len(content)):
        sealed.write_bytes(CHANGES[change](content, place))
        verify(path)  # the events are what they were, with or without the key
        try:
            found = _restored(path)
        except RecordingDamaged:
            seen["damaged"] += 1
            continue
        for number, data in enumerate(found):
            served = data["result"]["password"]
            assert served in (PASSWORDS % number, PLACEHOLDER)
            seen["placeholder" if served == PLACEHOLDER else "exact"] += 1
    # An unterminated last line is what a kill leaves: it is dropped without a word.
    assert seen["placeholder" if change == "cut" else "damaged"]


def test_boxes_of_two_events_swapped_are_noticed(memory_path: Path) -> None:
    path = memory_path / "capture"
    _start(path).finalize()
    first, second = (path / "sealed").read_bytes().splitlines(keepends=True)
    swapped = first.replace(b'"seq":1', b'"seq":2') + second.replace(b'"seq":2', b'"seq":1')
    (path / "sealed").write_bytes(swapped)
    with pytest.raises(RecordingDamaged):
        _restored(path)


def test_without_the_sealed_file_the_recording_is_whole_and_says_what_is_absent(
    memory_path: Path,
) -> None:
    path = memory_path / "capture"
    _start(path).finalize()
    (path / "sealed").unlink()
    verify(path)
    with open_recording(path) as source:
        for event in source:
            whole = restore(event, (), Seal(KEY))
            assert whole.data["result"]["password"] == PLACEHOLDER
            assert whole.absent == ("$.result.password",)


@pytest.mark.parametrize("change", CHANGES)
def test_damaged_sealed_values_do_not_stand_in_the_way_of_recovering_the_events(
    change: str, memory_path: Path
) -> None:
    sink = _start(memory_path / "template")
    content = {file.name: file.read_bytes() for file in (memory_path / "template").iterdir()}
    for place in range(0, len(content["sealed"]), 7):
        path = memory_path / str(place)
        path.mkdir()
        for name, written in content.items():
            (path / name).write_bytes(written)
        (path / "sealed").write_bytes(CHANGES[change](content["sealed"], place))
        recover(path, start_clock())
        verify(path)
        with open_recording(path) as source:
            assert len(source) == 2
    sink.finalize()
