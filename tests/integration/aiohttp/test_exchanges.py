"""aiohttp: responses, bodies, uploads and failures, as they are without us."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import reenact
from reenact.engine.divergence.model import Divergence
from reenact.errors import DivergenceError
from tests.integration.loopback import Loopback, failure
from tests.integration.loopback_routes import TEXT


def _seen(response: aiohttp.ClientResponse) -> list[Any]:
    """What a program can ask a response. The date differs from run to run."""
    raw = [pair for pair in response.raw_headers if pair[0] != b"Date"]
    pairs = [(str(name), value) for name, value in response.headers.items() if name != "Date"]
    return [
        (response.status, response.reason, response.version, response.method, response.ok),
        (str(response.url), str(response.real_url), response.host),
        (raw, pairs, response.content_type, response.charset),
        (str(response.cookies), str(response.links), response.closed),
        (response.request_info.method, str(response.request_info.url)),
        sorted(response.request_info.headers.items()),
        [(one.status, str(one.url), one.headers.get("Location")) for one in response.history],
    ]


# Responses


def test_a_response_is_what_it_is_without_us(server: Loopback) -> None:
    async def program() -> Any:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(headers={"X-Me": "1"}, cookie_jar=jar) as client:
            async with client.get(f"{server.url}/hello?b=2&a=1#here") as response:
                seen = _seen(response)
                seen += [await response.text(), response.get_encoding(), response.closed]
            kept = [(cookie.key, cookie.value) for cookie in client.cookie_jar]
            return [*seen, type(response), type(response.headers), kept]

    assert server.check(program)[0][:2] == (200, "Very Well")
    [call] = server.calls()
    assert call.data["op"] == "GET"
    assert call.data["request"]["url"] == f"{server.url}/hello?a=1&b=2"
    named = [pair for pair in call.data["response"]["headers"] if pair[0].lower() == "x-one"]
    assert named == [["X-One", "1"], ["X-One", "2"]]


@pytest.mark.parametrize(
    "method, path",
    [
        pytest.param("HEAD", "/hello", id="head"),
        pytest.param("GET", "/status?code=204", id="204"),
        pytest.param("GET", "/status?code=304", id="304"),
        pytest.param("OPTIONS", "/echo", id="options"),
        pytest.param("DELETE", "/echo", id="delete"),
    ],
)
def test_methods_and_statuses_with_and_without_a_body(
    server: Loopback, method: str, path: str
) -> None:
    async def program() -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.request(method, server.url + path) as response,
        ):
            at_once = (response.closed, response.content.at_eof())
            return [*_seen(response), at_once, await response.read()]

    assert server.check(program)[0][3] == method
    assert len(server.calls()) == 1


def test_a_redirect_is_two_calls_with_the_cookie_of_the_first(server: Loopback) -> None:
    async def program() -> Any:
        jar = aiohttp.CookieJar(unsafe=True)  # it is told no names of hosts, but addresses
        async with (
            aiohttp.ClientSession(cookie_jar=jar) as client,
            client.get(f"{server.url}/redirect") as response,
        ):
            return [*_seen(response), await response.json()]

    assert server.check(program)[-1]["cookies"] == {"hop": "first"}
    assert [call.data["response"]["status"] for call in server.calls()] == [302, 200]


def test_too_many_redirects_and_none(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            url = f"{server.url}/redirect"
            failed = await failure(client.get(url, max_redirects=1))
            async with client.get(url, allow_redirects=False) as response:
                return [failed[0][:2], response.status, await response.text()]

    told = server.check(program)
    assert told[0][0] is aiohttp.TooManyRedirects
    assert told[1:] == [302, "over there"]


def test_what_is_wrong_with_a_response_is_raised_by_the_program_itself(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession(raise_for_status=True) as client:
            failed = await failure(client.get(f"{server.url}/status?code=503"))
            try:
                await client.get(f"{server.url}/status?code=429")
            except aiohttp.ClientResponseError as error:
                info = (error.status, error.message, error.headers is not None, error.history)
            async with client.get(f"{server.url}/hello") as response:
                no_json = await failure(response.json())
            return [failed[0][:2], info, no_json[0][:2]]

    told = server.check(program)
    assert told[0][0] is aiohttp.ClientResponseError
    assert told[1] == (429, "Too Many Requests", True, ())
    assert told[2][0] is aiohttp.ContentTypeError


@pytest.mark.parametrize(
    "line, told",
    [
        pytest.param("HTTP/1.1 200 grün".encode(), (200, "grün"), id="utf-8"),
        pytest.param(b"HTTP/1.1 200 gr\xfcn", (200, "gr\udcfcn"), id="latin-1"),
        pytest.param(b"HTTP/1.1 099 low", (99, "low"), id="below-100"),
    ],
)
def test_an_unusual_status_line_is_read_alike(
    server: Loopback, line: bytes, told: tuple[int, str]
) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(line + b"\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    server.raw = raw

    async def program() -> Any:
        async with aiohttp.ClientSession() as client, client.get(server.raw_url) as response:
            return (response.status, response.reason), await response.read()

    assert server.check(program) == (told, b"ok")


# Bodies


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_an_encoded_body_is_recorded_as_it_came(server: Loopback, coding: str) -> None:
    async def program() -> Any:
        url = f"{server.url}/encoded?as={coding}"
        async with aiohttp.ClientSession() as client:
            async with client.get(url) as response:
                text = await response.text()
                sizes = (response.content.total_bytes, response.content.total_raw_bytes)
            async with client.get(url, auto_decompress=False) as response:
                return text, sizes, await response.read()

    text, _, raw = server.check(program)
    assert text == TEXT
    assert [call.data["response"]["body"] for call in server.calls()] == [raw, raw]


def test_an_encoding_that_does_not_fit_fails_alike(server: Loopback) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: 6\r\n\r\n"
        writer.write(head + b"\x78\x9cnoop")
        await writer.drain()

    server.raw = raw

    async def program() -> Any:
        async with aiohttp.ClientSession() as client, client.get(server.raw_url) as response:
            return (await failure(response.read()))[0]

    assert server.check(program)[0] is aiohttp.ClientPayloadError


def test_each_piece_is_seen_before_the_next_one_is_sent(server: Loopback) -> None:
    async def program() -> Any:
        seen = []
        async with aiohttp.ClientSession() as client, client.get(f"{server.url}/steps") as response:
            async for piece in response.content.iter_any():
                seen.append(piece)
                server.step()
        return seen

    assert server.check(program) == [b"piece %d\n" % number for number in range(4)]
    [call] = server.calls()
    assert call.data["ended"] == "done"
    assert call.data["response"]["cuts"] == [8, 16, 24]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("way", ["lines", "chunked", "chunks", "exactly", "whole"])
def test_ways_to_read_a_body_that_comes_slowly(server: Loopback, way: str, packed: bool) -> None:
    async def read(content: aiohttp.StreamReader) -> Any:
        if way == "lines":
            return [line async for line in content]
        if way == "chunked":
            return b"".join([piece async for piece in content.iter_chunked(5)])
        if way == "chunks":
            chunks = [chunk async for chunk in content.iter_chunks()]
            return b"".join(piece for piece, _ in chunks), {ends for _, ends in chunks}
        if way == "exactly":
            first = await content.readexactly(3)
            return first, await content.readuntil(b"1"), await content.read()
        await content.wait_eof()
        return content.is_eof(), content.at_eof(), await content.read(), content.at_eof()

    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            url = f"{server.url}/steps?packed" if packed else f"{server.url}/steps"
            async with client.get(url) as response:
                for _ in range(4):
                    server.step()
                return await read(response.content)

    assert server.check(program)


def test_a_chunk_of_the_transfer_coding_that_comes_in_two_parts(server: Loopback) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for part in (head, b"6\r\nabc", b"def\r\n", b"2\r\ngh\r\n", b"0\r\n\r\n"):
            writer.write(part)
            await server.stepped()

    server.raw = raw

    async def program() -> Any:
        seen = []
        async with aiohttp.ClientSession() as client, client.get(server.raw_url) as response:
            server.step()
            async for chunk in response.content.iter_chunks():
                seen.append(chunk)
                server.step()
        return seen

    assert server.check(program)[:3] == [(b"abc", False), (b"def", True), (b"gh", True)]


def test_who_gives_up_waiting_for_a_piece_can_come_back_for_it(server: Loopback) -> None:
    async def program() -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"{server.url}/steps?of=2") as response,
        ):
            seen: list[Any] = [await response.content.readline()]
            try:
                await asyncio.wait_for(response.content.readline(), 0.05)
            except TimeoutError as error:
                seen.append(type(error))
            server.step()
            seen.append(await response.content.readline())
            server.step()
            return [*seen, await response.content.read()]

    assert server.check(program) == [b"piece 0\n", TimeoutError, b"piece 1\n", b""]


def test_a_body_that_comes_after_its_head_does_not_delay_it(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client, client.get(f"{server.url}/late") as response:
            before = (response.status, response.closed, response.content.is_eof())
            server.step()
            return before, await response.read(), response.closed

    assert server.check(program) == ((200, False, False), b"late", True)


def test_who_stops_early_has_recorded_what_was_seen(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{server.url}/steps") as response:
                line = await response.content.readline()
            after = await failure(response.content.readline())
            async with client.get(f"{server.url}/hello") as response:
                return line, after, await response.text()

    assert server.check(program)[0] == b"piece 0\n"
    assert [call.data.get("ended") for call in server.calls()].count("abandoned") == 1


def test_a_response_that_another_task_closes_ends_for_who_reads(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            response = await client.get(f"{server.url}/steps")
            await response.content.readline()
            reading = asyncio.create_task(failure(response.content.readline()))
            await asyncio.sleep(0)
            response.close()
            return await reading

    assert server.check(program)[0][:2] == (aiohttp.ClientConnectionError, "Connection closed")


def test_responses_that_nobody_reads_do_not_use_up_the_pool(server: Loopback) -> None:
    async def program() -> Any:
        connector = aiohttp.TCPConnector(limit=2)
        async with aiohttp.ClientSession(connector=connector) as client:
            kept = [await client.get(f"{server.url}/hello") for _ in range(6)]
            return [response.status for response in kept]

    assert server.check(program) == [200] * 6


# Uploads


async def _words() -> AsyncIterator[bytes]:
    for word in (b"one ", b"two ", b"three"):
        await asyncio.sleep(0)
        yield word


def _form() -> aiohttp.FormData:
    form = aiohttp.FormData()
    form.add_field("name", "value")
    form.add_field("file", b"\x00\x01", filename="a.bin", content_type="application/x-thing")
    return form


_UPLOADS: dict[str, Any] = {
    "json": lambda _: {"json": {"b": [1, 2], "a": None}},
    "form": lambda _: {"data": {"a": "1", "b": "x y"}},
    "multipart": lambda _: {"data": _form()},
    "bytes": lambda _: {"data": b"\x00\xff"},
    "text": lambda _: {"data": "text"},
    "nothing": lambda _: {},
    "generator": lambda _: {"data": _words()},
    "packed": lambda _: {"data": b"again " * 50, "compress": "gzip"},
    "chunked": lambda _: {"data": b"in chunks", "chunked": True},
    "expect": lambda _: {"data": b"if you like", "expect100": True},
    "file": lambda path: {"data": path.open("rb")},
}


@pytest.mark.parametrize("kind", list(_UPLOADS))
def test_uploads_arrive_and_are_recorded(server: Loopback, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "upload.txt"
    path.write_bytes(b"from a file " * 1000)

    async def program() -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{server.url}/echo", **_UPLOADS[kind](path)) as response,
        ):
            return await response.json()

    said = server.check(program)
    [call] = server.calls()
    recorded = call.data["request"]
    if kind == "json":
        assert recorded["body"] == {"b": [1, 2], "a": None}
    elif kind in ("text", "generator", "chunked", "expect", "file"):
        assert recorded["body"] == said["body"]
    elif kind == "packed":
        assert recorded["body"] == "again " * 50
    elif kind == "nothing":
        assert "body" not in recorded
    else:
        assert recorded["type"] in ("form", "multipart", "bytes")


@pytest.mark.skipif(not hasattr(aiohttp, "UploadTracker"), reason="from aiohttp 3.14.4")
def test_who_tracks_an_upload_is_told_the_same(server: Loopback) -> None:
    async def program() -> Any:
        tracker = aiohttp.UploadTracker()
        async with aiohttp.ClientSession() as client:
            url, data = f"{server.url}/echo", b"x" * 100_000
            async with client.post(url, data=data, upload_tracker=tracker) as response:
                await response.read()
        return tracker.bytes_written, tracker.attempts, tracker.upload_complete.done()

    assert server.check(program) == (100_000, 1, True)


def test_a_body_that_is_sent_on_from_another_response(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client:

            async def passed_on() -> AsyncIterator[bytes]:
                async with client.get(f"{server.url}/hello") as response:
                    async for piece in response.content.iter_any():
                        yield piece

            async with client.put(f"{server.url}/echo", data=passed_on()) as response:
                return (await response.json())["body"]

    assert server.check(program) == "héllo".encode().decode("latin-1")
    assert [call.data["op"] for call in server.calls()] == ["GET", "PUT"]
    assert {call.lane for call in server.calls()} == {"0"}


def test_a_body_that_fails_while_it_is_sent(server: Loopback) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"some"
        raise ValueError("no more")

    async def program() -> Any:
        async with aiohttp.ClientSession() as client:
            told = await failure(client.post(f"{server.url}/echo", data=broken()))
            return [one[:2] for one in told]

    recorded = server.record(program)
    assert recorded[0][0] is aiohttp.ClientConnectionError
    assert recorded[1] == (ValueError, "no more")
    assert server.replay(program) == recorded


def test_another_request_is_a_divergence(server: Loopback) -> None:
    async def program(word: str) -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{server.url}/echo", json={"say": word}) as response,
        ):
            return await response.json()

    server.record(lambda: program("yes"))
    with pytest.raises(DivergenceError) as raised:
        server.replay(lambda: program("no"))
    divergence = raised.value.divergence
    assert isinstance(divergence, Divergence)
    assert divergence.json_path == "$.request.body.say"


def test_other_credentials_and_agents_are_not(server: Loopback) -> None:
    async def program(token: str) -> Any:
        headers = {"Authorization": f"Bearer {token}", "User-Agent": token}
        async with (
            aiohttp.ClientSession(headers=headers) as client,
            client.get(f"{server.url}/hello") as response,
        ):
            return await response.text()

    assert server.record(lambda: program("first")) == "héllo"
    assert server.replay(lambda: program("second")) == "héllo"


def test_a_session_that_is_off_changes_nothing(server: Loopback) -> None:
    async def program() -> Any:
        async with aiohttp.ClientSession() as client, client.get(f"{server.url}/hello") as response:
            return response.connection is None, await response.text()

    with reenact.session(mode="off"):
        assert asyncio.run(program())[1] == "héllo"
    assert server.asked == ["GET /hello"]
