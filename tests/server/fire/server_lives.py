"""The server as a program with many lives, each of which can be killed at any point it comes to."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reenact.server.app import make_app
from reenact.server.process.serve import Uvicorn, bind
from reenact.server.process.startup import World, open_server
from reenact.server.runtime import Limits, Timings
from reenact.server.storage.database import Database
from tests.server.fire.lives import Orders, live, tell


class Points:
    """Counts where the server is, from the first request whose path ends with ``begin`` on (``*``:
    from the first of all), and kills it with -9 at the one that has the number ``kill_at``."""

    def __init__(self, begin: str, kill_at: int) -> None:
        self._begin = begin
        self._kill_at = kill_at
        self._count = 0
        self._counts = begin == "*"

    def request(self, method: str, path: str) -> None:
        """Somebody asks for something."""
        if method == "POST" and self._begin and path.endswith(self._begin):
            self._counts = True
        self.here(f"asked {method} {path}")

    def here(self, what: str) -> None:
        """It is at a point."""
        if not self._counts:
            return
        self._count += 1
        tell(point=self._count, what=what)
        if self._count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def watch_commits(database: Database, points: Points) -> None:
    """Before and after each transaction that writes."""
    dialect = database._writing.engine.sync_engine.dialect
    commit = dialect.do_commit

    def do_commit(connection: Any) -> None:
        points.here("before a commit")
        commit(connection)
        points.here("after a commit")

    dialect.do_commit = do_commit  # type: ignore[method-assign,assignment]


class Watched:
    """An app whose answers are points: each piece of them, before it is sent and after."""

    def __init__(self, app: ASGIApp, points: Points) -> None:
        self._app = app
        self._points = points

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = f"{scope['method']} {scope['path']}"
        if _only_looks(asked):
            await self._app(scope, receive, send)
            return
        self._points.request(scope["method"], scope["path"])

        async def send_on(message: Message) -> None:
            self._points.here(f"before {message['type']} of {asked}")
            await send(message)
            if message["type"] == "http.response.body":
                self._points.here(f"after {message['type']} of {asked}")

        await self._app(scope, receive, send_on)


def _only_looks(asked: str) -> bool:
    """Is it nothing to a replay? Then how often it is asked depends on the time that things take."""
    if asked.endswith("/heartbeat"):
        return True
    return asked.startswith("GET ") and "/api/v1/agents/" not in asked


async def _serve(orders: Orders) -> None:
    world = World(limits=Limits(**orders["limits"]), timings=Timings(**orders["timings"]))
    points = Points(orders["begin"], orders["kill_at"])
    async with open_server(
        Path(orders["data"]), "test.example", world, database=orders["database"]
    ) as opened:
        watch_commits(opened.server.database, points)
        with bind("127.0.0.1", orders["port"]) as sock:
            running = Uvicorn(
                Watched(make_app(opened.server), points),
                opened.server.stopping,
                ready=lambda: tell(ready=os.getpid(), token=opened.setup_token),
            )
            await running.serve([sock])


if __name__ == "__main__":
    live(lambda orders: asyncio.run(_serve(orders)))
