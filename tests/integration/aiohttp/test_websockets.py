"""Websockets of aiohttp: what is received is recorded, what is sent is compared."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from reenact.engine.divergence.model import Divergence
from reenact.errors import DivergenceError
from tests.integration.loopback import Loopback, failure


def _operations(server: Loopback) -> list[str]:
    return [call.data["op"] for call in server.calls()]


def test_a_conversation(server: Loopback) -> None:
    async def program() -> Any:
        told: list[Any] = []
        async with aiohttp.ClientSession() as client:
            wanted = ("other", "chat")
            async with client.ws_connect(f"{server.url}/talk", protocols=wanted) as socket:
                told += [type(socket), socket.protocol, socket.closed]
                told.append((await socket.receive_str())[:5])
                await socket.send_str("one")
                told.append(await socket.receive())
                await socket.send_bytes(b"\x00\xff")
                told.append(await socket.receive_bytes())
                await socket.send_json({"a": 1})
                told.append(await socket.receive_str())
                await socket.send_str("bye")
                told += [message async for message in socket]
            return [*told, socket.closed, socket.close_code, socket.exception()]

    told = server.check(program)
    assert told[1] == "chat"
    assert told[-3:] == [True, 4000, None]
    opened, greeted, sent = server.calls()[:3]
    assert opened.data["op"] == "websocket"
    assert opened.data["request"] == {
        "url": server.url.replace("http:", "ws:") + "/talk",
        "protocols": ["other", "chat"],
    }
    assert greeted.data["op"] == "websocket.recv"
    assert greeted.data["request"] == {"connection": "0/1"}
    assert sent.data["op"] == "websocket.send"
    assert sent.data["request"] == {"connection": "0/1", "type": "text", "body": "one"}
    assert _operations(server).count("websocket.close") == 1


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"compress": 15}, id="compressed"),
        pytest.param({"heartbeat": 30.0}, id="heartbeat"),
        pytest.param({"autoping": False}, id="pings"),
        pytest.param({"autoclose": False}, id="no-autoclose"),
        pytest.param({"decode_text": False}, id="bytes"),
    ],
)
def test_options_of_a_websocket(server: Loopback, options: dict[str, Any]) -> None:
    async def program() -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{server.url}/talk", **options) as socket,
        ):
            told: list[Any] = [socket.compress, (await socket.receive()).data[:5]]
            await socket.send_str("one")
            told.append(await socket.receive())
            await socket.send_str("bye")
            told += [await socket.receive(), await socket.receive()]
            return [*told, socket.closed, socket.close_code]

    assert server.check(program)[-1] == 4000


def test_pings_and_pongs_of_the_program(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            url = f"{server.url}/talk"
            async with client.ws_connect(url, autoping=False) as socket:
                first = [(await socket.receive()).type, await socket.receive()]
                await socket.pong(b"there?")
                await socket.ping(b"and you?")
                return [*first, await socket.receive()]

    told = server.check(program)
    assert told[1] == aiohttp.WSMessage(aiohttp.WSMsgType.PING, b"there?", "")
    assert told[2] == aiohttp.WSMessage(aiohttp.WSMsgType.PONG, b"and you?", "")
    assert _operations(server)[3:5] == ["websocket.pong", "websocket.ping"]


def test_who_waits_in_vain_gets_the_next_message(server: Loopback) -> None:
    async def program() -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{server.url}/talk") as socket,
        ):
            await socket.receive()
            told = await failure(socket.receive(timeout=0.05))
            await socket.send_str("still here")
            return told[0][0], await socket.receive_str()

    assert server.check(program) == (TimeoutError, "you said still here")


def test_another_task_closes_it(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            socket = await client.ws_connect(f"{server.url}/talk")
            await socket.receive()
            reading = asyncio.create_task(socket.receive())
            await asyncio.sleep(0)
            closed = await socket.close(code=4001, message=b"enough")
            return closed, await reading, socket.close_code

    assert server.check(program)[1].type is aiohttp.WSMsgType.CLOSING
    closing = next(call for call in server.calls() if call.data["op"] == "websocket.close")
    assert closing.data["request"] == {"connection": "0/1", "code": 4001, "reason": "enough"}


def test_the_other_side_vanishes(server: Loopback) -> None:
    async def program() -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{server.url}/talk") as socket,
        ):
            await socket.receive()
            await socket.send_str("vanish")
            return await socket.receive(), socket.closed, socket.close_code

    message, closed, code = server.check(program)
    assert (message.type, closed, code) == (aiohttp.WSMsgType.CLOSED, True, 1006)


def test_a_heartbeat_that_is_not_answered(server: Loopback) -> None:
    async def program() -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{server.url}/mute", heartbeat=0.1) as socket,
        ):
            message = await socket.receive()
            state = (socket.closed, socket.close_code, repr(socket.exception()))
            return message.type, repr(message.data), state, (await socket.receive()).type

    kind, error, _, after = server.check(program)
    assert kind is aiohttp.WSMsgType.ERROR
    assert error.startswith("ServerTimeoutError('No PONG received")
    assert after is aiohttp.WSMsgType.CLOSED


def test_a_server_that_does_not_want_to(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            try:
                await client.ws_connect(f"{server.url}/status?code=403")
            except aiohttp.WSServerHandshakeError as error:
                info = (error.request_info.method, str(error.request_info.real_url))
                return str(error), error.status, error.message, info
            return None

    assert server.check(program)[1:3] == (403, "Invalid response status")


def test_a_redirect_on_the_way(server: Loopback) -> None:
    async def program() -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{server.url}/moved") as socket,
        ):
            await socket.receive()
            await socket.send_str("here")
            return await socket.receive_str()

    assert server.check(program) == "you said here"
    assert _operations(server)[:2] == ["websocket", "websocket"]


def test_several_conversations_at_once(server: Loopback) -> None:
    async def program() -> Any:
        async def talk(client: aiohttp.ClientSession, name: int) -> list[str]:
            async with client.ws_connect(f"{server.url}/talk") as socket:
                told = [await socket.receive_str()]
                for number in range(3):
                    await socket.send_str(f"{name}.{number}")
                    told.append(await socket.receive_str())
                return told

        async with aiohttp.ClientSession() as client:
            return await asyncio.gather(*(talk(client, name) for name in range(5)))

    told = server.check_again(program)
    assert [one[1:] for one in told] == [
        [f"you said {name}.{number}" for number in range(3)] for name in range(5)
    ]


def test_another_message_is_a_divergence(server: Loopback) -> None:
    async def program(word: str) -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{server.url}/talk") as socket,
        ):
            await socket.receive()
            await socket.send_json({"say": word})
            return await socket.receive_str()

    server.record(lambda: program("yes"))
    with pytest.raises(DivergenceError) as raised:
        server.replay(lambda: program("no"))
    divergence = raised.value.divergence
    assert isinstance(divergence, Divergence)
    assert divergence.json_path == "$.request.body.say"


def test_a_server_that_refuses_with_an_unusual_reason(server: Loopback) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 ver\xb7boten\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    server.raw = raw

    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            return [one[:2] for one in await failure(client.ws_connect(server.raw_url))]

    assert server.check(program)[0][0] is aiohttp.WSServerHandshakeError
    assert server.calls()[0].data["response"]["reason"] == "ver\xb7boten"
