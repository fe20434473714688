"""Several servers on one PostgreSQL: whatever one was told, an agent at another does; and either one
may be gone at any moment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from reenact.server.runtime import Timings
from tests.server.databases import DATABASES, Kind
from tests.server.house import PASSWORD, House, running
from tests.server.traffic.puppet import Puppet, Stream, ask_for, exchange, lines

NEVER = Timings(poll=3600, ping=3600, heartbeat=3600)
"""Nobody looks by themselves."""


@pytest.fixture(autouse=True)
def database_kind() -> Iterator[Kind]:
    with DATABASES.on("postgresql"):
        yield "postgresql"


@pytest.fixture
def houses(tmp_path: Path) -> Iterator[tuple[House, House]]:
    """Two servers that hear of each other by hints alone."""
    address = DATABASES.address(tmp_path / "data")
    with (
        running(tmp_path / "data", database=address, seed="one", timings=NEVER) as one,
        running(tmp_path / "data", database=address, seed="two", timings=NEVER) as two,
    ):
        one.environment("staging")
        yield one, two


def ready(house: House) -> Puppet:
    agent = Puppet(house)
    assert agent.register().status_code == 200
    agent.ingest(exchange())
    return agent


def test_a_command_reaches_an_agent_at_another_server(houses: tuple[House, House]) -> None:
    one, two = houses
    agent = ready(one)
    operator = two.client(two.key("replayer"))
    with agent.stream() as stream:
        for _ in range(3):
            replay = ask_for(operator).json()["replayId"]
            command = agent.read_command(stream.next()["data"])
            assert command.replay_id == replay
            assert agent.say(replay, "delivered").status_code == 204
            assert agent.run(command)[0]["status"] == "stored"
            shown = operator.get(f"/api/v1/replays/{replay}").json()
            assert (shown["state"], shown["verdict"]) == ("completed", "identical")


def test_who_watches_at_one_server_sees_what_comes_in_at_another(
    houses: tuple[House, House],
) -> None:
    one, two = houses
    agent = ready(one)
    operator = two.client(two.key("replayer"))
    replay = ask_for(operator).json()["replayId"]
    url = f"/api/v1/replays/{replay}/events"
    with agent.stream() as stream, operator.stream("GET", url) as watching:
        states = _states(watching)
        assert next(states) == "requested"
        command = agent.read_command(stream.next()["data"])
        agent.say(replay, "delivered")
        assert next(states) == "delivered"
        agent.run(command)
        assert next(states) == "completed"


def _states(answer: httpx.Response) -> Iterator[str]:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))["state"]


def test_a_stream_at_another_server_ends_the_one_before(houses: tuple[House, House]) -> None:
    one, two = houses
    agent = ready(one)
    with agent.stream() as first, Stream(two, agent.key, agent.agent_id, agent.epoch, {}):
        assert first.next()["event"] == "superseded"


def test_hints_come_back_after_the_connection_was_cut(houses: tuple[House, House]) -> None:
    one, two = houses
    agent = ready(one)
    operator = two.client(two.key("replayer"))
    with agent.stream() as stream:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'listen%'"
        assert DATABASES.cluster().sql(cut)
        # Lost with the connection or not: whoever listens again wakes everybody.
        replay = ask_for(operator).json()["replayId"]
        assert agent.read_command(stream.next()["data"]).replay_id == replay


class Serving:
    """``reenact serve`` as a process of its own."""

    def __init__(self, data: Path, address: str) -> None:
        env = {**os.environ, "REENACT_DATABASE": address}
        command = [sys.executable, "-m", "reenact", "serve", "--port", "0", "--data", str(data)]
        self.process = subprocess.Popen(
            [*command, "--name", "test.example"],
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=env,
        )
        self.said: list[str] = []
        self._serves = threading.Event()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()
        self._serves.wait()
        found = re.search(r" at (http://\S+)", "".join(self.said))
        assert found, self.said
        self.url = found[1]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if " at http://" in line:
                self._serves.set()
        self._serves.set()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join()
        if self.process.stderr is not None:
            self.process.stderr.close()


@contextmanager
def two_processes(data: Path) -> Iterator[tuple[Serving, Serving]]:
    address = DATABASES.address(data)
    with ExitStack() as stack:
        found = [Serving(data, address) for _ in range(2)]
        for one in found:
            stack.callback(one.close)
        yield found[0], found[1]


class Outside:
    """Somebody with every right, and an agent: over HTTP only."""

    def __init__(self, data: Path) -> None:
        self.clients = ExitStack()
        with running(data, seed="outside") as house:  # a third server, for a moment
            house.environment("staging")
            user = house.user("ada@example.com", "replayer", password=PASSWORD)
            self.key = house.key(owner=user)
            self.agent_key = house.agent_key("shop", "staging")

    def client(self, url: str, key: str) -> httpx.Client:
        made = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
            trust_env=False,
        )
        return self.clients.enter_context(made)

    def register(self, url: str) -> int:
        said = {
            "protocol": 1,
            "agentId": "agent-1",
            "app": "shop",
            "environment": "staging",
            "routes": [{"routeId": "orders", "revision": "r1"}],
            "capabilities": ["replay"],
        }
        epoch: int = (
            self.client(url, self.agent_key).post("/api/v1/agents", json=said).json()["epoch"]
        )
        return epoch

    @contextmanager
    def commands(self, url: str, epoch: int) -> Iterator[Iterator[str]]:
        """Ids of the replays that an agent there is told of."""
        path = f"/api/v1/agents/agent-1/commands?epoch={epoch}"
        with self.client(url, self.agent_key).stream("GET", path) as answer:
            assert answer.status_code == 200
            yield (
                json.loads(line.removeprefix("data: "))["replayId"]
                for line in answer.iter_lines()
                if line.startswith('data: {"') and "replayId" in line
            )


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["where it was asked", "where the agent was"])
def test_either_of_two_processes_may_be_killed(tmp_path: Path, killed: str) -> None:
    data = tmp_path / "data"
    with two_processes(data) as (one, two):
        outside = Outside(data)
        with outside.clients:
            epoch = outside.register(one.url)
            headers = {"Content-Type": "application/x-ndjson"}
            sent = outside.client(one.url, outside.agent_key).post(
                "/api/v1/ingest", content=lines(exchange()), headers=headers
            )
            assert sent.json()["results"][0]["status"] == "stored"
            operator = outside.client(two.url, outside.key)
            with outside.commands(one.url, epoch) as commands:
                first = ask_for(operator, key="first").json()["replayId"]
                assert next(commands) == first
            if killed == "where it was asked":
                second = ask_for(operator, key="second").json()["replayId"]
                two.kill()
                stays = one
            else:
                one.kill()
                second = ask_for(operator, key="second").json()["replayId"]
                stays = two
            epoch = outside.register(stays.url)
            with outside.commands(stays.url, epoch) as commands:
                assert [next(commands), next(commands)] == [first, second]
            again = ask_for(outside.client(stays.url, outside.key), key="second").json()
            assert again["replayId"] == second
