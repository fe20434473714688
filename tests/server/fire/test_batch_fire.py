"""Batches while servers are killed with -9: each exchange is replayed once, as counted where it ran, and
the summary is what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SOAK
from tests.server.databases import DATABASES
from tests.server.fire.conftest import Scene
from tests.server.fire.operating import Operator
from tests.server.fire.running import AppLives, ServerLives, Site, closing, free_port, until

PATH = "/api/v1/batches"
EXCHANGES = 40
LAST = ("completed", "cancelled")


def orders(app: AppLives, operator: Operator, number: int = EXCHANGES) -> dict[str, str]:
    """What the app has done by itself: ids of exchanges, and what each ran."""
    for run in range(number):
        app.order(f"o{run}")
    until(lambda: len(operator.listed("/api/v1/exchanges")) >= number)
    found = operator.listed("/api/v1/exchanges")
    return {one["exchangeId"]: one["correlationId"] for one in found}


def planned(operator: Operator) -> str:
    wanted = {"search": {"app": "shop"}, "perMinute": 6000}
    answer = operator.try_to("POST", PATH, json=wanted)
    assert answer is not None
    assert answer.status_code == 201, answer.text
    batch: str = answer.json()["batchId"]
    return batch


def told(operator: Operator, batch: str, what: str) -> dict[str, Any]:
    """Confirm or cancel it, however often that takes."""
    answer = until(lambda: operator.try_to("POST", f"{PATH}/{batch}/{what}"))
    assert answer is not None
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ended(operator: Operator, batch: str) -> dict[str, Any]:
    until(lambda: operator.get(f"{PATH}/{batch}")["state"] in LAST, "the batch does not end")
    found: dict[str, Any] = operator.get(f"{PATH}/{batch}")
    return found


def has_begun(operator: Operator, batch: str) -> bool:
    answer = operator.try_to("GET", f"{PATH}/{batch}")
    return answer is not None and answer.json()["progress"]["ended"] > 0


def audited(operator: Operator, action: str) -> list[dict[str, Any]]:
    found = operator.listed("/api/v1/audit/records", action=action)
    return [one["record"] for one in found]


def check_all_ran_once(
    operator: Operator, app: AppLives, batch: str, sources: dict[str, str], folder: Path
) -> None:
    """On the side of the app, in the batch, in the history and in the audit log."""
    done = ended(operator, batch)
    assert done["state"] == "completed"
    number = len(sources)
    assert done["progress"]["ended"] == number
    assert done["progress"]["outcomes"] == {"completed": number}
    assert done["progress"]["verdicts"] == {"identical": number}
    assert done["plan"]["exchanges"] == number
    replayed = Counter(run for run in app.ran().elements() if run.startswith("replay "))
    assert replayed == Counter(f"replay {run}" for run in sources.values())
    items = operator.listed(f"{PATH}/{batch}/items")
    assert {one["exchangeId"] for one in items} == set(sources)
    replays = {one["replayId"] for one in items}
    assert operator.replays() == Counter(replays)
    assert {one["replayId"] for one in audited(operator, "replay.requested")} == replays
    assert Counter(one["replayId"] for one in audited(operator, "replay.finished")) == Counter(
        replays
    )
    assert len(audited(operator, "batch.confirmed")) == 1
    assert operator.verify(folder / "proof")


@pytest.mark.slow
def test_a_batch_goes_on_after_its_server_was_killed_again_and_again(scene: Scene) -> None:
    sources = orders(scene.app, scene.operator)
    batch = planned(scene.operator)
    scene.server.kill()
    # In the confirmation, while the first are ordered, while they run, and while others end.
    for begin, kill_at in (("/confirm", 3), ("/confirm", 40), ("*", 90), ("*", 160), ("*", 230)):
        scene.server.serve(begin=begin, kill_at=kill_at)
        if begin == "/confirm":
            scene.operator.try_to("POST", f"{PATH}/{batch}/confirm")
        until(scene.server.has_ended)
        scene.server.kill()
    scene.server.serve()
    told(scene.operator, batch, "confirm")
    check_all_ran_once(scene.operator, scene.app, batch, sources, scene.folder)


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [2, 3, 4, 6, 9, 12, 15] if SOAK else [6])
def test_a_batch_that_is_cancelled_while_its_server_is_killed_ends(
    scene: Scene, kill_at: int
) -> None:
    sources = orders(scene.app, scene.operator, 12)
    batch = planned(scene.operator)
    scene.server.kill()
    scene.server.serve(begin="/cancel", kill_at=kill_at)
    until(scene.app.is_connected)
    told(scene.operator, batch, "confirm")
    until(lambda: has_begun(scene.operator, batch))
    scene.operator.try_to("POST", f"{PATH}/{batch}/cancel")
    until(scene.server.has_ended)
    scene.server.kill()
    scene.server.serve()
    told(scene.operator, batch, "cancel")
    done = ended(scene.operator, batch)
    progress = done["progress"]
    assert done["state"] == "cancelled"
    assert (progress["waiting"], progress["asked"]) == (0, 0)
    assert progress["ended"] + progress["cancelled"] == len(sources)
    assert len(audited(scene.operator, "batch.cancelled")) == 1
    ran = scene.app.ran()
    for item in scene.operator.listed(f"{PATH}/{batch}/items"):
        runs = ran[f"replay {sources[item['exchangeId']]}"]
        if item["outcome"] == "completed":
            assert runs == 1
        elif item["state"] == "cancelled":
            assert runs == 0  # it was never tried
        else:
            assert (item["outcome"], runs <= 1) == ("cancelled", True)
    assert progress["outcomes"].get("completed", 0) == scene.operator.replays().total()
    assert scene.operator.verify(scene.folder / "proof")


class Pair:
    """Two servers on one PostgreSQL; the app is at the second one."""

    def __init__(self, folder: Path) -> None:
        self.site = Site(folder, DATABASES.postgres(folder / "data"))
        self.first = ServerLives(self.site)
        self.second = ServerLives(self.site, free_port())


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with DATABASES.on("postgresql"):
        pair = Pair(tmp_path)
        with closing(pair.first, pair.second):
            yield pair


def confirm_at_once(urls: list[str], key: str, batch: str) -> list[int]:
    """The answers to all who confirm it in the same moment."""

    def confirm(url: str) -> int:
        operator = Operator(url, key)
        with closing(operator):
            return operator.http.post(f"{PATH}/{batch}/confirm").status_code

    with ThreadPoolExecutor(len(urls)) as both:
        return list(both.map(confirm, urls))


@pytest.mark.slow
def test_the_other_server_goes_on_with_a_batch_when_one_is_killed(
    pair: Pair, tmp_path: Path
) -> None:
    token = pair.first.serve(begin="/confirm", kill_at=60)
    keys = pair.site.furnish(token)
    pair.second.serve()
    app = AppLives(tmp_path / "app", pair.second.url, keys.agent)
    operator = Operator(pair.second.url, keys.operator)
    with closing(app, operator):
        app.start()
        until(app.is_connected)
        sources = orders(app, operator)
        batch = planned(operator)
        urls = [pair.first.url, pair.second.url] * 2
        assert confirm_at_once(urls, keys.operator, batch) == [200] * 4
        until(pair.first.has_ended, "the first server was not killed")
        check_all_ran_once(operator, app, batch, sources, tmp_path)
