"""The app killed with -9 at every step that its agent takes on disk, and inside of its own route:
after a restart the replay has been run to its end, or has failed as ``agent_restarted``, and was never
run twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.server.fire.conftest import Scene
from tests.server.fire.running import until

STEPS = 12
"""There are at least so many between a command and the answer to its result."""
_RESULTS = {
    ("completed", ""): "ok",
    ("failed", "agent_restarted"): "failed",
}


def _killed_at(scene: Scene, step: int, run: str) -> tuple[str, bool]:
    """Have something replayed by an app that is killed at ``step``: the id of the replay, and whether
    it got there."""
    until(scene.app.is_connected)
    scene.app.say(kill_at=step)
    scene.app.hear("armed")
    replay = scene.operator.asked(scene.source, run)
    until(lambda: scene.app.has_ended() or scene.operator.has_ended(replay))
    got_there = scene.app.has_ended()
    scene.app.kill()
    scene.app.start()
    return replay, got_there


def _check(scene: Scene, replays: dict[str, str]) -> set[str]:
    """Gives how they ended."""
    ends: set[str] = set()
    for run, replay in replays.items():
        ended = scene.operator.end_of(replay)
        end = (ended["state"], ended["code"])
        assert end in _RESULTS, (run, ended)
        ends.add(ended["state"])
        assert scene.operator.records(replay) == [
            ("replay.requested", ""),
            ("replay.finished", _RESULTS[end]),
        ]
        runs = scene.app.ran()[f"replay {run}"]
        assert (run, runs) == (run, 1) if ended["state"] == "completed" else runs <= 1
        assert scene.operator.replays()[replay] == (ended["state"] == "completed")
    assert scene.operator.verify(scene.folder / "export")
    return ends


@pytest.mark.slow
@pytest.mark.soak
def test_an_app_killed_anywhere_runs_nothing_twice_and_says_what_became_of_it(
    scene: Scene, rounds: Callable[[int, int], int]
) -> None:
    replays: dict[str, str] = {}
    for step in itertools.count(1, rounds(4, 1)):
        run = f"r{step}"
        replays[run], got_there = _killed_at(scene, step, run)
        if not got_there:
            break
    assert step > STEPS
    for when in ("before", "after"):
        until(scene.app.is_connected)
        run = f"dies-{when}"
        replays[run] = scene.operator.asked(scene.source, run)
        until(scene.app.has_ended)
        scene.app.kill()
        scene.app.start()
        assert scene.operator.end_of(replays[run])["code"] == "agent_restarted"
    ends = _check(scene, replays)
    assert ends == {"completed", "failed"}
    assert scene.app.ran()["replay dies-before"] == 0
    assert scene.app.ran()["replay dies-after"] == 1
