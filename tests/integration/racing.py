"""Programs whose live calls take a random time, recorded and replayed: the same result each time?"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import reenact
from reenact.engine.call import SCHEDULE
from reenact.engine.session.session import Session
from tests.clocks import pause

__all__ = ["NEAR", "Program", "World", "check_replays", "lane_tree", "record", "replay", "schedule"]

CAPABILITY = "net.fetch"

NEAR = 0.1
"""Seconds of a time-out that about half of the calls of a hesitating world miss. Long enough that
a busy machine does not lose it between two lines of asyncio."""


class World:
    """What a program has: a session, and calls whose answers come when they like."""

    def __init__(self, session: Session, seed: int = 0) -> None:
        self.session = session
        self.chance = random.Random(seed)
        self.live = 0
        self.slowest = 0.004
        """Seconds that a live call may take."""

    def hesitate(self) -> None:
        """From now on live calls take about as long as the time-out ``NEAR``."""
        self.slowest = 2 * NEAR

    # Every call asks the same thing: only its lane and its place tell it from the others.

    async def aget(self, tag: Any = 0, operation: str = "get") -> Any:
        return await self.session.aio.call(
            operation, {"same": 1}, lambda: self.alive(tag), capability=CAPABILITY
        )

    def get(self, tag: Any = 0, operation: str = "get") -> Any:
        return self.session.call(
            operation, {"same": 1}, lambda: self.living(tag), capability=CAPABILITY
        )

    async def alive(self, tag: Any) -> Any:
        self.live += 1
        await asyncio.sleep(self.chance.random() * self.slowest)
        return [tag, self.chance.random()]

    def living(self, tag: Any) -> Any:
        self.live += 1
        pause(self.chance.random() * self.slowest)
        return [tag, self.chance.random()]


Program = Callable[[World], Any]


def record(program: Program, path: Path, seed: int = 0, **options: Any) -> Any:
    """What ``program`` gives while it is recorded at ``path``."""
    with reenact.session(capture=path, mode="record", seal=False, **options) as session:
        return program(World(session, seed))


def replay(program: Program, path: Path, **options: Any) -> Any:
    """What ``program`` gives when it is re-enacted, strictly and without a live call."""
    options = {"strict": True, **options}
    with reenact.session(capture=path, mode="replay", **options) as session:
        world = World(session, seed=99)
        result = program(world)
    assert world.live == 0
    assert session.divergences() == []
    return result


def check_replays(
    program: Program, folder: Path, *, recordings: int, replays: int, same_lanes: bool = True
) -> None:
    """Record ``program`` again and again, and replay each recording several times."""
    trees = []
    for number in range(recordings):
        path = folder / f"{program.__name__}-{number}"
        expected = record(program, path, seed=number)
        trees.append(lane_tree(path))
        for _ in range(replays):
            assert replay(program, path) == expected
    if same_lanes:
        assert [tree for tree in trees if tree != trees[0]] == []


def lane_tree(path: Path) -> list[str]:
    """Every lane of a recording in which a call was made."""
    with reenact.open_recording(path) as source:
        return sorted({event.lane for event in source if _is_call(event)})


def _is_call(event: reenact.Event) -> bool:
    return event.data.get("source") != SCHEDULE and "aside" not in event.data


def schedule(path: Path) -> list[tuple[str, str]]:
    """The deliveries that no call makes: lane and name, in their order."""
    with reenact.open_recording(path) as source:
        return [
            (event.lane, event.data["key"])
            for event in source
            if event.data.get("source") == SCHEDULE
        ]
