"""Secrets in tools: in their arguments, results, failures and pieces, and in what they ask."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import reenact
from reenact import DivergenceError, tools
from reenact.tools.llm import llm
from reenact.tools.safe_http import Limits
from reenact.tools.tool import tool
from reenact.tools.web_tools import Brave, Perplexity, web_fetcher, web_searcher
from tests.leak.planted import SHAPES, Plant, plant_name, plant_shape
from tests.leak.room import Room
from tests.leak.search import Planted

Play = Callable[[str, str], object]

HERE = Limits(private_addresses=True)


class _Echo(BaseHTTPRequestHandler):
    """Says what it was asked."""

    def do_GET(self) -> None:
        body = f"<title>{self.path}</title><p>{self.path} {self.headers}</p>".encode()
        code = 500 if "fail" in self.path else 200
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@tool
def echo(value: Any, fails: bool = False) -> Any:
    if fails:
        raise ValueError(f"not {value}")
    return {"said": value, "list": [f"the {value}."]}


@tool
def spells(value: str) -> Iterator[str]:
    for start in range(0, len(value), 5):
        yield value[start : start + 5]


@tool
async def spells_later(value: str) -> AsyncIterator[dict[str, str]]:
    for letter in value:
        yield {"data": letter}


@llm(provider="house")
def model(prompt: str, api_key: str) -> dict[str, Any]:
    return {"stop_reason": "end", "usage": {"note": prompt}, "text": f"You said {prompt}"}


def _arguments(secret: str, server: str) -> object:
    return echo(secret), echo.call({"value": {"headers": {"X": secret}}}, call_id="c")


def _failures(secret: str, server: str) -> object:
    with contextlib.suppress(ValueError):
        echo(secret, fails=True)
    return None


def _pieces(secret: str, server: str) -> object:
    async def later() -> list[Any]:
        return [one async for one in spells_later(secret)]

    return list(spells(secret)), asyncio.run(later())


def _left_early(secret: str, server: str) -> object:
    pieces = spells(secret)
    taken = [next(pieces) for _ in range(2)]
    pieces.close()  # type: ignore[attr-defined]
    return taken


def _model(secret: str, server: str) -> object:
    return model(secret, api_key=secret)


def _command(secret: str, server: str) -> object:
    env = {"SERVICE_TOKEN": secret, "NOTE": secret}
    return tools.exec(f"true '{secret}'; echo $NOTE; echo $SERVICE_TOKEN >&2", env=env)


def _command_fails(secret: str, server: str) -> object:
    with contextlib.suppress(tools.ToolFailed):
        tools.exec(f"echo '{secret}'; kill -15 $$")
    return None


def _background(secret: str, server: str) -> object:
    name = tools.exec(f"true '{secret}'; read x; echo said $x", background=True)["sessionId"]
    found = [tools.process("write", name, data=f"{secret}\n", eof=True)]
    while found[-1]["status"] == "running":
        found.append(tools.process("poll", name, timeout=9_000))
    said = tools.exec(f"echo '{secret}'", pty=True)["aggregated"]
    return [found[-1]["aggregated"], said, tools.process("log", name), tools.process("list")]


def _page(secret: str, server: str) -> object:
    fetch = web_fetcher(HERE)
    with contextlib.suppress(tools.ToolFailed):
        fetch(f"{server}/fail?access_token={quote(secret)}")
    there = server.replace("//", f"//me:{quote(secret, safe='')}@")
    return fetch(f"{there}/a/{quote(secret, safe='')}?token={quote(secret)}")


def _search(secret: str, server: str) -> object:
    with contextlib.suppress(tools.ToolFailed):
        web_searcher(Brave(server), key=secret)(f"what is {secret}")
    with contextlib.suppress(tools.ToolFailed):
        web_searcher(Perplexity(server), key=secret)(secret)
    return None


PLAYS: dict[str, Play] = {
    play.__name__.removeprefix("_"): play
    for play in (
        _arguments,
        _background,
        _command,
        _command_fails,
        _failures,
        _left_early,
        _model,
        _page,
        _pieces,
        _search,
    )
}


@pytest.mark.parametrize("place", sorted(PLAYS))
def test_no_secret_of_a_tool_is_kept(
    place: str, server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shapes = [kind for kind in sorted(SHAPES) if "\n" not in plant_shape(kind, place).text]
    plants = [plant_shape(kind, place) for kind in shapes]
    if place in ("background", "command", "command_fails"):
        plants = plants[::6]  # a process each
    room = Room(tmp_path)
    with room.session("record"):
        for plant in plants:
            PLAYS[place](plant.text, server)
    assert room.leaks(_planted(place, plants), capfd) == []


@pytest.mark.parametrize("name", ["password", "api_key", "SERVICE_TOKEN"])
def test_a_secret_that_only_its_name_gives_away_is_not_kept(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant = plant_name(name, "tools")
    room = Room(tmp_path)
    with room.session("record"):
        echo({name: plant.text, "nested": [{name: plant.text}]})
        tools.exec("true", env={name: plant.text})
        model("hi", api_key=plant.text)
    assert room.leaks(_planted("name", [plant]), capfd) == []


def test_no_secret_is_shown_where_a_tool_differs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant = plant_shape("shape.openai", "differs")
    room = Room(tmp_path)
    with room.session("record"):
        echo("something")
    with pytest.raises(DivergenceError) as caught, room.session("replay"):
        echo({"password": plant.text, "text": plant.text})
    room.note(caught.value)
    assert room.leaks(_planted("differs", [plant]), capfd) == []


def test_no_secret_is_said_of_what_cannot_be_recorded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant = plant_shape("shape.github", "refused")
    room = Room(tmp_path)
    with room.session("record"), pytest.raises(reenact.ValueRefused) as caught:
        echo({plant.text: object()})
    room.said.append(str(caught.value))
    assert room.leaks(_planted("refused", [plant]), capfd) == []


@pytest.mark.parametrize("place", ["arguments", "background", "command", "pieces"])
def test_a_secret_that_a_tool_gave_comes_again_where_it_was_sealed(
    place: str, server: str, tmp_path: Path
) -> None:
    secret = plant_shape(sorted(SHAPES)[0], f"sealed {place}").text
    room = Room(tmp_path)
    with room.session("record"):
        first = PLAYS[place](secret, server)
    with room.session("replay"):
        again = PLAYS[place](secret, server)
    assert again == first


def _planted(place: str, plants: list[Plant]) -> list[Planted]:
    return [Planted(place, None, plants)]  # type: ignore[arg-type]
