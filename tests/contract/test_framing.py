"""Chunks of the transfer coding: slow, long, cut short and wrong, for what is built on http.client."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import requests
import urllib3

from tests.contract.clients.pooled import Botocore, Requests, Urllib3
from tests.contract.clients.standard import HttpClient, Urllib
from tests.contract.clients.threads import Threads
from tests.contract.server import Exchange, Gone, Handler
from tests.contract.stage import Stage, outcome

pytestmark = pytest.mark.thinned(4)

_BROKEN = {
    "longer-than-said": b"3\r\nhello\r\n0\r\n\r\n",
    "no-carriage-return": b"5\nhello\n0\n\n",
    "below-zero": b"-5\r\nhello\r\n0\r\n\r\n",
    "no-number": b"5\r\nhello\r\nfive\r\nhello\r\n",
    "beyond-any-number": b"ffffffffffffffffff\r\nhello",
    "in-a-size": b"5\r\nhello\r\n3",
    "before-a-chunk": b"5\r\nhello\r\n3\r\n",
    "in-a-chunk": b"5\r\nhello\r\na\r\nhello",
    "before-the-end-of-the-line": b"5\r\nhello\r\n3\r\nabc",
    "in-the-end-of-the-line": b"5\r\nhello\r\n3\r\nabc\r",
    "before-the-last-chunk": b"5\r\nhello\r\n3\r\nabc\r\n",
    "in-the-trailers": b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n",
}
_LONG = 200_000
"""More than comes at once."""


def _chunked(exchange: Exchange) -> None:
    exchange.head("200 OK", ("Transfer-Encoding", "chunked"))


def _broken(exchange: Exchange) -> None:
    _chunked(exchange)
    exchange.send(_BROKEN[exchange.query("how")])
    raise Gone


def _enormous(exchange: Exchange) -> None:
    _chunked(exchange)
    exchange.send(b"7fffffffff\r\nhello hello")
    raise Gone


def _slow(exchange: Exchange) -> None:
    """The second half of a chunk comes when the first has been seen."""
    _chunked(exchange)
    exchange.send(b"a\r\nfirst")
    exchange.gate.passed()
    exchange.send(b" then\r\n0\r\n\r\n")


def _long(exchange: Exchange) -> None:
    _chunked(exchange)
    exchange.chunk(b"x" * _LONG)
    exchange.chunk(b"end")
    exchange.send(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def own_endpoints() -> dict[str, Handler]:
    return {"/broken": _broken, "/enormous": _enormous, "/slow": _slow, "/long": _long}


_CLIENTS: list[Threads] = [HttpClient(), Urllib(), Urllib3(), Requests(), Botocore()]


@pytest.mark.parametrize("client", _CLIENTS, ids=[client.name for client in _CLIENTS])
@pytest.mark.parametrize("how", _BROKEN)
def test_a_framing_that_is_broken_is_broken_in_the_same_way(
    stage: Stage, client: Threads, how: str
) -> None:
    url = f"{stage.url}/broken?how={how}"

    def whole() -> Any:
        return outcome(lambda: client.fetch("GET", url).body)

    result = stage.check(whole)
    assert isinstance(result, list) or how == "in-the-trailers"


# In small parts, each of which is there before the chunk is

Parts = Callable[[str], Iterator[bytes]]


def _http_client(url: str) -> Iterator[bytes]:
    place, _, path = url.removeprefix("http://").partition("/")
    with closing(http.client.HTTPConnection(place)) as conn:
        conn.request("GET", f"/{path}")
        with conn.getresponse() as response:
            while part := response.read(5):
                yield part


def _urllib3(url: str) -> Iterator[bytes]:
    with urllib3.PoolManager() as pool:
        response = pool.request("GET", url, preload_content=False)
        try:
            yield from response.stream(5)
        finally:
            response.close()


def _requests(url: str) -> Iterator[bytes]:
    with requests.get(url, stream=True, timeout=20) as response:
        yield from response.iter_content(5)


_by_parts = pytest.mark.parametrize(
    "parts",
    [
        pytest.param(_http_client, id="http.client"),
        pytest.param(_urllib3, id="urllib3"),
        pytest.param(_requests, id="requests"),
    ],
)


def _seen(stage: Stage, parts: Parts, path: str) -> Callable[[], Any]:
    def program() -> Any:
        seen: list[bytes] = []

        def read() -> None:
            for part in parts(stage.url + path):
                seen.append(part)
                stage.server.gate.open()

        return outcome(read), seen

    return program


@_by_parts
def test_what_has_come_of_a_chunk_does_not_wait_for_the_rest(stage: Stage, parts: Parts) -> None:
    """The server goes on when the program has seen it."""
    assert stage.check(_seen(stage, parts, "/slow")) == (None, [b"first", b" then"])


@_by_parts
def test_the_size_of_a_chunk_takes_no_room(stage: Stage, parts: Parts) -> None:
    told, seen = stage.check(_seen(stage, parts, "/enormous"))
    assert seen == [b"hello", b" hell"]
    assert "more expected" in str(told)


@_by_parts
@pytest.mark.parametrize("how", _BROKEN)
def test_a_framing_breaks_where_it_broke(stage: Stage, parts: Parts, how: str) -> None:
    told, seen = stage.check(_seen(stage, parts, f"/broken?how={how}"))
    assert told is not None or seen == [b"hello"]


# Chunks that a program sees


def test_a_chunk_that_comes_bit_by_bit_is_one_for_urllib3(stage: Stage) -> None:
    def program() -> Any:
        with urllib3.PoolManager() as pool:
            response = pool.request("GET", f"{stage.url}/long", preload_content=False)
            sizes = [len(piece) for piece in response.stream(2 * _LONG)]
            response.release_conn()
            return sizes

    assert stage.check(program) == [_LONG, 3]


def test_a_chunk_that_comes_bit_by_bit_is_one_for_requests(stage: Stage) -> None:
    def program() -> Any:
        with requests.get(f"{stage.url}/long", stream=True, timeout=20) as response:
            return [len(piece) for piece in response.iter_content(None)]

    assert stage.check(program) == [_LONG, 3]
