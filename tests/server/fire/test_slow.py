"""Slow ones: who sends a body byte by byte, does not read what was asked for, or says nothing at all.
The server holds a bounded number of bytes for each, serves the others, and cuts off who is too slow;
who comes again has missed nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from reenact.server.http.connections import connections
from reenact.server.process.serve import bind
from reenact.server.runtime import Limits, Timings
from tests.server.batches.following import confirm, ended, planned
from tests.server.batches.worker import Worker
from tests.server.fire.running import until
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, ask_for, code_of, exchange, lines, named

MOST = 4 << 20
"""Bytes that a server holds for all."""
PIECE = 1 << 16
HIGH = 1 << 16
"""Bytes that a connection may have unsent before its writer waits."""


def narrow(size: int, unread: float) -> socket.socket:
    """Its connections keep few bytes in the system."""
    sock = bind("127.0.0.1", 0, unread)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
    return sock


@contextmanager
def serving(
    data: Path, *, waits: float, rate: int = 1, size: int = PIECE
) -> Iterator[tuple[House, Puppet, httpx.Client]]:
    """A server that waits ``waits`` seconds for slow ones, an agent, and somebody who may replay.
    With a ``rate`` of 1 whoever moves at all is not slow."""
    with running(
        data,
        limits=Limits(rate=rate, held=MOST),
        timings=Timings(slow=waits, sweep=0.02, poll=0.05),
        listening=lambda: narrow(size, waits),
        protocol=connections(0, waits),
    ) as house:
        house.environment("staging")
        agent = Puppet(house)
        assert agent.register().status_code == 200
        yield house, agent, house.client(house.key("replayer", "replay:live"))


Site = tuple[House, Puppet, httpx.Client]


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Site]:
    """It waits for ever."""
    with serving(tmp_path / "data", waits=3600) as site:
        yield site


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Site]:
    """It waits for a moment only."""
    with serving(tmp_path / "data", waits=1) as site:
        yield site


def answered(house: House, route: str) -> int:
    """How many requests for ``route`` have ended, in whatever way."""
    counts = house.server.meters.counts()
    return sum(number for _, labels, number in counts if ("route", route) in labels)


class Raw:
    """A connection that does what a test says, and reads only when told to."""

    def __init__(self, house: House, key: str = "") -> None:
        self._key = key
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = house.url.removeprefix("http://").split(":")
        self.sock.connect((host, int(port)))
        self.sock.settimeout(30)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def ask(self, method: str, path: str, **headers: Any) -> None:
        """Send the head of a request."""
        head = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self._key}"]
        head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall("\r\n".join([*head, "", ""]).encode())

    def read(self) -> bytes:
        """Everything until the connection ends, however it does."""
        found = b""
        try:
            while piece := self.sock.recv(1 << 16):
                found += piece
        except ConnectionResetError:
            return found
        return found

    def trickle(self) -> None:
        """One byte after the other, until nobody wants them any more."""
        self.sock.setblocking(False)
        try:
            while True:
                try:
                    self.sock.recv(1, socket.MSG_PEEK)
                    return
                except BlockingIOError:
                    self.sock.send(b"x")
        except (BlockingIOError, ConnectionError):
            return
        finally:
            self.sock.settimeout(30)


def ingest_head(raw: Raw, size: int) -> None:
    raw.ask("POST", "/api/v1/ingest", Content_Type="application/x-ndjson", Content_Length=size)


def key_of(client: httpx.Client) -> str:
    return str(client.headers["Authorization"]).removeprefix("Bearer ")


def is_served(agent: Puppet) -> bool:
    return agent.heartbeat().status_code == 204


def test_a_body_that_comes_byte_by_byte_is_not_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path / "data", waits=1, rate=1 << 40) as (house, agent, _):
        with Raw(house, agent.key) as raw:
            ingest_head(raw, 1 << 20)
            raw.trickle()
            answer = raw.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer.lower()
        assert b'"code":"too_slow"' in answer
        until(lambda: house.server.intake.room.held == 0)
        assert is_served(agent)


def test_what_is_under_way_is_bounded_and_tenants_have_their_share(patient: Site) -> None:
    house, agent, _ = patient
    others = []
    for tenant in ("second", "third"):
        house.tenant(tenant)
        others.append(Puppet(house, agent_id=tenant, tenant=tenant))
        assert others[-1].register().status_code == 200
    second, third = others
    room = house.server.intake.room
    with Raw(house, agent.key) as mine, Raw(house, second.key) as theirs:
        ingest_head(mine, MOST // 2)
        until(lambda: room.held == MOST // 2)
        refused = agent.post_lines(lines(exchange()))
        assert code_of(refused) == (429, "rate_limited")
        assert int(refused.headers["Retry-After"]) > 0
        ingest_head(theirs, MOST // 2 - PIECE)  # the other half, but for a small request
        until(lambda: room.held == MOST - PIECE)
        assert third.ingest(exchange("small"))[0]["status"] == "stored"
        refused = third.post_lines(lines(exchange(), blobs=(bytes(PIECE),)))
        assert code_of(refused) == (503, "unavailable")
        assert int(refused.headers["Retry-After"]) > 0
        assert all(map(is_served, (agent, second, third)))
    until(lambda: room.held == 0)
    assert agent.ingest(exchange())[0]["status"] == "stored"


def test_a_download_that_is_not_read_takes_little_and_a_share(patient: Site) -> None:
    house, agent, operator = patient
    data, path = bytes(MOST // 2), "/api/v1/exchanges/ex-1/recording"
    agent.ingest(exchange(recording=named(data)), blobs=(data,))
    with Raw(house, key_of(operator)) as raw:
        raw.ask("GET", path)
        until(lambda: max(house.unread()) > 0)
        assert house.server.intake.outgoing.held == len(data)
        assert max(house.unread()) <= HIGH + PIECE + 1024
        refused = operator.get(path)
        assert code_of(refused) == (429, "rate_limited")
        assert int(refused.headers["Retry-After"]) > 0
        assert is_served(agent)
    until(lambda: house.server.intake.outgoing.held == 0)
    assert operator.get(path).content == data


def test_a_download_that_is_not_read_is_given_up(hasty: Site) -> None:
    house, agent, operator = hasty
    data = bytes(MOST // 2)
    agent.ingest(exchange(recording=named(data)), blobs=(data,))
    with Raw(house, key_of(operator)) as raw:
        raw.ask("GET", "/api/v1/exchanges/ex-1/recording")
        until(lambda: answered(house, "/api/v1/exchanges/{id}/recording"))
        assert house.server.intake.outgoing.held == 0
        until(lambda: max(house.unread(), default=0) == 0)  # its connection is gone, too
        assert 0 < len(raw.read()) < len(data)
    assert is_served(agent)


def ask_for_large(operator: httpx.Client, number: int) -> list[str]:
    body = {"type": "text", "text": "x" * 300_000}
    wanted: dict[str, Any] = {
        "boundaries": "live",
        "reason": "x",
        "modifiedPayload": {"body": body},
    }
    return [ask_for(operator, **wanted).json()["replayId"] for _ in range(number)]


def test_commands_that_are_not_read_wait_where_they_are(patient: Site) -> None:
    house, agent, operator = patient
    agent.ingest(exchange())
    with Raw(house, agent.key) as raw:
        raw.ask("GET", f"/api/v1/agents/agent-1/commands?epoch={agent.epoch}")
        asked = ask_for_large(operator, 3)
        until(lambda: max(house.unread()) > HIGH)
        assert max(house.unread()) < 2 * 300_000  # the second waits until the first has left
        assert is_served(agent)
    with agent.stream() as stream:
        commands = [agent.read_command(stream.next()["data"]) for _ in asked]
    assert [one.replay_id for one in commands] == asked
    assert [agent.run(one)[0]["status"] for one in commands] == ["stored"] * 3


def test_commands_that_are_not_read_come_again(hasty: Site) -> None:
    house, agent, operator = hasty
    agent.ingest(exchange())
    with Raw(house, agent.key) as raw:
        raw.ask("GET", f"/api/v1/agents/agent-1/commands?epoch={agent.epoch}")
        asked = ask_for_large(operator, 3)
        until(lambda: answered(house, "/api/v1/agents/{agent_id}/commands"))
        until(lambda: max(house.unread(), default=0) == 0)
    with agent.stream() as stream:
        assert [agent.read_command(stream.next()["data"]).replay_id for _ in asked] == asked


def test_progress_that_is_not_read_holds_nothing_up(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "data", waits=3600, size=4096) as (house, agent, operator),
        Worker(agent) as worker,
        Raw(house, key_of(operator)) as raw,
    ):
        agent.ingest(*(exchange(f"ex-{number}") for number in range(12)))
        batch = planned(operator, search={}, boundaries="live", reason="\N{HOURGLASS}" * 2000)
        raw.ask("GET", f"/api/v1/batches/{batch['batchId']}/events")
        until(lambda: len(house.unread()) > 2)
        confirm(operator, batch)
        done = ended(operator, batch)
        assert done["progress"]["ended"] == 12
        assert max(house.unread()) <= HIGH + 2 * 8192
        assert worker.ran == {f"ex-{number}": 1 for number in range(12)}
        assert ended(operator, batch) == done  # who comes again sees what is true now


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
def test_a_request_that_never_begins_is_not_waited_for(hasty: Site, said: bytes) -> None:
    house, agent, _ = hasty
    with Raw(house) as raw:
        raw.sock.sendall(said)
        assert raw.read() == b""
    assert is_served(agent)


def test_a_second_request_that_never_begins_is_not_waited_for(hasty: Site) -> None:
    house, agent, _ = hasty
    with Raw(house) as raw:
        raw.ask("GET", "/healthz")
        assert raw.sock.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        raw.sock.sendall(b"GET ")
        assert b"HTTP/" not in raw.read()
    assert is_served(agent)


def test_connections_are_given_up_by_the_system_as_well() -> None:
    with closing(bind("127.0.0.1", 0, unread=7)) as listening, socket.socket() as caller:
        caller.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            found = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert found == 7000
