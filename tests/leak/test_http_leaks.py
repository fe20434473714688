"""Secrets in HTTP and websockets, in every place: none in any file, message, report, or on stderr.

What a client raises to its program is the program's own, while recording. What we say is not.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import urllib3
import websockets

from reenact import DivergenceError
from reenact.policy.redaction.redactor import Profile
from tests.conftest import SOAK
from tests.integration.chatting import Chat
from tests.leak.exchanges import CLIENTS, Answer, Exchange, Server, exchanges
from tests.leak.planted import Plant, plant_shape
from tests.leak.room import Room
from tests.leak.search import Planted

ALL = list(exchanges())
EVERYTHING = [Planted(each.place, None, each.plants) for each in ALL]  # type: ignore[arg-type]


@pytest.fixture
def server() -> Iterator[Server]:
    answers = {str(number): each.answer for number, each in enumerate(ALL)}
    with Server(answers) as server:
        yield server


def _ask_all(client: str, server: Server) -> list[Any]:
    ask = CLIENTS[client]
    return [
        ask(each.method, server.url(each, number), each.headers, each.body)
        for number, each in enumerate(ALL)
    ]


def _comparable(answers: list[Any]) -> list[Any]:
    """httpx reads the first member of a gzip body only, and there is but one in a replay."""
    return [
        answer
        for each, answer in zip(ALL, answers, strict=True)
        if not each.place.endswith("member")
    ]


COMBINATIONS: list[tuple[str, str, Profile]] = [
    *((client, "capture", "default") for client in CLIENTS),
    ("httpx", "tape", "default"),
    ("httpx", "capture", "strict"),
]


@pytest.mark.slow
@pytest.mark.parametrize("client, kind, profile", COMBINATIONS)
def test_no_secret_of_an_exchange_is_anywhere(
    client: str,
    kind: str,
    profile: Profile,
    server: Server,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    room = Room(tmp_path, profile, kind)
    with room.session("record"):
        made = _ask_all(client, server)
    assert ALL[-1].plants[0].text.encode() in made[-1][1]
    with room.session("replay", strict=True, into=tmp_path / "again"):
        again = _ask_all(client, server)
    if kind == "capture":  # sealed, and the key is here
        assert _comparable(again) == _comparable(made)
    assert room.leaks(EVERYTHING, capfd) == []


def test_the_search_would_find_what_is_not_redacted(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The other tests would pass if the search were blind."""
    room = Room(tmp_path, "none", "tape")
    with room.session("record"):
        _ask_all("httpx", server)
    assert set(room.leaks(EVERYTHING, capfd)) == {each.place for each in EVERYTHING}


def test_no_secret_is_in_a_divergence(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    room = Room(tmp_path)
    with room.session("record"):
        CLIENTS["httpx"]("POST", f"http://127.0.0.1:{server.port}/other", (), b'{"a": 1}')
    for number, each in enumerate(ALL):
        for strict in (True, False) if SOAK else (number % 2 == 0,):
            try:
                with room.session("replay", strict=strict, unused="warn") as session:
                    CLIENTS["httpx"](each.method, server.url(each, number), each.headers, each.body)
            except DivergenceError as error:
                room.note(error)
            room.said.append(json.dumps(session.report().to_json()))
            room.said += [str(one) for one in session.divergences()]
    assert any("event_" in text for text in room.said)
    assert room.leaks(EVERYTHING, capfd) == []


_UNREACHABLE = (OSError, httpx.ConnectError, urllib3.exceptions.MaxRetryError)


# Credentials that are not part of a message


def _credentials(place: str) -> tuple[Plant, list[Planted]]:
    plant = plant_shape("shape.github", place)
    return plant, [Planted(place, None, [plant])]  # type: ignore[arg-type]


@pytest.mark.parametrize("client", ["httpx", "requests", "aiohttp"])
def test_credentials_in_a_url_stay_there(
    client: str, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant, planted = _credentials("in userinfo")
    room = Room(tmp_path)
    url = f"http://ann:{plant.text}@127.0.0.1:{server.port}/x"
    for mode in ("record", "replay"):
        with room.session(mode):
            assert CLIENTS[client]("GET", url, (), None) == (200, b"fine")
    assert room.leaks(planted, capfd) == []


def _by_proxy_httpx(proxy: str, url: str) -> bytes:
    with httpx.Client(proxy=proxy, trust_env=False) as client:
        return client.get(url).content


def _by_proxy_requests(proxy: str, url: str) -> bytes:
    with requests.Session() as session:
        return session.get(url, proxies={"http": proxy}).content


@pytest.mark.parametrize("ask", [_by_proxy_httpx, _by_proxy_requests], ids=["httpx", "requests"])
def test_credentials_of_a_proxy_stay_there(
    ask: Any, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant, planted = _credentials("of a proxy")
    room = Room(tmp_path)
    proxy = f"http://ann:{plant.text}@127.0.0.1:{server.port}"
    for mode in ("record", "replay"):
        with room.session(mode):
            assert ask(proxy, "http://behind.example/x") == b"fine"
    assert room.leaks(planted, capfd) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_the_text_of_a_failure_is_redacted(
    client: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Clients put the address into what they say when nobody listens there."""
    plant, planted = _credentials("in a failure")
    room = Room(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    url = f"http://127.0.0.1:{port}/{plant.text}?api_key={plant.text}"
    seen = []
    for mode in ("record", "replay"):
        with room.session(mode), pytest.raises(_UNREACHABLE) as caught:
            CLIENTS[client]("GET", url, (), None)
        seen.append((type(caught.value), str(caught.value)))
    assert seen[0] == seen[1]
    assert room.leaks(planted, capfd) == []


def test_an_answer_that_breaks_off_is_redacted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant, planted = _credentials("in half an answer")
    room = Room(tmp_path)
    answer = Answer(headers=(("Content-Length", "9999"),), pieces=(f"x {plant.text}".encode(),))
    exchange = Exchange("broken", [plant], answer=answer)
    with Server({"0": answer}) as server:
        url = server.url(exchange, 0)
        with room.session("record"), pytest.raises(httpx.HTTPError) as caught:
            CLIENTS["httpx"]("GET", url, (), None)
    with room.session("replay"), pytest.raises(type(caught.value)):
        CLIENTS["httpx"]("GET", url, (), None)
    assert room.leaks(planted, capfd) == []


# Websockets


def test_no_secret_of_a_websocket_is_anywhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant, planted = _credentials("in a websocket")
    room = Room(tmp_path)
    chat = Chat()
    chat.start()

    async def talk() -> list[Any]:
        headers = {"X-Api-Key": plant.text}
        address = chat.url(f"secret?value={plant.text}", credentials=f"ann:{plant.text}@")
        async with websockets.connect(address, additional_headers=headers) as websocket:
            first = await websocket.recv()
            await websocket.send(json.dumps({"auth": {"token": plant.text}}))
            second = await websocket.recv()
            await websocket.close(4000, plant.text)
            with pytest.raises(websockets.ConnectionClosed) as caught:
                await websocket.send(plant.text)
            return [first, second, str(caught.value)]

    try:
        with room.session("record"):
            made = asyncio.run(talk())
    finally:
        chat.stop()
    assert plant.text in made[0]
    with room.session("replay", strict=True, into=tmp_path / "again"):
        assert asyncio.run(talk()) == made
    assert room.leaks(planted, capfd) == []


@pytest.mark.parametrize("kind", ["capture", "tape"])
def test_no_secret_is_on_disk_while_an_answer_is_still_coming(
    kind: str, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a killed program leaves behind is what is there before the end."""
    room = Room(tmp_path, kind=kind)
    chunked = [(n, each) for n, each in enumerate(ALL) if len(each.answer.pieces) > 1]
    assert len(chunked) >= 8
    found: list[str] = []
    with room.session("record"), httpx.Client(trust_env=False, verify=False) as client:
        for number, each in chunked:
            with client.stream("GET", server.url(each, number)) as response:
                for _ in response.iter_raw():
                    found += room.leaks(EVERYTHING, capfd)
    assert found == []
