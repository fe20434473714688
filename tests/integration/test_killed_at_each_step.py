"""Killed before every single change that a writer makes: nothing is lost, nothing is doubled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import open_recording, start_recording, verify
from reenact.errors import RecordingDamaged, RecordingMissing, RecordingUnfinished
from reenact.store.recover import recover
from reenact.store.seal import Seal, read_sealed, restore
from tests.clocks import start_clock
from tests.integration.processes import killed_places
from tests.integration.scenes import KEY, OLD, PARTS, SECRET_ANSWER, TAPE_STORY
from tests.integration.stories import brief_story, story_of

pytestmark = pytest.mark.soak

Story = list[tuple[str, str, dict[str, Any]]]


def _read(path: Path) -> Story:
    """The events of a recording that must be whole."""
    verify(path)
    with open_recording(path) as source:
        return [(event.lane, event.type, event.data) for event in source]


def _recovered(path: Path) -> Story:
    first = recover(path, start_clock()).manifest
    assert recover(path, start_clock()).manifest == first
    return _read(path)


def _acknowledged(place: Path) -> int:
    file = place / "acknowledged"
    return file.stat().st_size if file.exists() else 0


def _check_each(places: list[Path], check: Callable[[Path], None]) -> None:
    """Run ``check`` on every place and say at which steps it failed."""
    failed: dict[str, str] = {}
    for place in places:
        try:
            check(place)
        except Exception as error:
            failed[f"before step {place.name}"] = f"{type(error).__name__}: {error}"
    assert not failed, "\n".join(f"{step}: {why}" for step, why in failed.items())


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
def test_killed_while_starting_leaves_a_place_that_can_be_used_again(
    name: str, memory_path: Path
) -> None:
    def check(place: Path) -> None:
        try:
            assert _recovered(place / name) == []
        except (RecordingMissing, RecordingUnfinished, RecordingDamaged):
            with start_recording(place / name, overwrite=True, seal=False):
                pass
            assert _read(place / name) == []

    _check_each(
        killed_places(
            "kill_at_each_step", f"start_{'tape' if 'tape' in name else 'directory'}", memory_path
        ),
        check,
    )


@pytest.mark.parametrize(
    "scenario,name,seed",
    [
        ("append_directory", "capture", "0"),
        ("append_tape", "tape.jsonl", TAPE_STORY),
        ("join_and_append", "capture", "0"),
    ],
)
def test_killed_while_appending_keeps_what_was_acknowledged(
    scenario: str, name: str, seed: str, memory_path: Path
) -> None:
    whole = story_of(brief_story(seed))

    def check(place: Path) -> None:
        found = _recovered(place / name)
        assert found == whole[: len(found)]
        assert len(found) >= _acknowledged(place)

    _check_each(killed_places("kill_at_each_step", scenario, memory_path), check)


@pytest.mark.parametrize(
    "scenario,name,seed",
    [
        ("finalize_directory", "capture", "0"),
        ("finalize_tape", "tape.jsonl", TAPE_STORY),
        ("recover_directory", "capture", "0"),
        ("recover_tape", "tape.jsonl", TAPE_STORY),
    ],
)
def test_killed_while_closing_is_closed_by_recovering(
    scenario: str, name: str, seed: str, memory_path: Path
) -> None:
    whole = story_of(brief_story(seed))

    def check(place: Path) -> None:
        assert _recovered(place / name) == whole

    _check_each(killed_places("kill_at_each_step", scenario, memory_path), check)


@pytest.mark.parametrize("scenario", ["finalize_several", "recover_several"])
def test_killed_while_merging_keeps_every_event_of_every_process_once(
    scenario: str, memory_path: Path
) -> None:
    seal = Seal(KEY)

    def check(place: Path) -> None:
        found = _recovered(place / "capture")
        for part in PARTS:
            mine = [event for event in found if event[0] == part]
            assert mine[:-1] == story_of(brief_story(part, lane=part))
            assert mine[-1][1] == "tool_result"
        assert len(found) == 7 * len(PARTS)
        boxes = list(read_sealed(place / "capture" / "sealed"))
        with open_recording(place / "capture") as source:
            for box in boxes:
                whole = restore(source.at(box.seq), [box], seal)
                assert {**whole.data, "redacted": None} == {**SECRET_ANSWER, "redacted": None}
                assert whole.absent == ()
        assert len(boxes) == len(PARTS)

    _check_each(killed_places("kill_at_each_step", scenario, memory_path), check)


@pytest.mark.parametrize(
    "scenario,name,seed",
    [("replace_directory", "capture", "0"), ("replace_tape", "tape.jsonl", TAPE_STORY)],
)
def test_killed_while_replacing_leaves_the_old_or_the_new_recording_whole(
    scenario: str, name: str, seed: str, memory_path: Path
) -> None:
    old, new = story_of(brief_story(OLD, count=5)), story_of(brief_story(seed))

    def check(place: Path) -> None:
        if (place / f"{name}.part").exists():  # the old tape is whole, the new one is not closed
            with pytest.raises(RecordingUnfinished, match="both"):
                recover(place / name, start_clock())
        else:
            recover(place / name, start_clock())
        assert _read(place / name) in (old, new)

    _check_each(killed_places("kill_at_each_step", scenario, memory_path), check)
