"""Recorded HTTP and model streams, taken by key: the pieces that came, without the client."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

import reenact
from reenact import rr

SPOKEN = [b'data: {"n": %d}\n\n' % number for number in range(4)]
SECRET = "sk-" + "Zq81" * 9
PACKED = gzip.compress(b"packed" * 50, mtime=0)


class _Speaker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nobody listens."""

    def do_GET(self) -> None:
        if self.path.startswith("/packed"):
            self._answer(("Content-Encoding", "gzip"), ("Content-Length", str(len(PACKED))))
            self.wfile.write(PACKED)
            return
        self._answer(("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
        for piece in (*SPOKEN, b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def _answer(self, *headers: tuple[str, str]) -> None:
        self.send_response(200)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Speaker)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def _read(method: str, url: str, **more: object) -> list[bytes]:
    with httpx.stream(method, url, **more) as response:  # type: ignore[arg-type]
        return list(response.iter_raw())


def test_pieces_are_those_that_the_client_got(url: str, tmp_path: Path) -> None:
    with reenact.session("sse", mode="record", root=tmp_path):
        first = _read("GET", f"{url}/sse?b=1&a=2")
        assert b"".join(first) == b"".join(SPOKEN)
        assert _read("GET", f"{url}/packed") == [PACKED]
        second = _read("POST", f"{url}/sse", json={"q": 1})
    with reenact.session("sse", mode="replay", root=tmp_path, strict=True) as session:
        assert list(rr.stream(f"{url}/sse?a=2&b=1")) == first
        assert list(rr.stream(f"GET {url}/packed", chunk_max_bytes=7)) == [
            PACKED[start : start + 7] for start in range(0, len(PACKED), 7)
        ]
        with pytest.raises(reenact.RrError, match="2009"):
            next(rr.stream(f"GET {url}/sse"))
        assert list(rr.stream(f"POST {url}/sse", kind="network", op="POST")) == second
    assert session.report().status == "ok"


def test_streams_of_tasks_are_found_in_their_lanes(url: str, tmp_path: Path) -> None:
    got: dict[int, list[bytes]] = {}

    async def read(client: httpx.AsyncClient, number: int) -> None:
        async with client.stream("GET", f"{url}/sse/{number}") as response:
            got[number] = [piece async for piece in response.aiter_raw()]

    async def record() -> None:
        recording = reenact.session("tasks", mode="record", root=tmp_path)
        async with recording, httpx.AsyncClient() as client:
            await asyncio.gather(*(read(client, number) for number in range(3)))

    async def replay() -> None:
        async with reenact.session("tasks", mode="replay", root=tmp_path, strict=True) as session:
            for number in (2, 0, 1):
                pieces = [piece async for piece in rr.stream(f"{url}/sse/{number}")]
                assert pieces == got[number]
        assert session.report().status == "ok"

    asyncio.run(record())
    asyncio.run(replay())


def test_a_key_with_a_secret_finds_what_was_recorded_without_it(url: str, tmp_path: Path) -> None:
    said: list[str] = []
    with reenact.session("keyed", mode="record", root=tmp_path, warn=said.append):
        _read("GET", f"{url}/sse?api_key={SECRET}")
    assert SECRET not in (tmp_path / ".reenact/cassettes/keyed.jsonl").read_text("utf-8")
    with reenact.session("keyed", mode="replay", root=tmp_path, strict=True):
        with pytest.raises(reenact.RrError) as missed:
            next(rr.stream(f"{url}/other?api_key={SECRET}"))
        assert b"".join(rr.stream(f"{url}/sse?api_key={SECRET}")) == b"".join(SPOKEN)
    assert SECRET not in f"{missed.value} {missed.value.hint} {missed.value.to_json()} {said}"


def test_a_model_call_is_found_by_model_and_by_address(url: str, tmp_path: Path) -> None:
    place, body = f"{url}/v1/chat/completions", {"model": "m1", "messages": [], "stream": True}
    with reenact.session("model", mode="record", root=tmp_path):
        first = _read("POST", place, json=body)
        second = _read("POST", place, json={**body, "n": 2})
    with reenact.session("model", mode="replay", root=tmp_path, strict=True) as session:
        assert list(rr.stream(place, kind="llm")) == first
        (event,) = (one for one in session.machine.unused() if one.type == "llm_request")
        assert list(rr.stream(event.operation)) == second
    assert session.report().status == "ok"
