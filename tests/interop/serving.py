"""A server on the loopback whose answers have what cassettes get wrong, and clients that ask it."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import requests
import urllib3

__all__ = ["CLIENTS", "REQUESTS", "Asker", "serving"]

Answer = tuple[int, list[str], bytes]
"""Status, the values of the header that comes twice, and the body as a program gets it."""

Asker = Callable[[str, str, dict[str, Any] | None], Answer]

REQUESTS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/json?b=2&a=1", None),
    ("POST", "/echo", {"prompt": "é", "n": 1}),
    ("POST", "/echo", {"prompt": "another", "n": 2}),
    ("GET", "/gzip", None),
    ("GET", "/binary", None),
    ("GET", "/missing", None),
    ("GET", "/empty", None),
    ("GET", "/json?b=2&a=1", None),
]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server: Any = self.server
        server.asked += 1
        status, body, headers = 200, json.dumps({"number": server.asked}).encode(), []
        match urlsplit(self.path).path:
            case "/echo":
                body = b'{"echo":' + asked + b"}"
            case "/gzip":
                headers = [("Content-Encoding", "gzip")]
                body = gzip.compress(b"zipped " * 50, mtime=0)
            case "/binary":
                body = bytes(range(256))
            case "/missing":
                status = 404
            case "/empty":
                status, body = 204, b""
        self.send_response(status)
        for name, value in [("X-Twice", "one"), ("X-Twice", "two"), *headers]:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def serving() -> Iterator[Any]:
    """The server; ``asked`` is how many requests have come, ``url`` where it is."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.asked = 0
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _httpx(method: str, url: str, value: dict[str, Any] | None) -> Answer:
    with httpx.Client(trust_env=False) as client:
        answer = client.request(method, url, json=value)
    return answer.status_code, answer.headers.get_list("x-twice"), answer.content


def _requests(method: str, url: str, value: dict[str, Any] | None) -> Answer:
    with requests.Session() as session:
        session.trust_env = False
        answer = session.request(method, url, json=value)
        return answer.status_code, answer.raw.headers.getlist("X-Twice"), answer.content


def _urllib3(method: str, url: str, value: dict[str, Any] | None) -> Answer:
    with urllib3.PoolManager() as pool:
        answer = pool.request(method, url, json=value)
    return answer.status, answer.headers.getlist("X-Twice"), answer.data


def _standard(method: str, url: str, value: dict[str, Any] | None) -> Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    body = None if value is None else json.dumps(value).encode()
    headers = {} if value is None else {"Content-Type": "application/json"}
    connection.request(method, url.removeprefix(f"http://{parts.netloc}"), body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    coded = answer.headers.get("Content-Encoding") == "gzip"
    content = gzip.decompress(content) if coded else content
    return answer.status, answer.headers.get_all("X-Twice") or [], content


def _aiohttp(method: str, url: str, value: dict[str, Any] | None) -> Answer:
    async def ask() -> Answer:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, json=value) as answer,
        ):
            return answer.status, answer.headers.getall("X-Twice"), await answer.read()

    return asyncio.run(ask())


CLIENTS: dict[str, Asker] = {
    "httpx": _httpx,
    "requests": _requests,
    "urllib3": _urllib3,
    "http.client": _standard,
    "aiohttp": _aiohttp,
}
