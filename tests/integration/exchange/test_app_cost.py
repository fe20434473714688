from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import reenact
from reenact import Session
from reenact.exchange import Agent
from reenact.format.decoders import build_all_decoders, build_decoders
from tests.integration.exchange.protocol_server import KEY, ProtocolServer

_FILE_EVENTS = frozenset(
    {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir"}
)


class FileCalls:
    """File system calls of one thread, as far as the interpreter reports them. A write to an open
    file is not among them: the system counts those."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.thread = 0
        self.native_thread = 0
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.thread == threading.get_ident() and event in _FILE_EVENTS:
            self.seen.append(f"{event} {args[0]!r}")

    def watch(self) -> None:
        """Watch this thread from now on."""
        self.thread, self.native_thread = threading.get_ident(), threading.get_native_id()

    def written(self) -> int:
        """How many times the watched thread has written to a file so far."""
        counters = Path(f"/proc/self/task/{self.native_thread}/io").read_text("ascii")
        return int(counters.partition("syscw:")[2].split()[0])


CALLS = FileCalls()


@pytest.mark.parametrize("sample", [0.0, 1.0])
def test_a_request_makes_no_file_system_call_but_one_append(tmp_path, sample):
    app = FastAPI()

    @app.get("/items/{number}")
    async def item(number: int) -> dict[str, int]:
        CALLS.watch()
        return {"number": number}

    with ProtocolServer() as server:
        agent = Agent(
            server.url, KEY, app="shop", environment="staging", data=tmp_path, sample=sample
        )
        with agent, TestClient(agent.asgi(app)) as client:
            client.get("/items/0")  # opens the log, and loads what is loaded once
            CALLS.seen.clear()
            before = CALLS.written()
            for number in range(5):
                assert client.get(f"/items/{number}").json() == {"number": number}
            CALLS.thread = 0
            assert CALLS.written() - before == (5 if sample else 0)
            server.until(lambda: len(server.exchanges) == (6 if sample else 0))
    assert CALLS.seen == []


@contextmanager
def recorded(app: FastAPI, data: Path) -> Iterator[tuple[TestClient, ProtocolServer]]:
    """A client of ``app``, all of whose requests are recorded."""
    with ProtocolServer() as server:
        agent = Agent(server.url, KEY, app="shop", environment="staging", data=data)
        with agent, TestClient(agent.asgi(app)) as client:
            yield client, server


def test_a_recorded_request_leaves_no_session_for_the_garbage_collector(tmp_path):
    app = FastAPI()
    sessions: list[weakref.ref[Session]] = []

    @app.get("/items/{number}")
    async def item(number: int) -> dict[str, str]:
        session = reenact.current()
        assert session is not None
        sessions.append(weakref.ref(session))
        return {"home": os.environ.get("HOME", ""), "now": str(time.time())}

    with recorded(app, tmp_path) as (client, server):
        client.get("/items/0")
        gc.disable()
        try:
            for number in range(1, 6):
                client.get(f"/items/{number}")
            server.until(lambda: len(server.exchanges) == 6)
            alive = [number for number, session in enumerate(sessions) if session() is not None]
        finally:
            gc.enable()
    assert len(sessions) == 6
    assert alive == []


def test_a_recorded_request_does_not_build_message_classes_again(tmp_path):
    app = FastAPI()
    calls: list[str] = []
    building = {build_decoders.__code__, build_all_decoders.__code__}

    def profile(frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call":
            calls.append("built" if frame.f_code in building else "")

    @app.get("/items/{number}")
    async def item(number: int) -> dict[str, int]:
        if sys.getprofile() is None:
            sys.setprofile(profile)
        return {"number": number}

    with recorded(app, tmp_path) as (client, server):
        for number in range(6):
            client.get(f"/items/{number}")
        server.until(lambda: len(server.exchanges) == 6)
    assert len(calls) > 1_000  # the requests were watched
    assert "built" not in calls


def test_a_task_that_outlives_its_recorded_request_reads_clock_and_environment(tmp_path):
    app = FastAPI()
    seen: list[tuple[str | None, bool]] = []
    running: list[asyncio.Task[None]] = []

    async def later(ended: asyncio.Event) -> None:
        await ended.wait()
        seen.append((os.environ.get("HOME"), time.time() > 0))

    @app.get("/begin")
    async def begin() -> str:
        app.state.ended = asyncio.Event()
        running.append(asyncio.create_task(later(app.state.ended)))
        return os.environ.get("HOME", "")

    @app.get("/end")
    async def end() -> str:
        app.state.ended.set()
        await asyncio.wait(running)
        return "done"

    with recorded(app, tmp_path) as (client, _):
        client.get("/begin")
        assert client.get("/end").json() == "done"
    assert seen == [(os.environ.get("HOME"), True)]
