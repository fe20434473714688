"""Several processes of one capture, each killed at a random instant, some surviving."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import Event, open_recording, verify
from reenact.store.recover import recover
from tests.clocks import start_clock
from tests.integration.processes import Acks, let_some_instants_pass, start_program
from tests.integration.stories import index_of, long_story, story_of

LANES = {
    "first": "0",
    "spawned0": "0.1",
    "spawned1": "0.2",
    "forked0": "0.3",
    "forked1": "0.4",
}


def _run(place: Path, seed: str, victims: list[str]) -> dict[str, list[int]]:
    """Kill the victims one after the other, let the rest end, return what was acknowledged."""
    chance = random.Random(f"{seed} instants")
    with Acks(place.with_name("pipe")) as acks:
        first = start_program("family", place, seed, acks.path, "2", "2")
        try:
            acks.wait_for_pids(len(LANES))
            assert set(acks.pids) == set(LANES)
            for victim in victims:
                acks.wait_for(acks.total() + chance.randrange(1, 60))
                let_some_instants_pass(chance)
                os.kill(acks.pids[victim], signal.SIGKILL)
            acks.wait_for(acks.total() + 30 if len(victims) < len(LANES) else 0)
        finally:
            assert first.stdin is not None
            first.stdin.close()
        acks.rest()
        first.wait()
        assert (first.returncode == 0) is ("first" not in victims)
        return acks.seen


def _check(place: Path, seed: str, acknowledged: dict[str, list[int]]) -> None:
    verify(place)
    by_lane: dict[str, list[Event]] = defaultdict(list)
    with open_recording(place) as source:
        for event in source:
            by_lane[event.lane].append(event)
        for name, lane in LANES.items():
            mine = by_lane.pop(lane, [])
            found = [(event.lane, event.type, event.data) for event in mine]
            assert len(found) >= len(acknowledged[name]), name
            story = itertools.islice(long_story(f"{seed} {lane}", lane=lane), len(found))
            assert found == story_of(list(story)), name
            for event in mine:
                index = index_of(event)
                if index % 3 == 2:
                    assert event.parent == mine[index - 1].seq
                else:
                    assert event.parent is None
    assert not by_lane


@pytest.mark.soak
@pytest.mark.parametrize("first_dies", [False, True])
def test_each_killed_or_not_every_acknowledged_event_of_each_process_is_there(
    first_dies: bool, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    for number in range(rounds(1, 25)):
        seed = f"{first_dies} {random.getrandbits(32)} {number}"
        print(f"seed: {seed}")
        chance = random.Random(seed)
        others = [name for name in LANES if name != "first"]
        victims = chance.sample(others, chance.randint(1, 4))
        if first_dies:
            victims.insert(chance.randrange(len(victims) + 1), "first")
        place = tmp_path / str(number) / "capture"
        place.parent.mkdir()
        acknowledged = _run(place, seed, victims)
        if first_dies:
            recover(place, start_clock())
        _check(place, seed, acknowledged)
