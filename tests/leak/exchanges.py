"""HTTP exchanges with a secret in every place that HTTP has, a server for them, and clients."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import httpx
import requests
import urllib3

from tests.leak.planted import Plant, known_value, plant_name, plant_shape

__all__ = ["CLIENTS", "Answer", "Exchange", "Server", "exchanges"]

Headers = tuple[tuple[str, str], ...]
NAMED = ("password", "api_key", "access_token", "client_secret")
SHAPED = ("shape.github", "shape.openai", "shape.jwt", "shape.anthropic")


@dataclass(frozen=True)
class Answer:
    """What the server says. More than one piece is sent in chunks."""

    status: int = 200
    headers: Headers = ()
    pieces: tuple[bytes, ...] = (b"fine",)


@dataclass(frozen=True)
class Exchange:
    """One request and its answer; ``plants`` are the secrets in it."""

    place: str
    plants: list[Plant]
    target: str = "/"
    method: str = "GET"
    headers: Headers = ()
    body: bytes | None = None
    answer: Answer = field(default_factory=Answer)


# Places


def exchanges() -> Iterator[Exchange]:
    """In the request, then in the answer; by name, by shape, and declared."""
    for name in NAMED:
        for place, make in _NAMED_REQUESTS.items():
            plant = plant_name(name, place)
            yield make(f"{name} {place}", plant, name)
        for place, answer in _NAMED_ANSWERS.items():
            plant = plant_name(name, place)
            yield Exchange(f"{name} {place}", [plant], answer=answer(name, plant.text))
    for kind in SHAPED:
        for place, shaped in _SHAPED_REQUESTS.items():
            yield shaped(f"{kind} {place}", plant_shape(kind, place))
        for place, answers in _SHAPED_ANSWERS.items():
            plant = plant_shape(kind, place)
            yield Exchange(f"{kind} {place}", [plant], answer=answers(plant.text))
    plant = known_value("declared", "http")
    body = f"it is {plant.text}".encode()
    yield Exchange(
        "declared", [plant], method="POST", body=body, answer=Answer(pieces=(body + b".",))
    )


def _post(kind: str, body: bytes, **headers: str) -> dict[str, Any]:
    more = tuple((key.replace("_", "-"), value) for key, value in headers.items())
    return {"method": "POST", "headers": (("Content-Type", kind), *more), "body": body}


def _parts(name: str, value: str) -> bytes:
    head = f'--limit\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
    return f"{head}--limit--\r\n".encode()


_FORM = "application/x-www-form-urlencoded"
_NAMED_REQUESTS: dict[str, Callable[[str, Plant, str], Exchange]] = {
    "in a header": lambda place, p, n: Exchange(
        place, [p], headers=((n.replace("_", "-"), p.text), ("X-Other", "1"))
    ),
    "in a cookie": lambda place, p, n: Exchange(
        place, [p], headers=(("Cookie", f"theme=dark; {n}={p.text}"),)
    ),
    "in the query": lambda place, p, n: Exchange(place, [p], target=f"/a?b=1&{n}={quote(p.text)}"),
    "in JSON": lambda place, p, n: Exchange(
        place, [p], **_post("application/json", json.dumps({"a": [{n: p.text}]}).encode())
    ),
    "in a form": lambda place, p, n: Exchange(
        place, [p], **_post(_FORM, f"a=1&{n}={quote(p.text)}".encode())
    ),
    "in a part": lambda place, p, n: Exchange(
        place, [p], **_post("multipart/form-data; boundary=limit", _parts(n, p.text))
    ),
    "in packed JSON": lambda place, p, n: Exchange(
        place,
        [p],
        **_post(
            "application/json",
            gzip.compress(json.dumps({n: p.text}).encode()),
            Content_Encoding="gzip",
        ),
    ),
}

_SHAPED_REQUESTS: dict[str, Callable[[str, Plant], Exchange]] = {
    "in a header": lambda place, p: Exchange(place, [p], headers=(("X-Custom", p.text),)),
    "in Authorization": lambda place, p: Exchange(
        place, [p], headers=(("Authorization", f"Bearer {p.text}"),)
    ),
    "in the path": lambda place, p: Exchange(place, [p], target=f"/v1/{quote(p.text)}/x"),
    "in the query": lambda place, p: Exchange(place, [p], target=f"/?q={quote(p.text)}"),
    "in text": lambda place, p: Exchange(
        place, [p], **_post("text/plain", f"I used {p.text} here".encode())
    ),
    "in bytes": lambda place, p: Exchange(
        place, [p], **_post("application/octet-stream", b"\xff\x00 " + p.text.encode() + b" \xff")
    ),
    "in a file": lambda place, p: Exchange(
        place, [p], **_post("multipart/form-data; boundary=limit", _parts("file", p.text))
    ),
}


def _json(name: str, value: str) -> bytes:
    return json.dumps({"a": 1, "inner": [{name: value}]}).encode()


def _raw_deflate(text: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush()


_NAMED_ANSWERS: dict[str, Callable[[str, str], Answer]] = {
    "in a header back": lambda n, s: Answer(headers=((f"X-{n.replace('_', '-')}", s),)),
    "in a cookie back": lambda n, s: Answer(
        headers=(("Set-Cookie", f"{n}={s}; Path=/; HttpOnly"), ("Set-Cookie", "a=b"))
    ),
    "in JSON back": lambda n, s: Answer(pieces=(_json(n, s),)),
    "in an error back": lambda n, s: Answer(status=401, pieces=(_json(n, s),)),
    "in packed JSON back": lambda n, s: Answer(
        headers=(("Content-Encoding", "gzip"),), pieces=(gzip.compress(_json(n, s)),)
    ),
    "in deflated JSON back": lambda n, s: Answer(
        headers=(("Content-Encoding", "deflate"),), pieces=(zlib.compress(_json(n, s)),)
    ),
}

_SHAPED_ANSWERS: dict[str, Callable[[str], Answer]] = {
    "in text back": lambda s: Answer(pieces=(f"use {s} now".encode(),)),
    "in bytes back": lambda s: Answer(pieces=(b"\xff\x00 " + s.encode() + b" \xff",)),
    "in a reason back": lambda s: Answer(headers=(("X-Why", s),)),
    "in two chunks": lambda s: Answer(
        headers=(("Content-Type", "text/event-stream"),),
        pieces=(f"data: {s[:20]}".encode(), f"{s[20:]}\n\n".encode()),
    ),
    "in two packed chunks": lambda s: _halved(gzip.compress(f"data: {s}\n\n".encode()), "gzip"),
    "in a second member": lambda s: Answer(
        headers=(("Content-Encoding", "gzip"),),
        pieces=(gzip.compress(b"first "), gzip.compress(s.encode())),
    ),
    "deflated without a header": lambda s: Answer(
        headers=(("Content-Encoding", "deflate"),), pieces=(_raw_deflate(f"x {s}".encode()),)
    ),
}


def _halved(body: bytes, coding: str) -> Answer:
    middle = len(body) // 2
    return Answer(headers=(("Content-Encoding", coding),), pieces=(body[:middle], body[middle:]))


# The server


class Server:
    """Answers on the loopback what is asked for by number; serves as a proxy, too."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self._answers = answers
        server = self
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
        self._http.daemon_threads = True
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever)

    def answer(self, number: str) -> Answer:
        return self._answers.get(number, Answer())

    def url(self, exchange: Exchange, number: int) -> str:
        mark = "&" if "?" in exchange.target else "?"
        return f"http://127.0.0.1:{self.port}{exchange.target}{mark}number={number}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = dict(
                pair.split("=", 1) for pair in urlsplit(self.path).query.split("&") if "=" in pair
            )
            answer = server.answer(query.get("number", ""))
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self._say(answer.pieces)

        do_POST = do_GET

        def _say(self, pieces: tuple[bytes, ...]) -> None:
            self.send_header("Connection", "close")
            if len(pieces) == 1:
                self.send_header("Content-Length", str(len(pieces[0])))
                self.end_headers()
                self.wfile.write(pieces[0])
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (*pieces, b""):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


# Clients

Client = Callable[[str, str, Headers, bytes | None], tuple[int, bytes]]


def _httpx(method: str, url: str, headers: Headers, body: bytes | None) -> tuple[int, bytes]:
    with (
        httpx.Client(trust_env=False, verify=False) as client,
        client.stream(method, url, headers=list(headers), content=body) as response,
    ):
        return response.status_code, b"".join(response.iter_bytes())


def _requests(method: str, url: str, headers: Headers, body: bytes | None) -> tuple[int, bytes]:
    with requests.Session() as session:
        session.trust_env = False
        response = session.request(method, url, headers=dict(headers), data=body)
        return response.status_code, response.content


def _urllib3(method: str, url: str, headers: Headers, body: bytes | None) -> tuple[int, bytes]:
    with urllib3.PoolManager() as pool:
        response = pool.request(
            method, url, headers=dict(headers), body=body, preload_content=False
        )
        content = b"".join(response.stream(decode_content=True))
        response.release_conn()
        return response.status, content


def _stdlib(method: str, url: str, headers: Headers, body: bytes | None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, body, dict(headers), method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, _plain(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _plain(error)


def _plain(response: Any) -> bytes:
    """This client leaves the content coding to the program."""
    coding = response.headers.get("Content-Encoding")
    content: bytes = response.read()
    if coding == "gzip":
        return gzip.decompress(content)
    if coding is None:
        return content
    return zlib.decompress(content, 15 if content[:1] == b"\x78" else -15)


def _aiohttp(method: str, url: str, headers: Headers, body: bytes | None) -> tuple[int, bytes]:
    async def ask() -> tuple[int, bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, headers=list(headers), data=body) as response,
        ):
            return response.status, await response.read()

    return asyncio.run(ask())


CLIENTS: dict[str, Client] = {
    "httpx": _httpx,
    "requests": _requests,
    "urllib3": _urllib3,
    "urllib.request": _stdlib,
    "aiohttp": _aiohttp,
}
