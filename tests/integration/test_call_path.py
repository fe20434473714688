"""Length of the path of one call: frames of Reenact from the HTTP client to the log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
import requests

import reenact

RECORD_FRAMES = 7
RECORD_MODULES = 6
REPLAY_FRAMES = 6
REPLAY_MODULES = 5
"""Numbers of httpx. Every module of Reenact counts."""

CLIENTS: dict[str, tuple[Callable[[str], Any], int]] = {
    "get": (httpx.get, 0),
    "post": (lambda url: httpx.post(url, content=b"body"), 0),
    "requests": (requests.get, 1),
}
"""Calls, and the frames and modules that they need in addition: a patch that is not repeatable."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def _path(act: Callable[[], Any], module: str, function: str) -> list[str]:
    """Return the modules of Reenact's frames, outermost first, when ``function`` is called."""
    found: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code.co_name != function:
            return
        if not frame.f_globals.get("__name__", "").startswith(module):
            return
        names: list[str] = []
        current: FrameType | None = frame
        while current is not None:
            names.append(current.f_globals.get("__name__", ""))
            current = current.f_back
        found[:] = [name for name in reversed(names) if name.startswith("reenact.")]

    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_recorded_call_reaches_the_log_in_few_frames(url: str, tmp_path: Path, client: str) -> None:
    act, more = CLIENTS[client]
    with reenact.session(mode="record", capture=tmp_path / "run"):
        act(url)
        path = _path(lambda: act(url), "reenact.store.log", "append")
    assert 0 < len(path) <= RECORD_FRAMES + more, path
    assert len(set(path)) <= RECORD_MODULES + more, path


@pytest.mark.parametrize("client", CLIENTS)
def test_replayed_call_is_matched_in_few_frames(url: str, tmp_path: Path, client: str) -> None:
    act, more = CLIENTS[client]
    with reenact.session(mode="record", capture=tmp_path / "run"):
        act(url)
    with reenact.session(mode="replay", capture=tmp_path / "run"):
        path = _path(lambda: act(url), "reenact.engine.decision.machine", "find_exact")
    assert 0 < len(path) <= REPLAY_FRAMES + more, path
    assert len(set(path)) <= REPLAY_MODULES + more, path
