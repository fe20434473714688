"""The guard under policies, under a recording of the network alone, and beside the program."""

from __future__ import annotations

import asyncio
import contextvars
import http.server
import socket
import subprocess
import threading
import urllib.request
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3

import reenact
from reenact import DivergenceError, Policy, Session
from reenact.boundaries.registry import PATCHES
from reenact.engine.session.settings import resolve_settings
from reenact.hermetic import guard
from reenact.policy.model import BoundaryRule
from reenact.testing import memory_session
from tests.integration.hermetic import Target, empty_recording


@pytest.fixture
def target() -> Iterator[Target]:
    with Target() as made:
        yield made


class _Pair:
    """A recording, and a server that is no part of the program."""

    def __init__(self, path: Path, target: Target) -> None:
        self._path = empty_recording(path)
        self.target = target

    def replay(self, policy: Policy | None = None, **more: Any) -> Session:
        return reenact.session(
            capture=self._path, mode="replay", strict=True, policy=policy, **more
        )

    def connect(self) -> None:
        with socket.socket() as client:
            client.connect(("127.0.0.1", self.target.tcp))


@pytest.fixture
def pair(tmp_path: Path, target: Target) -> _Pair:
    return _Pair(tmp_path / "recording", target)


def _passing(capability: str, operation: str = "*", *, allowed: bool = True) -> Policy:
    rule = BoundaryRule(capability=capability, operation=operation, action="pass")
    return Policy(id="p", boundaries=(rule,), allow_passthrough=allowed)


def test_a_rule_lets_connections_through_and_counts_them(pair: _Pair) -> None:
    with pair.replay(_passing("net.connect")) as session:
        pair.connect()
        pair.connect()
    where = f"net.connect 127.0.0.1:{pair.target.tcp}"
    assert session.report().passed == {where: 2}
    assert pair.target.came() == 2


def test_a_rule_may_name_the_place(pair: _Pair) -> None:
    with pair.replay(_passing("net.connect", f"*:{pair.target.tcp}")):
        pair.connect()
    with pytest.raises(DivergenceError), pair.replay(_passing("net.connect", "*:1")):
        pair.connect()
    assert pair.target.came() == 1


def test_a_rule_lets_processes_through_by_name(pair: _Pair) -> None:
    with pair.replay(_passing("process.exec", "true")) as session:
        assert subprocess.run(["true"]).returncode == 0
    assert session.report().passed == {"process.exec true": 1}
    with pytest.raises(DivergenceError), pair.replay(_passing("process.exec", "false")):
        subprocess.run(["true"])


def test_a_rule_without_leave_lets_nothing_through(pair: _Pair) -> None:
    with (
        pytest.raises(DivergenceError, match="allowPassthrough"),
        pair.replay(_passing("net.connect", allowed=False)),
    ):
        pair.connect()
    assert pair.target.came() == 0


def test_what_a_rule_passes_may_connect(pair: _Pair) -> None:
    with pair.replay(_passing("net.fetch"), whole_process=True) as session:
        session.call("get", {}, pair.connect, capability="net.fetch")

        async def connect() -> None:
            _, writer = await asyncio.open_connection("localhost", pair.target.tcp)
            writer.close()
            await writer.wait_closed()

        asyncio.run(session.aio.call("get", {}, connect, capability="net.fetch"))
    assert pair.target.came() == 2


def test_after_a_divergence_the_same_one_is_raised_again(pair: _Pair) -> None:
    session = pair.replay()
    with pytest.raises(DivergenceError) as last, session:
        with pytest.raises(DivergenceError) as first:
            pair.connect()
        with pytest.raises(DivergenceError) as second:
            subprocess.run(["true"])
    assert first.value.divergence == second.value.divergence == last.value.divergence
    assert len(session.divergences()) == 1


def test_only_where_the_session_is_in_force(pair: _Pair) -> None:
    with pair.replay():
        contextvars.Context().run(pair.connect)
    assert pair.target.came() == 1


def test_sessions_without_boundaries_are_not_guarded(pair: _Pair) -> None:
    with memory_session(mode="record") as first:
        pair.connect()
    with memory_session(first.recorded(), mode="replay"):
        pair.connect()
    assert pair.target.came() == 2


# A recording of the network alone


def _net_tape(path: Path, warn: Any) -> Session:
    return Session(
        resolve_settings(
            capture=path, mode="replay", strict=True, warn=warn, boundaries=PATCHES, only="network"
        )
    )


def test_under_a_net_tape_processes_run_live(tmp_path: Path) -> None:
    said: list[str] = []
    with _net_tape(empty_recording(tmp_path / "c"), said.append):
        for _ in range(2):
            assert subprocess.run(["true"]).returncode == 0
    assert len(said) == 1
    assert "--isolate" in said[0]


@pytest.mark.parametrize(
    "command",
    [["curl", "x"], "wget x", ["git", "-C", ".", "fetch"], "cd . && env A=b /usr/bin/ssh x"],
    ids=["curl", "shell", "git", "chain"],
)
def test_under_a_net_tape_known_tools_are_refused(command: Any, tmp_path: Path) -> None:
    session = _net_tape(empty_recording(tmp_path / "c"), lambda _: None)
    with pytest.raises(DivergenceError, match="starts the process"), session:
        subprocess.run(command, shell=isinstance(command, str))


# What the program listens on


def test_it_listens_on_what_it_has_bound_in_a_session(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        with reenact.session(capture=tmp_path / "c", mode="record"):
            inside = socket.create_server(("", 0))
            bound = socket.socket()
            bound.bind(("127.0.0.1", 0))
        port = inside.getsockname()[1]
        with inside, bound:
            assert guard.listens_here("127.0.0.1", port)
            assert guard.listens_here("localhost", port)
            assert guard.listens_here("::ffff:127.0.0.1", port)
            assert not guard.listens_here("192.0.2.1", port)
            assert not guard.listens_here("elsewhere.example", port)
            assert not guard.listens_here("127.0.0.1", outside.getsockname()[1])
            assert not guard.listens_here("127.0.0.1", bound.getsockname()[1])
        assert not guard.listens_here("127.0.0.1", port)


# Covered clients never come by


def _with_httpx(url: str) -> int:
    with httpx.Client() as client:
        return client.get(url).status_code


def _with_httpx_async(url: str) -> int:
    async def ask() -> int:
        async with httpx.AsyncClient() as client:
            return (await client.get(url)).status_code

    return asyncio.run(ask())


def _with_requests(url: str) -> int:
    with requests.Session() as session:
        return int(session.get(url).status_code)


def _with_urllib3(url: str) -> int:
    with urllib3.PoolManager() as pool:
        return pool.request("GET", url).status


def _with_aiohttp(url: str) -> int:
    async def ask() -> int:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            await response.read()
            return response.status

    return asyncio.run(ask())


def _with_urllib(url: str) -> int:
    with urllib.request.urlopen(url) as response:
        response.read()
        return int(response.status)


def _with_xmlrpc(url: str) -> int:
    with pytest.raises(xmlrpc.client.ProtocolError) as caught:
        xmlrpc.client.ServerProxy(url).ask()
    return caught.value.errcode


class _Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(299)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Not on the screen of the tests."""


CLIENTS = {
    "httpx": _with_httpx,
    "httpx_async": _with_httpx_async,
    "requests": _with_requests,
    "urllib3": _with_urllib3,
    "aiohttp": _with_aiohttp,
    "urllib": _with_urllib,
    "xmlrpc": _with_xmlrpc,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_covered_clients_do_not_wake_the_guard(client: str, tmp_path: Path) -> None:
    said: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://localhost:{server.server_port}/"
        with reenact.session(capture=tmp_path / "c", mode="record", warn=said.append):
            assert CLIENTS[client](url) == 299
        server.shutdown()
        thread.join()
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True, warn=said.append):
        assert CLIENTS[client](url) == 299
    assert said == []
