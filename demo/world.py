"""What the agent talks to: a web server on loopback that plays a model and a weather service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Message = dict[str, Any]


class World(ThreadingHTTPServer):
    """Counts what reaches it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.requests = 0
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Answers(BaseHTTPRequestHandler):
    """Chat completions, streamed; and the weather."""

    protocol_version = "HTTP/1.1"
    server: World

    def do_POST(self) -> None:
        self.server.requests += 1
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for delta in reply(asked["messages"]):
            self._chunk(f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n")
        self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text.encode()))

    def do_GET(self) -> None:
        self.server.requests += 1
        body = json.dumps({"city": self.path.rpartition("/")[2], "celsius": 21}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def reply(messages: list[Message]) -> Iterator[Message]:
    """A model that looks up the weather first, and then answers word by word."""
    last = messages[-1]
    if last["role"] == "user":
        function = {"name": "weather", "arguments": '{"city": "Bern"}'}
        yield {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
        return
    celsius = json.loads(last["content"])["celsius"]
    for word in ("Yes", ",", " it", " is", f" {celsius}", " degrees", "."):
        yield {"content": word}
