"""What the server asks of others ends, in time and in size, and goes nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from reenact.errors import UsageError
from reenact.server.outgoing_http import Unreachable, check_url, send_request


class Handler(BaseHTTPRequestHandler):
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = b"x" * 1000 if self.path == "/large" else b"hello"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing to say."""


@pytest.fixture
def url() -> Iterator[str]:
    Handler.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_is_what_came(url: str) -> None:
    answer = send_request("GET", f"{url}/a?b=c", headers={})
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"hello", "5")
    assert Handler.seen == ["/a?b=c"]


def test_redirects_are_answers(url: str) -> None:
    assert send_request("GET", f"{url}/redirect", headers={}).status == 302
    assert Handler.seen == ["/redirect"]


def test_too_much_is_no_answer(url: str) -> None:
    with pytest.raises(Unreachable, match="more than 999 bytes"):
        send_request("GET", f"{url}/large", headers={}, most=999)


def test_nobody_there(url: str) -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        send_request("GET", "http://127.0.0.1:1/", headers={})


def test_headers_cannot_be_smuggled(url: str) -> None:
    with pytest.raises(Unreachable):
        send_request("GET", url, headers={"X": "a\r\nY: b"})
    assert Handler.seen == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host.example",
        "ftp://host.example",
        "https://",
        "https://host.example:0",
        "https://host.example:99999",
        "https://[::1",
        "https://a@host.example",
        "https://a:b@host.example",
        "https://host.example/#part",
        "http://host.example",
        "https://host.example/a b",
        "https://host.example/\r\nX: y",
        "https://höst.example",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid address"):
        check_url(text, "it")


@pytest.mark.parametrize(
    "text", ["https://host.example", "https://h:8443/a?b=c", "http://127.0.0.1:9", "http://[::1]:9"]
)
def test_what_is_one(text: str) -> None:
    assert check_url(text, "it") == text
