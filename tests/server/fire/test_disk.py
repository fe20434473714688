"""Disks that are full: a server says so and takes everything later; an app goes on, and says what it
could not keep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.server.fire.conftest import Scene, staged
from tests.server.fire.counting import check
from tests.server.fire.filling import small_disk
from tests.server.fire.running import PATIENCE, Site, until
from tests.server.traffic.puppet import exchange, lines

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]


def _told(answer: httpx.Response) -> tuple[int, str, bool]:
    """Status, code, and whether it says when to come again."""
    error = answer.json()["error"]
    assert error.keys() == {"code", "message", "hint", "details", "requestId"}
    return answer.status_code, error["code"], answer.headers["Retry-After"].isdigit()


def test_a_server_without_room_says_so_and_takes_everything_later(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        site = Site(disk.folder)
        with staged(tmp_path, site) as scene:
            before = scene.operator.asked(scene.source, "before")
            scene.operator.end_of(before)
            disk.fill()
            asked = scene.operator.try_once(scene.source, "full")
            assert _told(asked) == (507, "storage_full", True)
            assert _told(_ingest(scene)) == (507, "storage_full", True)
            for number in range(3):
                scene.app.order(f"full-{number}")
            until(lambda: "no room" in scene.app.status()["error"])
            assert scene.app.status()["spooled"] == 3
            assert [one["replayId"] for one in scene.operator.listed("/api/v1/replays")] == [before]
            # What cannot be recorded in the audit log is not shown either.
            unseen = scene.operator.http.get("/api/v1/audit/records", params={"outcome": "denied"})
            assert _told(unseen) == (507, "storage_full", True)
            scene.server.kill()
            scene.server.serve()  # it starts all the same
            assert _told(scene.operator.try_once(scene.source, "full")) == (
                507,
                "storage_full",
                True,
            )
            disk.free()
            full = scene.operator.asked(scene.source, "full")
            assert check(scene, {"before": before, "full": full})
            assert scene.app.all("warned") == []


def _ingest(scene: Scene) -> httpx.Response:
    headers = {
        "Authorization": f"Bearer {scene.keys.agent}",
        "Content-Type": "application/x-ndjson",
    }
    content = lines(exchange("never-stored"), blobs=(bytes(100_000),))
    return scene.operator.http.post("/api/v1/ingest", content=content, headers=headers)


def test_a_server_does_not_begin_where_there_is_no_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        words = [sys.executable, "-m", "reenact", "serve", "--port", "0"]
        ended = subprocess.run(
            [*words, "--data", str(disk.folder / "data")],
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith("reenact: error: the server has no room left")
    assert "free disk space" in ended.stderr


def test_an_app_without_room_goes_on_and_says_what_it_could_not_keep(tmp_path: Path) -> None:
    with small_disk(tmp_path / "app", "4m") as disk, staged(tmp_path, Site(tmp_path)) as scene:
        disk.fill()
        for number in range(3):
            scene.app.order(f"lost-{number}")  # which is answered
        refused = scene.operator.end_of(scene.operator.asked(scene.source, "full"))
        assert (refused["state"], refused["code"]) == ("failed", "internal")
        assert scene.app.status()["dropped"] == 3
        until(lambda: scene.operator.get("/api/v1/agents")["items"][0]["dropped"] == 3)
        disk.free()
        scene.app.order("kept")
        again = scene.operator.asked(scene.source, "again")
        assert scene.operator.end_of(again)["state"] == "completed"
        until(lambda: scene.app.status()["spooled"] == 0)
        ran = scene.app.ran()
        assert (ran["replay full"], ran["replay again"]) == (0, 1)
        assert scene.operator.orders() == {"order first": 1, "order kept": 1}
        until(lambda: scene.app.status()["error"] == "")
        assert scene.app.all("warned") == [
            "exchanges are dropped, and not recorded: No space left on device",
            "commands are refused: no journal can be written (No space left on device)",
        ]
