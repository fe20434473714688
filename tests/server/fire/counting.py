"""What ran, counted on the app's side, and what the server has of it."""

from __future__ import annotations

from tests.server.fire.conftest import Scene
from tests.server.fire.running import until


def check(scene: Scene, replays: dict[str, str]) -> bool:
    """``replays`` are ids by what they run: each has completed, ran once, has one exchange, one intent
    and one result. What the app did by itself is there once. The audit log holds."""
    for run, replay in replays.items():
        ended = scene.operator.end_of(replay)
        assert (run, ended["state"], ended["code"]) == (run, "completed", "")
        assert scene.operator.records(replay) == [
            ("replay.requested", ""),
            ("replay.finished", "ok"),
        ]
    until(lambda: scene.app.status()["spooled"] == 0)
    ran = scene.app.ran()
    for run in replays:
        assert (run, ran.pop(f"replay {run}", 0)) == (run, 1)
    assert ran == scene.operator.orders()
    assert set(ran.values()) == {1}
    assert scene.operator.replays() == dict.fromkeys(replays.values(), 1)
    assert scene.app.status()["dropped"] == scene.app.status()["refused"] == 0
    return scene.operator.verify(scene.folder / "export")
