"""Many agents at one server, each with its stream; and more connections than it may have."""

from __future__ import annotations

import asyncio
import random
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import SOAK
from tests.server.databases import DATABASES
from tests.server.fire.crowd import Member, client, crowd
from tests.server.fire.running import PATIENCE, Keys, ServerLives, Serving, Site, closing, until
from tests.server.house import House
from tests.server.traffic.puppet import exchange, lines, named

AGENTS = 1000 if SOAK else 100
TARGETS = 50 if SOAK else 20
BEAT = 60.0
"""Seconds between heartbeats: long, so that nobody is late on a machine that has other things to do."""
FILES = 300
"""Open files that a server may have, of which it keeps 128 for itself."""


async def ingest_one(http: httpx.AsyncClient) -> None:
    recording = b"recorded"
    sent = await http.post(
        "/api/v1/ingest",
        content=lines(exchange(recording=named(recording)), blobs=(recording,)),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert sent.json()["results"][0]["status"] == "stored"


async def replay_at(operator: httpx.AsyncClient, member: Member) -> tuple[str, str]:
    """The agent, and the replay that it is to run."""
    wanted = {"target": {"agentId": member.agent_id}}
    answer = await operator.post("/api/v1/exchanges/ex-1/replays", json=wanted)
    assert answer.status_code == 202, answer.text
    return member.agent_id, answer.json()["replayId"]


async def present(operator: httpx.AsyncClient, state: str) -> set[str]:
    """Ids of all agents in this state."""
    found: set[str] = set()
    query: dict[str, Any] = {"state": state, "limit": 500}
    while query.get("cursor", "") is not None:
        page = (await operator.get("/api/v1/agents", params=query)).json()
        found |= {one["agentId"] for one in page["items"]}
        query["cursor"] = page["next"]
    return found


async def many_agents(url: str, keys: Keys) -> int:
    """How many commands came to those that they were for, and to nobody else."""
    chance = random.Random(7)
    async with crowd(url, keys.agent) as people, client(url, keys.operator) as operator:
        await people.register(AGENTS)
        people.keep_beating(people.members, BEAT)
        await people.listen()
        names = {one.agent_id for one in people.members}
        async with client(url, keys.agent) as http:
            await ingest_one(http)
        chosen = chance.sample(people.members, TARGETS)
        expected = dict(await people.each(chosen, lambda one: replay_at(operator, one)))
        await people.until(lambda: all(one.commands for one in chosen))
        await people.each(chosen, lambda one: people.report(one, "delivered"))
        seen = {one.agent_id: one.pings for one in people.members}
        await people.until(lambda: all(one.pings > seen[one.agent_id] for one in people.members))
        got = {one.agent_id: [it["replayId"] for it in one.commands] for one in people.members}
        assert got == {name: [expected[name]] if name in expected else [] for name in names}
        assert {it["agentId"] for one in chosen for it in one.commands} == set(expected)
        assert await present(operator, "online") == names
        return sum(map(len, got.values()))


@pytest.mark.slow
def test_each_of_many_agents_gets_what_is_for_it_and_nothing_else(tmp_path: Path) -> None:
    site = Site(tmp_path, DATABASES.address(tmp_path / "data"))
    server = ServerLives(site)
    with closing(server):
        timings = {"ping": 5.0 if SOAK else 1.0, "deliver": 600.0, "heartbeat": BEAT}
        keys = site.furnish(server.serve(timings=timings))
        assert asyncio.run(many_agents(site.url, keys)) == TARGETS


def test_heartbeats_keep_those_there_that_send_them(house: House) -> None:
    key, reader = house.agent_key("shop", "staging"), house.key("viewer")

    async def main() -> None:
        async with crowd(house.url, key) as people, client(house.url, reader) as viewer:
            await people.register(AGENTS // 3)
            names = {one.agent_id for one in people.members}
            for _ in range(3):
                house.clock.move(20)
                await people.each(people.members[::2], people.beat)
            here = {one.agent_id for one in people.members[::2]}
            assert await present(viewer, "online") == here
            assert await present(viewer, "offline") == names - here

    asyncio.run(main())


class Limited(Serving):
    """``reenact serve`` that may have few open files."""

    program = (
        sys.executable,
        "-c",
        "import os, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'reenact', *sys.argv[1:]])",
    )


def look(server: Serving) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=PATIENCE) as http:
        return http.get(f"{server.url}/readyz")


@pytest.mark.slow
def test_more_connections_than_there_may_be_are_told_and_the_server_goes_on(
    tmp_path: Path,
) -> None:
    server = Limited(Site(tmp_path))
    with closing(server):
        site_url = httpx.URL(server.url)
        for number in (FILES - 128, FILES + 50):  # all that are for connections; more than all
            with ExitStack() as stack:
                for _ in range(number):
                    sock = stack.enter_context(socket.socket())
                    sock.connect((site_url.host, site_url.port))
                if number < FILES:
                    refused = look(server)
                    assert refused.status_code == 503
                    assert int(refused.headers["Retry-After"]) > 0
                    assert refused.json()["error"]["code"] == "unavailable"
                    assert "limit of open files" in refused.json()["error"]["hint"]
            until(lambda: look(server).status_code == 200)
        assert server.process.poll() is None
