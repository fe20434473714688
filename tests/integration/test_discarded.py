"""Killed while giving a recording up: what was to be kept is whole, the place can be used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import open_recording, start_recording, verify
from reenact.errors import RecordingExists, RecordingMissing, RecordingUnfinished
from reenact.store.recover import recover
from tests.clocks import start_clock
from tests.integration.processes import killed_places
from tests.integration.scenes import OLD, PARTS, SECRET_ANSWER, TAPE_STORY
from tests.integration.stories import brief_story, story_of

pytestmark = pytest.mark.soak

Story = list[tuple[str, str, dict[str, Any]]]


def _read(path: Path) -> Story:
    verify(path)
    with open_recording(path) as source:
        return [(event.lane, event.type, event.data) for event in source]


def _what_is_left(path: Path) -> Story | None:
    """The events that recovering finds; None when it finds no recording."""
    try:
        recover(path, start_clock())
    except RecordingMissing:
        return None
    return _read(path)


def _use_again(path: Path) -> None:
    with start_recording(path, overwrite=True, seal=False, redaction="none") as recording:
        recording.add("run_end", {"status": "ok"})
    assert _read(path) == [("0", "run_end", {"status": "ok"})]


@pytest.mark.parametrize(
    "scenario,name,seed",
    [
        ("discard_directory", "capture", "0"),
        ("discard_tape", "tape.jsonl", TAPE_STORY),
    ],
)
def test_killed_while_giving_up_leaves_all_of_it_or_nothing(
    scenario: str, name: str, seed: str, memory_path: Path
) -> None:
    whole = story_of(brief_story(seed))
    places = killed_places("discard_at_each_step", scenario, memory_path)
    found = []
    for place in places:
        left = _what_is_left(place / name)
        assert left in (whole, [], None), f"before step {place.name}"
        found.append(left)
        _use_again(place / name)
    assert found[0] == whole, "the first kill comes before anything is removed"
    assert found[-1] is None, "the last one is not killed"


def test_nothing_at_all_is_left_when_nobody_kills(memory_path: Path) -> None:
    for scenario in ("discard_directory", "discard_tape", "discard_several"):
        (memory_path / scenario).mkdir()
        *_, last = killed_places("discard_at_each_step", scenario, memory_path / scenario)
        assert list(last.iterdir()) == []


def test_killed_while_giving_up_a_capture_of_several_processes(memory_path: Path) -> None:
    told = {part: story_of(brief_story(part, lane=part)) for part in PARTS}
    for place in killed_places("discard_at_each_step", "discard_several", memory_path):
        left = _what_is_left(place / "capture") or []
        for part in PARTS:
            mine = [event for event in left if event[0] == part]
            assert mine[:-1] == told[part][: len(mine[:-1])], f"before step {place.name}"
            assert len(mine) in (0, 7)
        for answer in (event[2] for event in left if event[1] == "tool_result"):
            assert answer["callId"] == SECRET_ANSWER["callId"]
        _use_again(place / "capture")


@pytest.mark.parametrize(
    "scenario,name",
    [("discard_new_directory", "capture"), ("discard_new_tape", "tape.jsonl")],
)
def test_killed_while_giving_up_a_replacement_keeps_the_old_recording_whole(
    scenario: str, name: str, memory_path: Path
) -> None:
    old = story_of(brief_story(OLD, count=5))
    for place in killed_places("discard_at_each_step", scenario, memory_path):
        assert _read(place / name) == old, f"before step {place.name}"
        if (place / f"{name}.part").exists():
            with pytest.raises(RecordingUnfinished, match="both"):
                recover(place / name, start_clock())
        else:
            recover(place / name, start_clock())
        assert _read(place / name) == old, f"before step {place.name}"
        with pytest.raises(RecordingExists):
            start_recording(place / name, seal=False)
        _use_again(place / name)
