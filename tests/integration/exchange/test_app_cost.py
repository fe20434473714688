from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from reenact.exchange import Agent
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
