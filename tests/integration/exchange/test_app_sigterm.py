from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reenact.exchange import Agent, Message
from tests.integration.exchange.protocol_server import KEY, PATIENCE, ProtocolServer

APP = """
import asyncio
import os
from reenact.exchange import Agent

agent = Agent(
    os.environ["SERVER"], os.environ["KEY"], app="shop", environment="staging", data=os.environ["DATA"]
)


async def no_lifespan(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]


def make_asgi():
    from fastapi import FastAPI
    from fastapi.responses import StreamingResponse

    app = FastAPI()
    app.add_middleware(agent.asgi)
    app.get("/")(lambda: "hello")

    async def forever():
        yield b"first"
        await asyncio.Event().wait()

    app.get("/forever")(lambda: StreamingResponse(forever()))
    return app


app = make_asgi()
bare = agent.asgi(no_lifespan)
flat = agent.wsgi(wsgi)
"""

SERVERS = {
    "uvicorn": ["uvicorn", "--uds", "{socket}", "served:app"],
    "uvicorn, app without lifespan": ["uvicorn", "--uds", "{socket}", "served:bare"],
    "gunicorn": ["gunicorn", "-b", "unix:{socket}", "served:flat"],
    "gunicorn with uvicorn workers": [
        *("gunicorn", "-k", "uvicorn.workers.UvicornWorker", "-b", "unix:{socket}", "served:app"),
    ],
    "hypercorn": ["hypercorn", "-b", "unix:{socket}", "served:app"],
    "hypercorn, WSGI": ["hypercorn", "-b", "unix:{socket}", "wsgi:served:flat"],
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("server", SERVERS)
def test_the_app_agent_deregisters_on_sigterm(server: str, tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(APP, encoding="utf-8")
    path = tmp_path / "socket"
    words = [word.format(socket=path) for word in SERVERS[server]]
    with ProtocolServer() as protocol:
        command = [sys.executable, "-m", *words]
        with _serving(command, tmp_path, protocol) as process:
            _ask(path, process)
            protocol.until(lambda: protocol.registrations)
            protocol.until(lambda: protocol.exchanges)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        (registered,) = {one["agentId"] for one in protocol.registrations}
        assert protocol.goodbyes == [registered]


def test_a_response_cut_off_by_sigterm_does_not_register_the_app_agent_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "served.py").write_text(APP, encoding="utf-8")
    path = tmp_path / "socket"
    words = ["uvicorn", "--timeout-graceful-shutdown", "1", "--uds", str(path), "served:app"]
    command = [sys.executable, "-m", *words]
    with ProtocolServer() as protocol:
        with _serving(command, tmp_path, protocol) as process, _connect(path, process) as client:
            client.sendall(b"GET /forever HTTP/1.1\r\nHost: app\r\n\r\n")
            with client.makefile("rb") as answer:
                while b"first" not in answer.readline():
                    assert process.poll() is None
            protocol.until(lambda: protocol.registrations)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        (registered,) = {one["agentId"] for one in protocol.registrations}
        assert protocol.goodbyes == [registered]


def test_an_exchange_that_outlives_the_app_agent_is_sent_by_the_next_process(
    tmp_path: Path,
) -> None:
    with ProtocolServer() as protocol:

        def make() -> Agent:
            return Agent(protocol.url, KEY, app="shop", environment="staging", data=tmp_path)

        agent = make()

        @agent.route("orders")
        def orders(message: Message) -> None:
            protocol.until(lambda: protocol.registrations)
            agent.sign_off()

        orders({"amount": 1})
        agent.close()
        (registered,) = {one["agentId"] for one in protocol.registrations}
        assert (protocol.goodbyes, protocol.exchanges) == ([registered], {})
        with make():
            protocol.until(lambda: protocol.exchanges)
        (late,) = protocol.exchanges.values()
        assert (late["routeId"], late["agentId"]) == ("orders", registered)


@contextlib.contextmanager
def _serving(
    command: Sequence[str], folder: Path, protocol: ProtocolServer
) -> Iterator[subprocess.Popen[bytes]]:
    environ = {
        **os.environ,
        "SERVER": protocol.url,
        "KEY": KEY,
        "DATA": str(folder / "data"),
        "PYTHONWARNINGS": "ignore",
    }
    with subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def _ask(path: Path, process: subprocess.Popen[bytes]) -> None:
    """One request, as soon as the server listens."""
    with _connect(path, process) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n")
        with client.makefile("rb") as answer:
            assert b" 200 " in answer.readline()
            answer.read()


def _connect(path: Path, process: subprocess.Popen[bytes]) -> socket.socket:
    while process.poll() is None:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(str(path))
        except OSError:
            client.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
            continue
        return client
    assert process.stderr is not None
    pytest.fail(process.stderr.read().decode())
