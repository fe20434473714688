"""aiohttp: connections that fail, answers that do not come, and what comes of it in a replay."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_exceptions import UnixClientConnectorError
from aiohttp.http_exceptions import ContentEncodingError

import reenact
from reenact.boundaries.aiohttp.patches import patches
from reenact.errors import UsageError
from tests.integration.loopback import Loopback, failure

_BRIEF = 0.05
_LONG_ENOUGH = 0.5
"""Seconds in which a busy machine connects and gets the first line, before nothing more comes."""


@pytest.fixture
def nobody() -> Iterator[str]:
    """A port that is taken, and on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


def _told(recorded: Any) -> list[type[BaseException]]:
    return [one[0] for one in recorded]


# Connections


def test_nobody_listens(server: Loopback, nobody: str) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            told = await failure(client.get(nobody))
            try:
                await client.get(nobody)
            except aiohttp.ClientConnectorError as error:
                known = (error.host, error.port, error.ssl, error.errno, error.strerror)
                below = (type(error.os_error), str(error.os_error), error.os_error.errno)
            return told, known, below

    told, known, below = server.check(program)
    assert _told(told) == [aiohttp.ClientConnectorError, ConnectionRefusedError]
    assert known[:3] == ("127.0.0.1", int(nobody.rpartition(":")[2].strip("/")), True)
    assert below[0] is ConnectionRefusedError


class _Lost(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        raise OSError(-2, "Name or service not known")

    async def close(self) -> None:
        pass


def test_a_name_that_nobody_knows(server: Loopback) -> None:
    async def program() -> Any:
        connector = aiohttp.TCPConnector(resolver=_Lost())
        async with aiohttp.ClientSession(connector=connector) as client:
            return await failure(client.get("http://nobody.invalid/"))

    assert _told(server.check(program)) == [aiohttp.ClientConnectorDNSError, OSError]


def test_a_socket_that_does_not_exist(server: Loopback) -> None:
    async def program() -> Any:
        connector = aiohttp.UnixConnector(path=str(server.folder / "none.sock"))
        async with aiohttp.ClientSession(connector=connector) as client:
            return await failure(client.get("http://localhost/"))

    assert _told(server.check(program))[0] is UnixClientConnectorError


def test_the_other_side_does_not_speak_tls(server: Loopback) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 What?\r\n\r\n")
        await writer.drain()

    server.raw = raw

    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            return await failure(client.get(server.raw_url.replace("http:", "https:")))

    assert _told(server.check(program)) == [aiohttp.ClientConnectorSSLError, ssl.SSLError]


# Answers


def _answering(server: Loopback, *answers: bytes) -> None:
    """Each connection gets the next answer, and then it is closed."""
    left = list(answers)

    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if left else b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    server.raw = raw


def test_a_get_is_tried_again_when_the_server_hangs_up(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client, client.get(server.raw_url) as response:
            return response.status, await response.read()

    _answering(server, b"")
    assert server.check_again(program) == (200, b"ok")
    failed, answered = server.calls()
    assert failed.data["error"]["class"] == "aiohttp.client_exceptions.ServerDisconnectedError"
    assert answered.data["response"]["status"] == 200


def test_a_post_is_not(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            try:
                await client.post(server.raw_url, data=b"x")
            except aiohttp.ServerDisconnectedError as error:
                return error.message, str(error), repr(error)

    _answering(server, b"", b"", b"")
    assert server.check(program)[0] == "Server disconnected"


def test_what_is_not_http(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            told = await failure(client.get(server.raw_url))
            return [one[:2] for one in told]

    _answering(server, b"garbage\r\n\r\n", b"garbage\r\n\r\n")
    assert _told(server.check(program))[0] is aiohttp.ClientResponseError


def test_a_coding_that_aiohttp_cannot_read_says_so_with_all_its_causes(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:

            async def read() -> None:
                async with client.get(server.raw_url) as response:
                    await response.read()

            return await failure(read())

    wrong = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 5\r\n\r\nhello"
    _answering(server, wrong, wrong)
    assert ContentEncodingError in _told(server.check(program))


@pytest.mark.parametrize(
    "framing",
    [
        pytest.param(b"Content-Length: 10\r\n\r\nhalf", id="length"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", id="chunked"),
    ],
)
def test_a_body_that_breaks_off(server: Loopback, framing: bytes) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client, client.get(server.raw_url) as response:
            told = await failure(response.read())
            return response.status, told

    broken = b"HTTP/1.1 200 OK\r\n" + framing
    _answering(server, broken, broken)
    status, told = server.check(program)
    assert status == 200
    assert _told(told)[0] is aiohttp.ClientPayloadError
    assert server.calls()[0].data["response"]["body"] == "half"


# Time


def test_no_answer_in_time(server: Loopback) -> None:
    async def program() -> Any:
        limit = aiohttp.ClientTimeout(total=_BRIEF)
        async with aiohttp.ClientSession(timeout=limit) as client:
            told = await failure(client.get(f"{server.url}/never"))
            patient = aiohttp.ClientTimeout(total=60)
            async with client.get(f"{server.url}/hello", timeout=patient) as response:
                return told[0], await response.text()

    assert server.check(program)[0][0] is TimeoutError


def test_the_rest_of_a_body_does_not_come_in_time(server: Loopback) -> None:
    async def program() -> Any:
        limit = aiohttp.ClientTimeout(total=_LONG_ENOUGH)
        async with (
            aiohttp.ClientSession(timeout=limit) as client,
            client.get(f"{server.url}/steps") as response,
        ):
            line = await response.content.readline()
            told = await failure(response.content.readline())
            return line, told[0], await failure(response.content.read())

    line, told, _ = server.check(program)
    assert (line, told[0]) == (b"piece 0\n", TimeoutError)


@pytest.mark.parametrize("path", ["/never", "/late"])
def test_nothing_is_heard_for_too_long(server: Loopback, path: str) -> None:
    async def program() -> Any:
        limit = aiohttp.ClientTimeout(sock_read=_BRIEF)
        async with aiohttp.ClientSession(timeout=limit) as client:

            async def read() -> None:
                async with client.post(server.url + path) as response:
                    await response.read()

            return await failure(read())

    told = server.check(program)
    assert told[0][:2] == (aiohttp.SocketTimeoutError, "Timeout on reading data from socket")


def test_no_connection_is_free_in_time(server: Loopback) -> None:
    async def program() -> Any:
        connector = aiohttp.TCPConnector(limit=1)
        limit = aiohttp.ClientTimeout(connect=_LONG_ENOUGH)
        async with aiohttp.ClientSession(connector=connector, timeout=limit) as client:
            async with client.get(f"{server.url}/steps") as response:
                await response.content.readline()
                told = await failure(client.get(f"{server.url}/hello"))
            async with client.get(f"{server.url}/hello") as response:
                return [one[:2] for one in told], await response.text()

    told, _ = server.check(program)
    assert told[0] == (
        aiohttp.ConnectionTimeoutError,
        f"Connection timeout to host {server.url}/hello",
    )


def test_a_limit_of_the_program_around_a_call(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            try:
                async with asyncio.timeout(_BRIEF):
                    await client.get(f"{server.url}/never")
            except TimeoutError as error:
                return type(error), str(error)

    assert server.check(program) == (TimeoutError, "")
    assert server.calls()[0].data["ended"] == "cancelled"


# A version that we do not know


@pytest.fixture
def unknown(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The client session of a version that is not like ours, with its seams in place."""

    class ClientSession:
        def _request(self, method: str) -> str:
            return method

    library = ModuleType("aiohttp")
    library.__dict__.update(__version__=request.param, ClientSession=ClientSession)
    [patch] = patches(library)
    patch.install()
    yield ClientSession()
    patch.remove()


_VERSIONS = pytest.mark.parametrize("unknown", ["3.99.0", "4.0.0"], indirect=True)


@_VERSIONS
def test_a_version_with_another_inside_is_refused_when_it_is_used(
    unknown: Any, tmp_path: Path
) -> None:
    with (
        reenact.session(capture=tmp_path / "run", mode="record"),
        pytest.raises(UsageError, match=r"aiohttp \d\.\d+\.0 is built") as raised,
    ):
        unknown._request("GET")
    assert "3.12" in raised.value.hint


@_VERSIONS
def test_nobody_is_refused_without_a_session(unknown: Any) -> None:
    assert unknown._request("GET") == "GET"
    with reenact.session(mode="off"):
        assert unknown._request("GET") == "GET"
