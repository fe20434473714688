"""All clients in one program, in threads and tasks at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.contract.clients.every import CLIENTS
from tests.contract.clients.face import Client
from tests.contract.clients.tasks import Tasks
from tests.contract.clients.threads import Threads
from tests.contract.stage import Stage


async def _task(client: Tasks, url: str, seen: list[str]) -> None:
    async with client.opened(20) as opened:
        for _ in range(2):
            answer = await client.ask(opened, "GET", f"{url}/json", (), None)
            seen.append(f"{client.name} {json.loads(answer.body)['n']}")
        async with client.streamed(opened, f"{url}/lines?count=3") as response:
            async for piece in client.pieces(response, False):
                seen.append(f"{client.name} {piece!r}")


def _thread(client: Threads, url: str) -> list[str]:
    answers = client.fetch_all([f"{url}/json", f"{url}/json"])
    pieces = client.read(f"{url}/lines?count=3")
    return [json.loads(answer.body)["n"] for answer in answers] + [repr(one) for one in pieces]


async def _in_thread(client: Threads, url: str, seen: list[str]) -> None:
    seen.append(f"{client.name} {await asyncio.to_thread(_thread, client, url)}")


def _start(client: Client, url: str, seen: list[str]) -> Any:
    if isinstance(client, Tasks):
        return _task(client, url, seen)
    assert isinstance(client, Threads)
    return _in_thread(client, url, seen)


def _everybody(url: str) -> Callable[[], list[str]]:
    async def main() -> list[str]:
        seen: list[str] = []
        await asyncio.gather(*(_start(client, url, seen) for client in CLIENTS))
        return seen

    return lambda: asyncio.run(main())


def test_everybody_at_once_sees_the_same_things_in_the_same_order(stage: Stage) -> None:
    program = _everybody(stage.url)
    recorded = stage.record(program)
    assert len(stage.calls()) == 3 * len(CLIENTS) == len({call.lane for call in stage.calls()}) * 3
    for _ in range(3):
        assert stage.replay(program) == recorded


def test_everybody_after_another_sees_what_was_recorded(stage: Stage) -> None:
    def program() -> Any:
        bodies = [client.fetch("GET", f"{stage.url}/json").body for client in CLIENTS]
        return bodies, [client.read(f"{stage.url}/lines") for client in reversed(CLIENTS)]

    recorded = stage.record(program)
    assert [json.loads(body)["n"] for body in recorded[0]] == [
        f"{number:06d}" for number in range(1, len(CLIENTS) + 1)
    ]
    assert stage.replay(program) == recorded
