"""Forking where a program asks over HTTP: another model, another prompt, another answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import aiohttp
import httpx
import pytest
import requests

import reenact
from reenact import UsageError
from reenact.engine.fork.plan import At
from tests.contract.server import Exchange, Server

SECRET = "sk-live-" + "a1B2c3D4" * 4
Ask = Callable[[str, dict[str, Any]], Any]


def _by_httpx(url: str, body: dict[str, Any]) -> Any:
    with httpx.Client() as client:
        return client.post(url, json=body, headers={"Authorization": f"Bearer {SECRET}"}).json()


def _by_httpx_async(url: str, body: dict[str, Any]) -> Any:
    async def ask() -> Any:
        async with httpx.AsyncClient() as client:
            return (await client.post(url, json=body)).json()

    return asyncio.run(ask())


def _by_requests(url: str, body: dict[str, Any]) -> Any:
    return requests.post(url, json=body, timeout=60).json()


def _by_urllib(url: str, body: dict[str, Any]) -> Any:
    kind = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), kind)) as answer:
        return json.load(answer)


def _by_aiohttp(url: str, body: dict[str, Any]) -> Any:
    async def ask() -> Any:
        async with aiohttp.ClientSession() as client, client.post(url, json=body) as answer:
            return json.loads(await answer.text())

    return asyncio.run(ask())


CLIENTS = [_by_httpx, _by_httpx_async, _by_requests, _by_urllib, _by_aiohttp]


def _program(server: Server, ask: Ask) -> list[Any]:
    """Three questions; what the server says back has what it was sent."""
    return [
        ask(f"{server.url}/echo", {"model": "a", "messages": [{"content": f"question {number}"}]})
        for number in range(3)
    ]


def _sent(answer: Any) -> Any:
    return json.loads(answer["body"])


@pytest.fixture
def recorded(server: Server, tmp_path: Path) -> Callable[[Ask], list[Any]]:
    def record(ask: Ask) -> list[Any]:
        with reenact.session(capture=tmp_path / "a", mode="record"):
            return _program(server, ask)

    return record


def _forked(server: Server, folder: Path, ask: Ask, at: At) -> list[Any]:
    """The fork; its replay is the same, and nobody comes to the server."""
    with reenact.session(capture=folder / "a", fork=at, into=folder / "b"):
        forked = _program(server, ask)
    connections = server.connections
    with reenact.session(capture=folder / "b", strict=True):
        assert _program(server, ask) == forked
    assert server.connections == connections
    return forked


def _changed(folder: Path) -> list[Any]:
    with reenact.open_recording(folder / "b") as source:
        return [event.data for event in source if "changed" in event.data]


@pytest.mark.parametrize("ask", CLIENTS)
def test_model_requests_go_to_another_model(
    server: Server, tmp_path: Path, recorded: Any, ask: Ask
) -> None:
    before = recorded(ask)
    after = _forked(server, tmp_path, ask, At("call:2", model="b"))
    assert after[0] == before[0]
    assert [_sent(answer)["model"] for answer in after] == ["a", "b", "b"]
    assert [_sent(answer)["messages"] for answer in after] == [
        _sent(answer)["messages"] for answer in before
    ]
    for data in _changed(tmp_path):
        assert data["changed"] == ["model"]
        assert data["request"]["body"]["model"] == "a"
        assert data["sent"]["body"]["model"] == "b"
    assert len(_changed(tmp_path)) == 2


@pytest.mark.parametrize("ask", CLIENTS)
def test_another_prompt_is_sent(server: Server, tmp_path: Path, recorded: Any, ask: Ask) -> None:
    recorded(ask)
    path = "$.request.body.messages[0].content"
    after = _forked(server, tmp_path, ask, At("call:2", set={path: "something else"}))
    said = [_sent(answer)["messages"][0]["content"] for answer in after]
    assert said == ["question 0", "something else", "question 2"]
    (data,) = _changed(tmp_path)
    assert data["changed"] == [path]


@pytest.mark.parametrize("ask", CLIENTS)
def test_another_answer_is_served(server: Server, tmp_path: Path, recorded: Any, ask: Ask) -> None:
    before = recorded(ask)
    connections = server.connections
    other = "an answer that is longer than the one that was recorded " * 9
    after = _forked(server, tmp_path, ask, At("call:2", set={"$.response.body.method": other}))
    assert after[1] == {**before[1], "method": other}
    assert server.connections > connections
    assert after[2] != before[2]


def test_another_path_is_asked(server: Server, tmp_path: Path, recorded: Any) -> None:
    recorded(_by_httpx)
    at = At("call:2", set={"$.request.url": f"{server.url}/json?other"})
    after = _forked(server, tmp_path, _by_httpx, at)
    assert after[1]["target"] == "/json?other"
    assert after[2]["target"] == "/echo"


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("$.request.url", "http://127.0.0.1:9/elsewhere", "goes to another server"),
        ("$.request.type", "text", "nothing that can be sent otherwise"),
    ],
)
def test_what_cannot_be_sent_is_refused(
    server: Server, tmp_path: Path, recorded: Any, path: str, value: str, message: str
) -> None:
    recorded(_by_httpx)
    fork = reenact.session(
        capture=tmp_path / "a", fork=At("call:2", set={path: value}), into=tmp_path / "b"
    )
    with pytest.raises(UsageError, match=message), fork:
        _program(server, _by_httpx)
    assert not (tmp_path / "b").exists()


def test_a_secret_that_is_sent_is_not_written(
    server: Server, tmp_path: Path, recorded: Any
) -> None:
    recorded(_by_httpx)
    _forked(server, tmp_path, _by_httpx, At("call:2", model="b"))
    written = b"".join(file.read_bytes() for file in (tmp_path / "b").rglob("*") if file.is_file())
    assert b'"model":"b"' in written
    assert SECRET.encode() not in written


def _events(exchange: Exchange) -> None:
    said = f'data: {{"n": {exchange.number!r}}}\n\ndata: [DONE]\n\n'.replace("'", '"')
    exchange.answer("200 OK", said.encode(), ("Content-Type", "text/event-stream"))


def test_a_stream_of_events_is_served_with_another_one(tmp_path: Path) -> None:
    server = Server({"/events": _events})
    url = f"{server.url}/events"

    def program() -> list[str]:
        with httpx.stream("GET", url) as answer:
            return list(answer.iter_lines())

    with reenact.session(capture=tmp_path / "a", mode="record"):
        before = program()
    at = At("call:1", set={"$.response.body[0].n": "other"})
    with reenact.session(capture=tmp_path / "a", fork=at, into=tmp_path / "b"):
        after = program()
    server.stop()
    assert after == ['data: {"n":"other"}', *before[1:]]
    with reenact.session(capture=tmp_path / "b", strict=True):
        assert program() == after
