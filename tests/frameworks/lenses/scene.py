"""A server that always says the same, and the words in which an answer is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

__all__ = ["TOOL", "Saw", "Server", "known"]

TOOL = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


class Saw(NamedTuple):
    """What a side saw of an answer, in the same words."""

    text: str
    calls: list[Any]
    reason: str | None
    usage: dict[str, int]
    reasoning: list[Any]
    id: str
    model: str


def known(**counts: Any) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count is not None}


class Server:
    """Answers every request with the same bytes, and remembers the last one."""

    def __init__(self, kind: str, body: bytes, status: int = 200) -> None:
        self.kind, self.body, self.status = kind, body, status
        self.path, self.sent = "", b""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.path = self.path
                server.sent = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(server.status)
                self.send_header("content-type", server.kind)
                self.send_header("content-length", str(len(server.body)))
                self.end_headers()
                self.wfile.write(server.body)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._http.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            thread.join()
            self._http.server_close()
