"""No secret of a request or an answer is in the recording, and the replay is as it was."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.clients.cases import every
from tests.contract.clients.every import can, named
from tests.contract.clients.face import Client
from tests.contract.endpoints import ENDPOINTS
from tests.contract.server import Exchange, Server
from tests.contract.stage import Stage

pytestmark = pytest.mark.thinned(3)

SECRET = "sk-" + "live" + 24 * "7"


def _token(exchange: Exchange) -> None:
    """``/token``, ``/token/gzip``, ``/token/pieces``: an answer with a secret in it."""
    body = json.dumps({"n": exchange.number, "access_token": SECRET}).encode()
    if exchange.path.endswith("/gzip"):
        exchange.answer("200 OK", gzip.compress(body), ("Content-Encoding", "gzip"))
    elif exchange.path.endswith("/pieces"):
        exchange.head("200 OK", ("Transfer-Encoding", "chunked"))
        for part in (body[:45], body[45:]):
            exchange.chunk(part)
        exchange.send(b"0\r\n\r\n")
    else:
        exchange.answer("200 OK", body, ("Set-Cookie", f"session={SECRET}; Path=/"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server({**ENDPOINTS, "/token": _token})
    yield server
    server.stop()


def _written(stage: Stage) -> list[bytes]:
    return [path.read_bytes() for path in stage.folder.rglob("*") if path.is_file()]


def _check_clean(stage: Stage) -> None:
    written = _written(stage)
    assert written
    for data in written:
        assert SECRET.encode() not in data
    for call in stage.calls():
        body = call.data["response"].get("body", "")
        packed = body if isinstance(body, bytes) else b""
        assert SECRET.encode() not in (gzip.decompress(packed) if packed else b"")


@every()
def test_a_secret_in_the_answer(stage: Stage, client: Client) -> None:
    answer = stage.check(lambda: client.fetch("GET", f"{stage.url}/token"))
    assert json.loads(answer.body)["access_token"] == SECRET
    _check_clean(stage)


@every()
def test_a_secret_in_an_encoded_answer(stage: Stage, client: Client) -> None:
    def program() -> Any:
        body = client.fetch("GET", f"{stage.url}/token/gzip").body
        return body if can(client, "decode") else gzip.decompress(body)

    assert json.loads(stage.check(program))["access_token"] == SECRET
    _check_clean(stage)


@every()
def test_a_secret_that_is_cut_in_two(stage: Stage, client: Client) -> None:
    def program() -> Any:
        return b"".join(client.read(f"{stage.url}/token/pieces"))

    assert json.loads(stage.check(program))["access_token"] == SECRET
    _check_clean(stage)


@every()
def test_a_secret_in_the_request(stage: Stage, client: Client) -> None:
    headers = (
        ("Content-Type", "application/json"),
        ("Authorization", f"Bearer {SECRET}"),
        ("X-Api-Key", SECRET),
        ("Cookie", f"session={SECRET}"),
    )
    body = json.dumps({"api_key": SECRET}).encode()
    url = f"{stage.url}/status/200?api_key={SECRET}"
    assert stage.check(lambda: client.fetch("POST", url, headers, body)).status == 200
    _check_clean(stage)


@pytest.mark.parametrize("name", ["httpx", "httpx2-async", "requests", "aiohttp", "botocore"])
def test_a_password_in_the_address(stage: Stage, name: str) -> None:
    client = named(name)
    url = f"{stage.url}/json".replace("http://", f"http://user:{SECRET}@")
    answer = stage.check(lambda: client.fetch("GET", url))
    assert b"000001" in answer.body
    _check_clean(stage)
