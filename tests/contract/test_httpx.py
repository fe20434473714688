"""What httpx and httpx2 do around a transport stays theirs, recording and replaying."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from http.cookiejar import CookieJar
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

from reenact import DivergenceError
from tests.contract.server import Exchange, Server
from tests.contract.stage import Stage, outcome

both = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


def _client(library: ModuleType, **options: Any) -> Any:
    return library.Client(**{"trust_env": False, **options})


def _number(response: Any) -> str:
    return response.json()["n"]


# Transports that reach nobody


@both
def test_a_transport_that_answers_by_itself_is_not_recorded(
    stage: Stage, library: ModuleType
) -> None:
    asked: list[str] = []

    def handler(request: Any) -> Any:
        asked.append(str(request.url))
        return library.Response(200, json={"asked": len(asked)})

    def program() -> Any:
        with _client(library, transport=library.MockTransport(handler)) as client:
            return client.get("http://nobody.example/").json()

    assert stage.record(program) == {"asked": 1}
    assert stage.calls() == []
    assert stage.replay(program) == {"asked": 2}


@both
def test_an_application_in_the_same_process_is_not_recorded(
    stage: Stage, library: ModuleType
) -> None:
    def wsgi(environ: Any, start: Callable[..., Any]) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/plain")])
        return [environ["PATH_INFO"].encode()]

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    async def ask_asgi() -> Any:
        transport = library.ASGITransport(app=asgi)
        async with library.AsyncClient(transport=transport) as client:
            return (await client.get("http://app.example/asgi")).text

    def program() -> Any:
        with _client(library, transport=library.WSGITransport(app=wsgi)) as client:
            told = client.get("http://app.example/wsgi").text
        return told, asyncio.run(ask_asgi())

    assert stage.check(program) == ("/wsgi", "/asgi")


@both
def test_a_transport_of_the_program_is_recorded_as_one_call(
    stage: Stage, library: ModuleType
) -> None:
    class Twice(library.BaseTransport):  # type: ignore[name-defined, misc]
        """Asks twice and answers with the second answer."""

        def __init__(self) -> None:
            self._inner = library.HTTPTransport()

        def handle_request(self, request: Any) -> Any:
            self._inner.handle_request(request).read()
            response = self._inner.handle_request(request)
            response.read()
            return response

        def close(self) -> None:
            self._inner.close()

    def program() -> Any:
        with _client(library, transport=Twice()) as client:
            packed = client.get(f"{stage.url}/encoded/gzip").text
            return _number(client.get(f"{stage.url}/json")), packed[:6]

    plain = stage.plain(program)
    assert plain == stage.record(program) == ("000004", "000002")
    assert len(stage.calls()) == 2
    assert stage.replay(program) == plain


# What a client does around it


@both
def test_cookies_hooks_and_redirects(stage: Stage, library: ModuleType) -> None:
    def program() -> Any:
        seen: list[Any] = []
        hooks = {
            "request": [lambda request: seen.append(("asked", str(request.url)))],
            "response": [lambda response: seen.append(("got", response.status_code))],
        }
        with _client(library, event_hooks=hooks, follow_redirects=True) as client:
            client.get(f"{stage.url}/headers")
            echo = client.get(f"{stage.url}/redirect/302").json()
            jar = dict(client.cookies)
        sent = [value for name, value in echo["headers"] if name == "cookie"]
        return seen, jar, sent

    seen, jar, sent = stage.check(program)
    assert [what for what, _ in seen] == ["asked", "got", "asked", "got", "asked", "got"]
    assert jar == {"first": "000001", "second": "b"}
    assert sent == ["first=000001; second=b"]


@both
def test_an_authentication_of_several_requests(stage: Stage, library: ModuleType) -> None:
    class Token(library.Auth):  # type: ignore[name-defined, misc]
        requires_response_body = True

        def auth_flow(self, request: Any) -> Generator[Any, Any, None]:
            response = yield library.Request("POST", f"{stage.url}/json?token")
            request.headers["X-Token"] = response.json()["n"]
            yield request

    def program() -> Any:
        with _client(library, auth=Token()) as client:
            echo = client.get(f"{stage.url}/echo").json()
        return [value for name, value in echo["headers"] if name == "x-token"]

    assert stage.check(program) == ["000001"]


@both
def test_a_body_that_cannot_be_sent_twice_is_not_sent_twice(
    stage: Stage, library: ModuleType
) -> None:
    """As it is without us: the stream was consumed by the first request."""

    def made() -> Iterator[bytes]:
        yield b"one"

    def program() -> Any:
        with _client(library, follow_redirects=True) as client:
            return outcome(lambda: client.post(f"{stage.url}/redirect/307", content=made()))

    [story] = stage.check(program)
    assert story[0].endswith(".StreamConsumed")


@both
def test_a_request_whose_stream_was_sent_stays_unread(stage: Stage, library: ModuleType) -> None:
    async def made() -> AsyncIterator[bytes]:
        yield b"one"

    async def program() -> Any:
        async with library.AsyncClient(trust_env=False) as client:
            response = await client.post(f"{stage.url}/echo", content=made())
        return response.json()["body"], outcome(lambda: response.request.content)

    body, [story] = stage.check(lambda: asyncio.run(program()))
    assert body == "one"
    assert story[0].endswith(".RequestNotRead")


@both
def test_a_response_has_what_a_response_has(stage: Stage, library: ModuleType) -> None:
    def program() -> Any:
        with _client(library) as client, client.stream("GET", f"{stage.url}/binary") as response:
            read = sum(len(piece) for piece in response.iter_bytes(5000))
        response.elapsed.total_seconds()
        return (
            read,
            response.num_bytes_downloaded,
            str(response.url),
            response.request.method,
            response.is_closed,
            response.is_stream_consumed,
            response.http_version,
        )

    read, downloaded, *_ = stage.check(program)
    assert read == downloaded == 6 + 256 * 4096


def _state(response: Any) -> Any:
    response.elapsed.total_seconds()
    return (
        response.content,
        response.text,
        response.num_bytes_downloaded,
        response.is_closed,
        response.is_stream_consumed,
        outcome(lambda: list(response.iter_raw())),
        list(response.iter_bytes(7)),
        pickle.loads(pickle.dumps(response)).content,
    )


@both
def test_a_response_that_was_read_is_one(stage: Stage, library: ModuleType) -> None:
    """With a plain body, an encoded one, none, and after a redirection."""
    places = ("json", "encoded/gzip", "bare/204", "redirect/302")

    async def asynchronous() -> Any:
        async with library.AsyncClient(trust_env=False, follow_redirects=True) as client:
            found = [await client.get(f"{stage.url}/{place}") for place in places]
        return [_state(one) for response in found for one in (*response.history, response)]

    def program() -> Any:
        with _client(library, follow_redirects=True) as client:
            found = [client.get(f"{stage.url}/{place}") for place in places]
            found.append(client.get(f"{stage.url}/redirect/302", follow_redirects=False))
        states = [_state(one) for response in found for one in (*response.history, response)]
        return states, asyncio.run(asynchronous())

    states, _ = stage.check(program)
    assert all(is_closed and consumed for _, _, _, is_closed, consumed, *_ in states)
    assert [len(state[0]) == state[2] for state in states].count(False) == 1  # it was encoded


@both
def test_a_hook_gets_a_response_that_nobody_has_read(stage: Stage, library: ModuleType) -> None:
    def program() -> Any:
        seen: list[Any] = []

        def look(response: Any) -> None:
            seen.append((response.is_closed, outcome(lambda: response.content)))
            seen.append(b"".join(response.iter_raw()))

        with _client(library, event_hooks={"response": [look]}) as client:
            request = client.build_request("GET", f"{stage.url}/json")
            seen.append(outcome(lambda: client.send(request)))
        return seen

    (closed, unread), raw, _ = stage.check(program)
    assert not closed
    assert "ResponseNotRead" in str(unread)
    assert raw


@both
def test_a_jar_of_the_program_sees_what_it_sees(stage: Stage, library: ModuleType) -> None:
    """Every response; of httpx2 those with cookies."""

    class Jar(CookieJar):
        seen = 0

        def extract_cookies(self, response: Any, request: Any) -> None:
            self.seen += 1
            super().extract_cookies(response, request)

    def program() -> Any:
        jar = Jar()
        with _client(library, cookies=jar) as client:
            client.cookies.jar = jar
            client.get(f"{stage.url}/json")
            client.get(f"{stage.url}/headers")
            return jar.seen, dict(client.cookies)

    seen, cookies = stage.check(program)
    assert seen == (2 if library is httpx else 1)
    assert set(cookies) == {"first", "second"}


def test_events_of_httpx2(stage: Stage) -> None:
    def program() -> Any:
        with _client(httpx2) as client, client.sse(f"{stage.url}/sse") as source:
            for _ in range(10):
                stage.server.gate.open()
            return [(event.event, event.data, event.id) for event in source]

    events = stage.check(program)
    assert [data for _, data, _ in events] == ["{}", "café", "last"]


# Where a client is used


@both
def test_a_client_that_is_older_than_the_session(stage: Stage, library: ModuleType) -> None:
    stage.server.begin_act()
    with _client(library) as client:
        client.get(f"{stage.url}/json")
        with stage.session("record"):
            recorded = _number(client.get(f"{stage.url}/json"))
        asked = len(stage.server.journal)
        with stage.session("replay"):
            replayed = _number(client.get(f"{stage.url}/json"))
        assert len(stage.server.journal) == asked
        after = _number(client.get(f"{stage.url}/json"))
    assert (recorded, replayed, after) == ("000002", "000002", "000003")


@both
def test_without_a_session_nothing_stands_between(stage: Stage, library: ModuleType) -> None:
    """The library's own functions are back when the last session has closed."""
    before = [library.Client._transport_for_url, library.Client.send, library.AsyncClient.send]
    stage.record(lambda: None)
    after = [library.Client._transport_for_url, library.Client.send, library.AsyncClient.send]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True] * 3
    with stage.session("off"), _client(library) as client:
        url = library.URL(stage.url)
        assert client._transport_for_url(url) is client._transport


@both
def test_a_blocking_client_inside_a_coroutine(stage: Stage, library: ModuleType) -> None:
    """It blocks the loop, as it does without us, and the other tasks get their own answers."""

    async def blocking(client: Any, seen: list[str]) -> None:
        for _ in range(3):
            seen.append("b" + _number(client.get(f"{stage.url}/json")))
            await asyncio.sleep(0)

    async def waiting(client: Any, seen: list[str]) -> None:
        for _ in range(3):
            seen.append("w" + _number(await client.get(f"{stage.url}/json")))

    async def main() -> list[str]:
        seen: list[str] = []
        with _client(library) as client:
            async with library.AsyncClient(trust_env=False) as other:
                await asyncio.gather(blocking(client, seen), waiting(other, seen))
        return seen

    recorded = stage.record(lambda: asyncio.run(main()))
    assert sorted(one[1:] for one in recorded) == [f"{number:06d}" for number in range(1, 7)]
    for _ in range(3):
        assert stage.replay(lambda: asyncio.run(main())) == recorded


@both
def test_a_loop_in_each_of_several_threads(stage: Stage, library: ModuleType) -> None:
    async def ask() -> list[str]:
        async with library.AsyncClient(trust_env=False) as client:
            calls = [client.get(f"{stage.url}/json") for _ in range(4)]
            return [_number(one) for one in await asyncio.gather(*calls)]

    def program() -> Any:
        seen: dict[int, list[str]] = {}

        def work(name: int) -> None:
            seen[name] = asyncio.run(ask())

        threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return seen

    recorded = stage.record(program)
    assert len({number for numbers in recorded.values() for number in numbers}) == 12
    for _ in range(3):
        assert stage.replay(program) == recorded


# What is not a request with an answer


def _upgrade(exchange: Exchange) -> None:
    exchange.head("101 Switching Protocols", ("Connection", "upgrade"), ("Upgrade", "shout"))
    exchange.send(b"HELLO")
    exchange.never()


@both
def test_a_connection_that_becomes_something_else_is_refused_in_a_replay(
    stage: Stage, library: ModuleType
) -> None:
    server = Server({"/up": _upgrade})
    headers = {"Connection": "Upgrade", "Upgrade": "shout"}

    def program() -> Any:
        with (
            _client(library) as client,
            client.stream("GET", f"{server.url}/up", headers=headers) as response,
        ):
            return response.extensions["network_stream"].read(100)

    assert program() == b"HELLO"
    with stage.session("record"):
        assert program() == b"HELLO"
    connections = server.connections
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        with pytest.raises(DivergenceError), stage.session("replay"):
            program()
        gc.collect()  # who is refused while it opens a socket has no chance to close it
    assert server.connections == connections
    assert stage.calls() == []
    assert [text for text in stage.warnings if "127.0.0.1" in text] != []
    server.stop()


def test_both_libraries_in_one_program(stage: Stage) -> None:
    def program() -> Any:
        with _client(httpx) as one, _client(httpx2) as other:
            return [_number(client.get(f"{stage.url}/json")) for client in (one, other, one)]

    assert stage.check(program) == ["000001", "000002", "000003"]
    assert len(stage.calls()) == 3
