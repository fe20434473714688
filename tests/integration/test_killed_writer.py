"""``kill -9`` at a random instant of a tight append loop loses no acknowledged event."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import open_recording, verify
from reenact.errors import RecordingDamaged, RecordingError, RecordingMissing, RecordingUnfinished
from reenact.store.recover import recover
from tests.clocks import start_clock
from tests.integration.processes import Acks, let_some_instants_pass, start_program
from tests.integration.stories import long_story, story_of

PLACES = {"directory": "capture", "tape": "tape.jsonl"}


def _kill_while_appending(place: Path, durability: str, seed: str) -> tuple[bool, int]:
    """Whether the recording had been started, and how many events were acknowledged."""
    chance = random.Random(f"{seed} instant")
    with Acks(place.with_name(f"{place.name}.pipe")) as acks:
        child = start_program("append_for_ever", place, durability, seed, acks.path)
        try:
            acks.wait_for_pids(1)
            wanted = chance.choice((0, 0, 1, chance.randrange(80)))
            acks.wait_for(wanted)
            let_some_instants_pass(chance)
        finally:
            child.kill()
            child.communicate()
        acks.rest()
        return bool(acks.seen["started"]), len(acks.seen["appended"])


def _check_recovered(place: Path, seed: str, acknowledged: int) -> None:
    report = recover(place, start_clock())
    assert report.manifest.status == "recovered"
    assert verify(place).manifest == report.manifest
    with open_recording(place) as source:
        found = [(event.lane, event.type, event.data) for event in source]
    assert len(found) >= acknowledged
    assert found == story_of(list(itertools.islice(long_story(seed), len(found))))


@pytest.mark.soak
@pytest.mark.parametrize("container", PLACES)
@pytest.mark.parametrize("durability", ["none", "interval", "event"])
def test_every_acknowledged_event_is_there_after_kill_and_recover(
    container: str, durability: str, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    for number in range(rounds(3, 120)):
        seed = f"{container} {durability} {random.getrandbits(32)} {number}"
        print(f"seed: {seed}")
        place = tmp_path / str(number) / PLACES[container]
        place.parent.mkdir()
        started, acknowledged = _kill_while_appending(place, durability, seed)
        try:
            _check_recovered(place, seed, acknowledged)
        except (RecordingMissing, RecordingUnfinished, RecordingDamaged):
            assert not started, "it had been started: there was something to recover"


@pytest.mark.parametrize("container", PLACES)
def test_a_killed_recording_is_unfinished_until_it_is_recovered(
    container: str, tmp_path: Path
) -> None:
    place = tmp_path / PLACES[container]
    with Acks(tmp_path / "pipe") as acks:
        child = start_program("append_for_ever", place, "none", container, acks.path)
        acks.wait_for(20)
        child.kill()
        child.communicate()
    with pytest.raises(RecordingUnfinished) as error:
        open_recording(place)
    assert f"reenact recover {place}" in error.value.hint
    with pytest.raises(RecordingError):
        verify(place)
    recover(place, start_clock())
    assert recover(place, start_clock()).already_whole
    assert verify(place).manifest.status == "recovered"
