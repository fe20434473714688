"""Many agents in one process: each with a real stream of commands on a socket of its own, and the
requests of the agent protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import httpx

from tests.server.fire.running import PATIENCE

AT_ONCE: Final = 16
"""Requests that the crowd makes at a time."""


class Member:
    """One agent: ``commands`` are the events that its stream has brought, ``pings`` how often that
    said that there was nothing."""

    def __init__(self, agent_id: str, epoch: int) -> None:
        self.agent_id = agent_id
        self.epoch = epoch
        self.commands: list[dict[str, Any]] = []
        self.pings = 0


class Crowd:
    """Agents with ``key`` at the server ``url``."""

    def __init__(self, url: str, key: str, http: httpx.AsyncClient) -> None:
        self._url = httpx.URL(url)
        self._key = key
        self._http = http
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Condition()
        self.members: list[Member] = []

    async def each(
        self, members: Iterable[Any], work: Callable[[Any], Awaitable[Any]]
    ) -> list[Any]:
        """``work`` for all of them, a few at a time."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(member: Any) -> Any:
            async with turns:
                return await work(member)

        return await asyncio.gather(*map(one, members))

    async def register(self, number: int) -> None:
        """So many agents come."""
        names = [f"agent-{index:04}" for index in range(number)]
        self.members = await self.each(names, self._register)

    async def listen(self) -> None:
        """All of them open their streams."""
        await self.each(self.members, self._open)

    async def _register(self, agent_id: str) -> Member:
        said = {
            "protocol": 1,
            "agentId": agent_id,
            "app": "shop",
            "environment": "staging",
            "routes": [{"routeId": "orders", "revision": "r1"}],
            "capabilities": ["replay", "cancel"],
        }
        answer = await self._http.post("/api/v1/agents", json=said)
        assert answer.status_code == 200, answer.text
        return Member(agent_id, answer.json()["epoch"])

    async def _open(self, member: Member) -> None:
        reader, writer = await asyncio.open_connection(self._url.host, self._url.port)
        path = f"/api/v1/agents/{member.agent_id}/commands?epoch={member.epoch}"
        head = [f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self._key}"]
        writer.write("\r\n".join([*head, "", ""]).encode())
        status = await reader.readline()
        assert status == b"HTTP/1.1 200 OK\r\n", status
        self._tasks.append(asyncio.create_task(self._read(member, reader, writer)))

    async def _read(
        self, member: Member, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async for line in reader:
                if line.startswith(b"data: {") and b"commandId" in line:
                    member.commands.append(json.loads(line.removeprefix(b"data: ")))
                elif line.startswith(b": ping"):
                    member.pings += 1
                else:
                    continue
                async with self._news:
                    self._news.notify_all()
        finally:
            writer.close()

    async def until(self, done: Callable[[], bool]) -> None:
        """As soon as a stream has brought what makes it true."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(done)

    async def beat(self, member: Member) -> None:
        """One heartbeat."""
        path = f"/api/v1/agents/{member.agent_id}/heartbeat"
        answer = await self._http.post(path, json={"epoch": member.epoch})
        assert answer.status_code == 204, answer.text

    async def report(self, member: Member, state: str) -> None:
        """What became of the only command that it got."""
        (command,) = member.commands
        path = f"/api/v1/agents/{member.agent_id}/replays/{command['replayId']}/state"
        answer = await self._http.post(path, json={"epoch": member.epoch, "state": state})
        assert answer.status_code == 204, answer.text

    def keep_beating(self, those: list[Member], seconds: float) -> None:
        """Heartbeats of ``those``, every so many seconds, until all leave."""

        async def work() -> None:
            while True:
                await asyncio.gather(self.each(those, self.beat), asyncio.sleep(seconds))

        self._tasks.append(asyncio.create_task(work()))

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        failed = [one for one in ended if isinstance(one, Exception)]
        assert not failed, failed[:3]


@asynccontextmanager
async def crowd(url: str, key: str) -> AsyncIterator[Crowd]:
    """Nobody yet; all gone when the block ends."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(client(url, key))
        found = Crowd(url, key, http)
        stack.push_async_callback(found.leave)
        yield found


def client(url: str, key: str) -> httpx.AsyncClient:
    """Somebody with a key."""
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=PATIENCE,
        trust_env=False,
    )
