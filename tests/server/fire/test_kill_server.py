"""The server killed with -9 at every point of a replay's life, and started again: what was asked for
runs once, what the app did by itself arrives once, and the audit log holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.server.fire.conftest import Scene
from tests.server.fire.counting import check
from tests.server.fire.running import until

POINTS = 30
"""There are at least so many between asking for a replay and the answer to its result."""


def _is_over(scene: Scene, replay: str) -> bool:
    """Has the server died, or has it nothing more to do?"""
    if scene.server.has_ended():
        return True
    done = scene.operator.try_to("GET", f"/api/v1/replays/{replay}")
    ended = done is not None and bool(done.json()["endedAt"])
    return ended and scene.app.status()["spooled"] == 0


def _killed_at(scene: Scene, point: int, run: str) -> tuple[str, bool]:
    """Have something replayed while the server is killed at ``point``: the id of the replay, and
    whether it got there."""
    scene.server.kill()
    scene.server.serve(begin="/replays", kill_at=point)
    until(scene.app.is_connected)
    answer = scene.operator.ask(scene.source, run)
    scene.app.order(f"during-{run}")
    if answer is not None:
        until(lambda: _is_over(scene, answer.json()["replayId"]))
    got_there = answer is None or scene.server.has_ended()
    scene.server.kill()
    scene.app.order(f"after-{run}")
    scene.server.serve()
    replay = scene.operator.asked(scene.source, run)
    assert answer is None or answer.json()["replayId"] == replay
    scene.operator.end_of(replay)
    until(lambda: scene.app.status()["spooled"] == 0)  # the next life has nothing else to do
    return replay, got_there


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.both_databases
def test_a_server_killed_anywhere_loses_nothing_and_runs_nothing_twice(
    scene: Scene, rounds: Callable[[int, int], int], database_kind: str
) -> None:
    step = rounds(6 if database_kind == "sqlite" else 18, 1)
    replays: dict[str, str] = {}
    for point in itertools.count(1, step):
        run = f"r{point}"
        replays[run], got_there = _killed_at(scene, point, run)
        if not got_there:
            break
    assert point > POINTS
    assert check(scene, replays)


@pytest.mark.slow
def test_a_server_killed_again_and_again_during_one_replay_runs_it_once(scene: Scene) -> None:
    """Whatever a life comes to, the agent's return or the asking, it does not get far."""
    scene.server.kill()
    scene.app.order("meanwhile")
    for point in (2, 7, 12, 17, 22):
        scene.server.serve(begin="*", kill_at=point)
        scene.operator.ask(scene.source, "r1")
        until(scene.server.has_ended)
        scene.server.kill()
    scene.server.serve()
    assert check(scene, {"r1": scene.operator.asked(scene.source, "r1")})
