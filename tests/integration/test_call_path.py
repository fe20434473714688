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

import reenact

RECORD_FRAMES = 8
RECORD_MODULES = 7
REPLAY_FRAMES = 6
REPLAY_MODULES = 5


class _Handler(BaseHTTPRequestHandler):
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


def test_recorded_call_reaches_the_log_in_few_frames(url: str, tmp_path: Path) -> None:
    with reenact.session(mode="record", capture=tmp_path / "run"):
        httpx.get(url)
        path = _path(lambda: httpx.get(url), "reenact.store.log", "append")
    assert 0 < len(path) <= RECORD_FRAMES, path
    assert len(set(path)) <= RECORD_MODULES, path


def test_replayed_call_is_matched_in_few_frames(url: str, tmp_path: Path) -> None:
    with reenact.session(mode="record", capture=tmp_path / "run"):
        httpx.get(url)
    with reenact.session(mode="replay", capture=tmp_path / "run"):
        path = _path(lambda: httpx.get(url), "reenact.engine.decision.machine", "find_exact")
    assert 0 < len(path) <= REPLAY_FRAMES, path
    assert len(set(path)) <= REPLAY_MODULES, path
