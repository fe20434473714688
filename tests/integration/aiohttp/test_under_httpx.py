"""aiohttp as the transport of httpx: recorded once, by the client that the program sees."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport, HttpxAiohttpClient

from tests.integration.loopback import Loopback, failure


def test_a_request_is_recorded_once(server: Loopback) -> None:
    async def program() -> Any:
        async with httpx.AsyncClient(transport=AiohttpTransport()) as client:
            response = await client.get(f"{server.url}/hello")
            posted = await client.post(f"{server.url}/echo", json={"a": 1})
            return response.status_code, response.text, posted.json()["body"]

    assert server.check(program)[:2] == (200, "héllo")
    assert [call.data["op"] for call in server.calls()] == ["GET", "POST"]


def test_a_stream_is_read_piece_by_piece(server: Loopback) -> None:
    async def program() -> Any:
        seen = []
        async with (
            HttpxAiohttpClient() as client,
            client.stream("GET", f"{server.url}/steps") as response,
        ):
            async for line in response.aiter_lines():
                seen.append(line)
                server.step()
        return seen

    assert server.check(program) == [f"piece {number}" for number in range(4)]
    assert len(server.calls()) == 1


def test_failures_are_those_of_httpx(server: Loopback) -> None:
    async def program() -> Any:
        async with HttpxAiohttpClient(timeout=httpx.Timeout(60, read=0.05)) as client:
            told = await failure(client.get(f"{server.url}/never"))
            refused = await failure(client.get("http://127.0.0.1:1/"))
            return [[(one[0].__name__, one[1]) for one in story] for story in (told, refused)]

    late, refused = server.check(program)
    assert late[0][0] == "ReadTimeout"
    assert refused[0][0].startswith("Connect")
    assert refused[1][0] == "ClientConnectorError"


def test_thirty_at_once(server: Loopback) -> None:
    async def program() -> Any:
        async with HttpxAiohttpClient() as client:
            urls = [f"{server.url}/numbered"] * 30
            answers = await asyncio.gather(*(client.get(url) for url in urls))
            return [answer.json()["number"] for answer in answers]

    assert sorted(server.check_again(program)) == list(range(1, 31))
    assert len(server.calls()) == 30


def test_both_clients_in_one_program(server: Loopback) -> None:
    async def program() -> Any:
        async with HttpxAiohttpClient() as client, aiohttp.ClientSession() as session:
            first = await client.get(f"{server.url}/hello")
            async with session.get(f"{server.url}/hello") as second:
                return first.text, await second.text()

    assert server.check(program) == ("héllo", "héllo")
    assert len(server.calls()) == 2
