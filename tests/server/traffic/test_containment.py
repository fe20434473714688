"""A FastAPI app with databases, a file and a worker: what a replay refuses, and what it executes.

The app runs in a process of its own, so that the drivers it has loaded are its own. What happened is
judged by the databases, the file and the upstream server themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from reenact.audit.replay_proof import check_replay_proof
from tests.clocks import monotonic, start_clock
from tests.integration.exchange.apps import Upstream
from tests.server.databases import Cluster, find_postgres
from tests.server.house import House
from tests.server.traffic.puppet import ask_for, code_of

PATIENCE = 60
DRIVERS = ("psycopg", "redis", "sqlite3")
DOES = ("sqlite", "postgres", "redis", "file", "worker")
NAMED = {
    "sqlite": "through sqlite3",
    "postgres": "through psycopg",
    "redis": "through redis",
    "file": "orders.txt for writing",
    "worker": "worker",
}
"""What the divergence of a refused order names."""


class World:
    """What orders change."""

    def __init__(self, folder: Path, cluster: Cluster, redis_port: int, upstream: Upstream) -> None:
        self.cluster = cluster
        self.redis_port = redis_port
        self.upstream = upstream
        self.sqlite = folder / "orders.db"
        self.file = folder / "orders.txt"
        with closing(sqlite3.connect(self.sqlite)) as database, database:
            database.execute("CREATE TABLE orders (name TEXT)")
        self.file.touch()
        cluster.sql("DROP TABLE IF EXISTS orders")
        cluster.sql("CREATE TABLE orders (name TEXT)")
        self._redis("DEL", "orders")

    def _redis(self, *words: str) -> str:
        asked = subprocess.run(
            ["redis-cli", "-p", str(self.redis_port), *words],
            capture_output=True,
            check=True,
            text=True,
        )
        return asked.stdout.strip()

    def counts(self) -> dict[str, int]:
        """How many orders each has, told by a connection of its own."""
        with closing(sqlite3.connect(self.sqlite)) as database:
            [(rows,)] = database.execute("SELECT count(*) FROM orders")
        return {
            "sqlite": rows,
            "postgres": self.cluster.sql("SELECT count(*) AS n FROM orders")[0]["n"],
            "redis": int(self._redis("GET", "orders") or 0),
            "file": len(self.file.read_text(encoding="utf-8").splitlines()),
            "worker": len(self.upstream.asked),
        }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    home = find_postgres()
    if home is None:
        pytest.skip("there is no PostgreSQL here: on Debian, apt-get install postgresql")
    cluster = Cluster(home, Path(tempfile.mkdtemp(prefix="reenact-pg-")))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def redis_port() -> Iterator[int]:
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("there is no Redis here: on Debian, apt-get install redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen([server, *options], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        next(line for line in process.stdout if b"eady to accept connections" in line)
        process.stdout.close()
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def world(tmp_path: Path, cluster: Cluster, redis_port: int) -> Iterator[World]:
    upstream = Upstream()
    yield World(tmp_path, cluster, redis_port, upstream)
    upstream.stop()


Serve = Callable[..., Any]


@pytest.fixture
def serve(house: House, world: World, tmp_path: Path) -> Serve:
    """``with serve(drivers=…, files=…) as url`` runs the app."""
    house.clock.at = start_clock()()  # the agent has the time of this machine
    key = house.agent_key("shop", "staging")

    @contextmanager
    def running(**declared: Any) -> Iterator[str]:
        settings = {
            "server": house.url,
            "key": key,
            "data": str(tmp_path / "agent"),
            "declared": declared,
            "postgres": world.cluster.address("postgres", "postgres"),
            "redis": world.redis_port,
            "sqlite": str(world.sqlite),
            "file": str(world.file),
            "upstream": world.upstream.url,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.traffic.ordering_app"],
            env={**os.environ, "ORDERING": json.dumps(settings)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
            process.wait(PATIENCE)
            assert process.stdout is not None
            process.stdout.close()

    return running


@pytest.fixture
def live_operator(house: House) -> httpx.Client:
    """Somebody who can replay with live calls."""
    return house.client(house.key("replayer", "audit:read", "replay:live"))


def _until(look: Callable[[], Any]) -> Any:
    deadline = monotonic() + PATIENCE
    while monotonic() < deadline:
        found = look()
        if found:
            return found
    raise AssertionError("it never came")


def _record(operator: httpx.Client, url: str, do: str) -> str:
    """The id of the exchange of a real order."""

    def exchanges() -> list[str]:
        query = {"replay": "false"}
        items = operator.get("/api/v1/exchanges", params=query).json()["items"]
        return [one["exchangeId"] for one in items if one["replayId"] == ""]

    before = set(exchanges())
    answer = httpx.post(f"{url}/orders", json={"do": do}, trust_env=False, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    found: str = _until(lambda: [one for one in exchanges() if one not in before])[0]
    return found


def _ended(operator: httpx.Client, replay_id: str) -> dict[str, Any]:
    with operator.stream("GET", f"/api/v1/replays/{replay_id}/events") as events:
        last = [line[6:] for line in events.iter_lines() if line.startswith("data: ")][-1]
    found: dict[str, Any] = msgspec.json.decode(last)
    return found


def _page(operator: httpx.Client, path: str) -> str:
    answer = operator.get(path, headers={"Accept": "text/html"}, follow_redirects=True)
    assert answer.status_code == 200, answer.text
    return answer.text


def _replay_record(house: House, replay_id: str, action: str) -> dict[str, Any]:
    [found] = [
        one
        for one in house.records()
        if one.get("replayId") == replay_id and one["action"] == action
    ]
    return found


def test_replay_is_refused_before_it_starts_while_drivers_are_undeclared(
    house: House, operator: httpx.Client, world: World, serve: Serve
) -> None:
    with serve(drivers={"redis": "allow"}) as url:
        exchange_id = _record(operator, url, "postgres")
        before = world.counts()
        [agent] = operator.get("/api/v1/agents").json()["items"]
        assert {
            one["name"]: one.get("treatment", "undeclared")
            for one in agent["containment"]["drivers"]
        } == {
            "psycopg": "undeclared",
            "redis": "allow",
            "sqlite3": "undeclared",
        }
        refused = ask_for(operator, exchange_id)
        assert code_of(refused) == (409, "drivers_undeclared")
        error = refused.json()["error"]
        assert error["message"].endswith("psycopg, sqlite3")
        line = 'drivers={"psycopg": "refuse", "redis": "allow", "sqlite3": "refuse"}'
        assert line in error["hint"]
        assert house.records()[-1]["code"] == "drivers_undeclared"
        form = _page(operator, f"/exchanges/{exchange_id}/replay")
        assert "has not declared how a replay treats them: psycopg, sqlite3" in form
        plan = operator.post("/api/v1/batches", json={"exchanges": [exchange_id]}).json()["plan"]
        assert plan["refused"] == {"drivers_undeclared": 1}
        assert world.counts() == before


@pytest.mark.parametrize("boundaries", ["recorded", "recorded_then_live"])
def test_replay_with_refused_drivers_changes_nothing_outside(
    house: House, live_operator: httpx.Client, world: World, serve: Serve, boundaries: str
) -> None:
    """With ``recorded_then_live`` the call of the worker is made for real."""
    operator = live_operator
    with serve(drivers=dict.fromkeys(DRIVERS, "refuse")) as url:
        for do in DOES if boundaries == "recorded" else DOES[:-1]:
            exchange_id = _record(operator, url, do)
            before = world.counts()
            assert before[do] == 1
            asked = ask_for(operator, exchange_id, boundaries=boundaries, reason="a try")
            assert asked.status_code == 202, asked.text
            done = _ended(operator, asked.json()["replayId"])
            assert (done["state"], done["verdict"] == "identical") == ("completed", False), do
            replayed = operator.get(f"/api/v1/exchanges/{done['exchangeId']}").json()["replay"]
            assert any(NAMED[do] in one["detail"] for one in replayed["divergences"]), replayed
            assert world.counts() == before, do
        page = _page(operator, f"/replays/{done['replayId']}")
        assert "psycopg refused" in page


def test_replay_with_allowed_drivers_executes_their_statements_and_says_so(
    house: House, operator: httpx.Client, world: World, serve: Serve
) -> None:
    with serve(drivers=dict.fromkeys(DRIVERS, "allow"), files="allow") as url:
        for do in DOES[:-1]:
            exchange_id = _record(operator, url, do)
            form = _page(operator, f"/exchanges/{exchange_id}/replay")
            assert "statements are executed for real" in form
            assert "they are written, renamed and deleted for real" in form
            asked = ask_for(operator, exchange_id)
            done = _ended(operator, asked.json()["replayId"])
            replayed = operator.get(f"/api/v1/exchanges/{done['exchangeId']}").json()
            assert replayed.get("status", "completed") == "completed", replayed
            assert world.counts()[do] == 2, do
        drivers = "psycopg allow, redis allow, sqlite3 allow"
        for action in ("replay.requested", "replay.finished"):
            details = _replay_record(house, done["replayId"], action)["details"]
            assert (details["drivers"], details["files"]) == (drivers, "allow")
            assert details["environmentVariables"] == "current"
        proof = operator.get(f"/api/v1/replays/{done['replayId']}/proof").content
        proven = check_replay_proof(proof, [house.server.auditor.key("default")]).proven
        assert [one for one in proven if f"drivers {drivers}; files allow" in one] == [
            f"when it was requested, the app declared: drivers {drivers}; files allow; environment "
            "variables current",
            f"the app reported for this replay: drivers {drivers}; files allow; environment "
            "variables current",
        ]
        page = _page(operator, f"/replays/{done['replayId']}")
        assert "psycopg executed" in page
        batch = operator.post("/api/v1/batches", json={"exchanges": [exchange_id]}).json()
        assert "psycopg executed" in _page(operator, f"/batches/{batch['batchId']}")


def test_memory_of_the_app_changes_in_a_replay_as_the_form_says(
    house: House, operator: httpx.Client, world: World, serve: Serve
) -> None:
    with serve(drivers=dict.fromkeys(DRIVERS, "refuse")) as url:
        exchange_id = _record(operator, url, "nothing")
        assert "The memory of the app changes as in any request" in _page(
            operator, f"/exchanges/{exchange_id}/replay"
        )
        _ended(operator, ask_for(operator, exchange_id).json()["replayId"])
        counted = httpx.post(f"{url}/orders", json={"do": "nothing"}, trust_env=False).json()
    assert counted == {"count": 3}  # the recorded one, the replay, and this one
