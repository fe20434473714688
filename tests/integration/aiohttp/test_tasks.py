"""aiohttp: many tasks, middlewares, traces and pools."""

from __future__ import annotations

import asyncio
import base64
import gc
import warnings
from typing import Any

import aiohttp
import pytest

from tests.integration.loopback import Loopback


async def _number(client: aiohttp.ClientSession, server: Loopback) -> int:
    async with client.get(f"{server.url}/numbered") as response:
        number: int = (await response.json())["number"]
        return number


# Tasks


@pytest.mark.parametrize("limit", [0, 3], ids=["no-limit", "limit"])
def test_fifty_identical_requests_get_their_own_answers(server: Loopback, limit: int) -> None:
    async def program() -> Any:
        connector = aiohttp.TCPConnector(limit=limit)
        async with aiohttp.ClientSession(connector=connector) as client:
            return await asyncio.gather(*(_number(client, server) for _ in range(50)))

    numbers = server.check_again(program)
    assert sorted(numbers) == list(range(1, 51))


def test_answers_are_completed_in_the_order_in_which_they_were(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            asked = [_number(client, server) for _ in range(20)]
            return [await one for one in asyncio.as_completed(asked)]

    assert sorted(server.check_again(program)) == list(range(1, 21))


def test_a_client_for_each_task_closed_while_others_go_on(server: Loopback) -> None:
    async def program() -> Any:
        told: list[Any] = []

        async def one(name: int) -> None:
            async with aiohttp.ClientSession() as client:
                for _ in range(3):
                    told.append((name, await _number(client, server)))
            told.append((name, "closed"))

        await asyncio.gather(*(one(name) for name in range(8)))
        return told

    assert len(server.check_again(program)) == 32


def test_a_group_of_tasks_that_is_cancelled(server: Loopback) -> None:
    async def program() -> Any:
        told: list[Any] = []

        async def waits(client: aiohttp.ClientSession, path: str) -> None:
            try:
                async with client.get(server.url + path) as response:
                    told.append(await response.content.readline())
                    await response.read()
            except asyncio.CancelledError:
                told.append(f"{path} was cancelled")
                raise

        async def fails(client: aiohttp.ClientSession) -> None:
            while len(told) < 1:
                await asyncio.sleep(0.001)
            raise ValueError(await _number(client, server) > 0)

        async with aiohttp.ClientSession() as client:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(waits(client, "/steps"))
                    group.create_task(waits(client, "/never"))
                    group.create_task(fails(client))
            except* ValueError as errors:
                told.append([str(error) for error in errors.exceptions])
            told.append(await _number(client, server) > 0)
        return told

    told = server.check_again(program)  # a set of tasks has another order in every run
    assert told[0] == b"piece 0\n"
    assert sorted(told[1:3]) == ["/never was cancelled", "/steps was cancelled"]
    assert told[3:] == [["True"], True]


def test_an_upload_does_not_move_the_lanes_of_other_tasks(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            async with client.post(f"{server.url}/echo", data=b"x") as response:
                await response.read()
            return await asyncio.create_task(_number(client, server))

    server.check_again(program)
    assert [call.lane for call in server.calls()] == ["0", "0.1"]


def test_a_connection_is_used_again_while_recording(server: Loopback) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    server.raw = raw

    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            read = []
            for _ in range(3):
                async with client.get(server.raw_url) as response:
                    read.append(await response.read())
            return read

    assert server.record(program) == [b"ok"] * 3
    assert server.connections == 1
    assert not any("ended" in call.data for call in server.calls())  # each came at once
    assert server.replay(program) == [b"ok"] * 3


# What aiohttp does around a request


def test_middlewares_are_those_of_the_program(server: Loopback) -> None:
    async def sign(request: aiohttp.ClientRequest, handler: Any) -> aiohttp.ClientResponse:
        request.headers["X-Signed"] = "yes"
        response: aiohttp.ClientResponse = await handler(request)
        return response

    async def program() -> Any:
        tries: list[int] = []

        async def again(request: aiohttp.ClientRequest, handler: Any) -> aiohttp.ClientResponse:
            while True:
                response: aiohttp.ClientResponse = await handler(request)
                tries.append(response.status)
                if response.status == 200 or len(tries) == 3:
                    return response
                response.release()

        async with aiohttp.ClientSession(middlewares=(again, sign)) as client:
            async with client.get(f"{server.url}/status?code=503") as response:
                last = response.status
            async with client.get(f"{server.url}/echo") as response:
                return tries, last, (await response.json())["signed"]

    assert server.check(program) == ([503, 503, 503, 200], 503, "yes")
    assert len(server.calls()) == 4


def test_traces_are_told_the_same(server: Loopback) -> None:
    async def program() -> Any:
        told: list[str] = []
        config = aiohttp.TraceConfig()
        for name in ("start", "end", "exception", "redirect", "chunk_sent", "headers_sent"):

            async def tell(_: Any, __: Any, params: Any, name: str = name) -> None:
                told.append(f"{name} {type(params).__name__}")

            getattr(config, f"on_request_{name}").append(tell)

        async def received(_: Any, __: Any, params: Any) -> None:
            told.append(f"received {len(params.chunk) > 0}")

        config.on_response_chunk_received.append(received)
        for name in ("create_start", "create_end", "reuseconn"):

            async def pooled(_: Any, __: Any, params: Any, name: str = name) -> None:
                told.append(name)

            getattr(config, f"on_connection_{name}").append(pooled)
        async with aiohttp.ClientSession(trace_configs=[config]) as client:
            async with client.post(f"{server.url}/redirect", data=b"upload") as response:
                await response.read()
            limit = aiohttp.ClientTimeout(total=0.05)
            try:
                await client.get(f"{server.url}/never", timeout=limit)
            except TimeoutError:
                told.append("failed")
        return told

    told = server.check(program)
    assert told[0] == "start TraceRequestStartParams"
    assert told[-2:] == ["exception TraceRequestExceptionParams", "failed"]


def test_a_response_class_of_the_program(server: Loopback) -> None:
    class Response(aiohttp.ClientResponse):
        async def shout(self) -> str:
            return (await self.text()).upper()

    async def program() -> Any:
        async with (
            aiohttp.ClientSession(response_class=Response) as client,
            client.get(f"{server.url}/hello") as response,
        ):
            assert isinstance(response, Response)
            return await response.shout()

    assert server.check(program) == "HÉLLO"


def test_a_proxy_is_asked_with_its_password(server: Loopback) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        line, *headers = asked.decode().split("\r\n")
        said = [one for one in headers if one.startswith("Proxy-Authorization")]
        body = "\n".join([line, *said]).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    server.raw = raw

    async def program() -> Any:
        proxy = server.raw_url.replace("//", "//me:word@")
        async with (
            aiohttp.ClientSession() as client,
            client.get("http://somewhere.invalid/x", proxy=proxy) as response,
        ):
            return await response.text()

    word = base64.b64encode(b"me:word").decode()
    said = server.record(program)
    assert said == f"GET http://somewhere.invalid/x HTTP/1.1\nProxy-Authorization: Basic {word}"


def test_a_client_that_is_closed_before_its_responses(server: Loopback) -> None:
    async def program() -> Any:
        client = aiohttp.ClientSession()
        response = await client.get(f"{server.url}/late")
        before = (client.closed, response.closed)
        await client.close()
        after = (client.closed, response.closed)
        response.close()
        return before, after, response.status

    assert server.check(program) == ((False, False), (True, False), 200)


def test_a_client_that_nobody_closes_is_complained_about_alike(server: Loopback) -> None:
    async def program() -> Any:
        told: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["message"]))
        client = aiohttp.ClientSession()
        async with client.get(f"{server.url}/hello") as response:
            await response.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            del client, response
            gc.collect()
        return sorted(told)

    assert server.check(program) == ["Unclosed client session", "Unclosed connector"]
