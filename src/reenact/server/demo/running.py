"""A demo as a whole: a server in a folder that goes away, two apps beside it, and traffic."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from reenact.server.app import make_app
from reenact.server.demo.preparing import AGENTS, Prepared, entrance, prepare
from reenact.server.demo.traffic import Traffic
from reenact.server.opening import World, open_server
from reenact.server.rooms import ENDPOINTS
from reenact.server.serving import Uvicorn, bind, url_of

__all__ = ["serve_demo"]

_PATIENCE: Final = 15


def serve_demo(host: str, port: int) -> int:
    """Serve a demo until SIGINT or SIGTERM; gives the exit code. Raises :class:`UsageError`."""
    with tempfile.TemporaryDirectory(prefix="reenact-demo-") as folder:
        return asyncio.run(_serve(Path(folder), host, port))


async def _serve(folder: Path, host: str, port: int) -> int:
    async with open_server(folder / "server", "demo.internal", World()) as opened:
        prepared = await prepare(opened.server)
        with bind(host, port) as sock, ExitStack() as beside:
            url = url_of(sock)
            running = Uvicorn(
                make_app(opened.server, (*ENDPOINTS, entrance(prepared))),
                opened.server.stopping,
                ready=lambda: beside.enter_context(_shops(folder, url, prepared)),
            )
            await running.serve([sock])
            return 0 if running.started else 1


@contextmanager
def _shops(folder: Path, url: str, prepared: Prepared) -> Iterator[None]:
    """The apps, and what happens in them, until the block ends."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(bind("127.0.0.1", 0)) for _ in AGENTS]
        places = [url_of(sock) for sock in sockets]
        for (app, environment), key, sock in zip(AGENTS, prepared.agents, sockets, strict=True):
            said = {
                "DEMO_SERVER": url,
                "DEMO_AGENT_KEY": key,
                "DEMO_ENVIRONMENT": environment,
                "DEMO_DATA": str(folder / f"{app}-{environment}"),
                "DEMO_WAREHOUSE": places[0],
            }
            stack.enter_context(_program(app, said, sock))
        traffic = Traffic(url, prepared.operator, places[1], places[2], places[0], folder)
        thread = threading.Thread(target=_fill, args=(traffic, url, prepared), name="demo")
        thread.start()
        stack.callback(thread.join)
        stack.callback(traffic.stopping.set)
        yield


def _fill(traffic: Traffic, url: str, prepared: Prepared) -> None:
    _say(f"a shop is starting at {url}; orders are coming in …")
    if not traffic.run() and not traffic.stopping.is_set():
        _say("the shop does not answer as it should: you see what came in before")
    _say(f"look around, with this link, which works once:\n  {url}/demo?token={prepared.token}")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


@contextmanager
def _program(app: str, said: dict[str, str], sock: socket.socket) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "reenact.server.demo.program", app],
        env={**os.environ, **said, "DEMO_SOCKET": str(sock.fileno())},
        stdin=subprocess.PIPE,
        pass_fds=[sock.fileno()],
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
