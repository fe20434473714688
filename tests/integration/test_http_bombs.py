"""A few kilobytes that stand for gigabytes do no harm to a recorder, and hide nothing from it."""

from __future__ import annotations

import asyncio
import random
import string
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3

import reenact
from reenact.boundaries.http.encoding import MOST
from reenact.engine.divergence.model import Divergence
from reenact.policy.redaction.redactor import PLACEHOLDER
from tests.integration.sessions import Studio

_CHANCE = random.Random("secrets in bombs")
SECRET = "gh" + "p_" + "".join(_CHANCE.choices(string.ascii_letters + string.digits, k=36))
MIB = 1 << 20


def _bomb(size: int, *, ending: bytes = b"") -> bytes:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    parts = [packer.compress(bytes(MIB)) for _ in range(size // MIB)]
    return b"".join([*parts, packer.compress(ending), packer.flush()])


BOMB = _bomb(2 * MOST, ending=SECRET.encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(BOMB)))
        self.end_headers()
        self.wfile.write(BOMB)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


# Programs that do not decode what they fetch, as a mirror or a proxy does.


def _by_httpx(url: str) -> bytes:
    with httpx.Client(trust_env=False) as client, client.stream("GET", url) as response:
        return b"".join(response.iter_raw())


def _by_urllib3(url: str) -> bytes:
    with urllib3.PoolManager() as pool:
        response = pool.request("GET", url, preload_content=False, decode_content=False)
        body: bytes = response.read()
        response.release_conn()
        return body


def _by_requests(url: str) -> bytes:
    with requests.Session() as session, session.get(url, stream=True) as response:
        body: bytes = response.raw.read(decode_content=False)
        return body


def _by_aiohttp(url: str) -> bytes:
    async def fetch() -> bytes:
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.get(url) as response,
        ):
            return await response.read()

    return asyncio.run(fetch())


CLIENTS = {
    "httpx": _by_httpx,
    "urllib3": _by_urllib3,
    "requests": _by_requests,
    "aiohttp": _by_aiohttp,
}
Fetch = Callable[[str], bytes]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("fetch", CLIENTS.values(), ids=CLIENTS.keys())
def test_a_capture_keeps_a_bomb_sealed(fetch: Fetch, url: str, tmp_path: Path) -> None:
    studio, place = Studio(tmp_path), tmp_path / "run"
    tracemalloc.start()
    try:
        with studio.session(capture=place, mode="record"):
            assert fetch(url) == BOMB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST + 40 * MIB
    assert any("stored as a secret" in warning for warning in studio.warnings)
    written = [file.read_bytes() for file in place.rglob("*") if file.is_file()]
    assert not any(BOMB[-2_000:] in data for data in written)
    with studio.session(capture=place, mode="replay", strict=True):
        assert fetch(url) == BOMB


def test_a_tape_serves_the_placeholder_and_says_so(url: str, tmp_path: Path) -> None:
    studio, place = Studio(tmp_path), tmp_path / "net.jsonl"
    with studio.session(tape=place, mode="record"):
        assert _by_httpx(url) == BOMB
    del studio.warnings[:]
    with (
        studio.session(tape=place, mode="replay", strict=True),
        httpx.Client(trust_env=False) as client,
    ):
        response = client.get(url)
    assert response.text == PLACEHOLDER
    assert any("cannot be opened here" in warning for warning in studio.warnings)
    with reenact.open_recording(place) as source:
        [data] = [one.data for one in source if "request" in one.data]
    assert data["redacted"] == ["$.response.bodySecret"]
    assert "more than 64 MiB" in data["response"]["unread"]


def test_without_redaction_a_bomb_is_kept_as_it_is(url: str, tmp_path: Path) -> None:
    studio, place = Studio(tmp_path), tmp_path / "net.jsonl"
    for mode in ("record", "replay"):
        with studio.session(tape=place, mode=mode, redaction="none"):
            assert _by_httpx(url) == BOMB
    assert studio.warnings == []


def test_a_bomb_that_is_sent_is_compared(url: str, tmp_path: Path) -> None:
    studio, place = Studio(tmp_path), tmp_path / "net.jsonl"
    headers = {"Content-Encoding": "gzip"}
    other = _bomb(2 * MOST, ending=b"another one")

    def send(body: bytes) -> int:
        with httpx.Client(trust_env=False) as client:
            return client.post(url, content=body, headers=headers).status_code

    with studio.session(tape=place, mode="record"):
        assert send(BOMB) == 204
    assert BOMB[-1_000:] not in place.read_bytes()
    with studio.session(tape=place, mode="replay", strict=True):
        assert send(BOMB) == 204
    with (
        pytest.raises(reenact.DivergenceError) as caught,
        studio.session(tape=place, mode="replay", strict=True),
    ):
        send(other)
    found = caught.value.divergence
    assert isinstance(found, Divergence)
    assert found.json_path == "$.request.body.digest"
