"""Several people have the same exchange replayed at the same instant, at two servers of one deployment:
there are as many runs as there are replays, and as many replays as were asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from tests.server.databases import DATABASES, Kind
from tests.server.fire.conftest import Scene, staged
from tests.server.fire.operating import Operator
from tests.server.fire.running import ServerLives, Site, free_port

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@pytest.fixture(autouse=True)
def database_kind() -> Iterator[Kind]:
    with DATABASES.on("postgresql"):
        yield "postgresql"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with staged(tmp_path, Site(tmp_path, DATABASES.address(tmp_path / "data"))) as made:
        yield made


@pytest.fixture
def people(scene: Scene) -> Iterator[tuple[Operator, Operator, Operator, Operator]]:
    """Ada at both servers, and Bob at both."""
    asked = {"kind": "user", "name": "bob", "grants": [{"role": "replayer"}]}
    bob = scene.operator.http.post("/api/v1/keys", json=asked).json()["key"]
    other = ServerLives(scene.site, free_port())
    with closing(other), ExitStack() as stack:
        other.serve()
        made = [
            stack.enter_context(closing(Operator(url, key)))
            for key in (scene.keys.operator, bob)
            for url in (scene.site.url, other.url)
        ]
        yield made[0], made[1], made[2], made[3]


def _at_once(asks: list[Callable[[], httpx.Response | None]]) -> list[str]:
    """The ids of what each got."""
    start = threading.Barrier(len(asks))

    def work(ask: Callable[[], httpx.Response | None]) -> str:
        start.wait()
        answer = ask()
        assert answer is not None
        assert answer.status_code == 202, answer.text
        replay: str = answer.json()["replayId"]
        return replay

    with ThreadPoolExecutor(len(asks)) as pool:
        return list(pool.map(work, asks))


def _ask(scene: Scene, one: Operator, run: str, key: str) -> Callable[[], httpx.Response | None]:
    return lambda: one.try_once(scene.source, run, key=key)


def test_there_are_as_many_runs_as_replays(
    scene: Scene,
    people: tuple[Operator, Operator, Operator, Operator],
    rounds: Callable[[int, int], int],
) -> None:
    ada, ada_there = people[:2]
    expected: dict[str, set[str]] = {}
    for number in range(rounds(2, 60)):
        # One person, one key: one replay, however often and wherever it is asked for.
        run = f"once-{number}"
        twins = [_ask(scene, one, run, run) for one in (ada, ada_there, ada, ada_there)]
        expected[run] = set(_at_once(twins))
        assert len(expected[run]) == 1
        # Two people may use the same key, each for a replay of their own.
        run = f"each-{number}"
        expected[run] = set(_at_once([_ask(scene, one, run, run) for one in people]))
        assert len(expected[run]) == 2
        # Another key is another replay.
        run = f"all-{number}"
        several = [_ask(scene, one, run, f"{run}-{n}") for n, one in enumerate(people)]
        expected[run] = set(_at_once(several))
        assert len(expected[run]) == 4
        for replay in (*expected[f"once-{number}"], *expected[f"each-{number}"], *expected[run]):
            ada.end_of(replay)
    for run, replays in expected.items():
        for replay in replays:
            ended = ada.end_of(replay)
            assert (run, ended["state"], ended["code"]) == (run, "completed", "")
            assert ada.records(replay) == [("replay.requested", ""), ("replay.finished", "ok")]
    ran = scene.app.ran()
    del ran["order first"]
    assert ran == {f"replay {run}": len(replays) for run, replays in expected.items()}
    everything = {one for replays in expected.values() for one in replays}
    assert ada.replays() == dict.fromkeys(everything, 1)
    assert {one["replayId"] for one in ada.listed("/api/v1/replays")} == everything
    assert ada.verify(scene.folder / "export")
