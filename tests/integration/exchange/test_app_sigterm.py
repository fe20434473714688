from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.exchange.protocol_server import KEY, PATIENCE, ProtocolServer

APP = """
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

    app = FastAPI()
    app.add_middleware(agent.asgi)
    app.get("/")(lambda: "hello")
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


@pytest.mark.parametrize("server", SERVERS)
def test_the_app_agent_deregisters_on_sigterm(server: str, tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(APP, encoding="utf-8")
    path = tmp_path / "socket"
    words = [word.format(socket=path) for word in SERVERS[server]]
    with ProtocolServer() as protocol:
        environ = {
            **os.environ,
            "SERVER": protocol.url,
            "KEY": KEY,
            "DATA": str(tmp_path / "data"),
            "PYTHONWARNINGS": "ignore",
        }
        with subprocess.Popen(
            [sys.executable, "-m", *words], cwd=tmp_path, env=environ, stderr=subprocess.PIPE
        ) as process:
            try:
                _ask(path, process)
                protocol.until(lambda: protocol.registrations)
                protocol.until(lambda: protocol.exchanges)
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE)
            finally:
                process.kill()
        (registered,) = {one["agentId"] for one in protocol.registrations}
        assert protocol.goodbyes == [registered]


def _ask(path: Path, process: subprocess.Popen[bytes]) -> None:
    """One request, as soon as the server listens."""
    while process.poll() is None:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
            except OSError:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)
                continue
            client.sendall(b"GET / HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n")
            with client.makefile("rb") as answer:
                assert b" 200 " in answer.readline()
                answer.read()
            return
    assert process.stderr is not None
    pytest.fail(process.stderr.read().decode())
