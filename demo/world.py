"""Web server on loopback that plays two models, a weather service, a restaurant and a bank."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Message = dict[str, Any]

WORDS = {
    "small-1": "Yes, it is 21 degrees. A table for two is booked.",
    "large-1": "It is 21 degrees in Bern, so I have booked a table outside for two. Bring a hat!",
}


class World(ThreadingHTTPServer):
    """Counts what reaches it: ``requests``, the ``tables`` that were booked, the ``payments`` made."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.requests = 0
        self.tables = 0
        self.payments = 0
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Answers(BaseHTTPRequestHandler):
    """Chat completions, streamed; tables; payments; and the weather."""

    protocol_version = "HTTP/1.1"
    server: World

    def do_POST(self) -> None:
        self.server.requests += 1
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tables":
            self.server.tables += 1
            self._say({"table": self.server.tables, **asked})
        elif self.path == "/payments":
            self.server.payments += 1
            self._say({"receipt": self.server.payments, **asked})
        else:
            self._stream(asked["model"], asked["messages"])

    def _stream(self, model: str, messages: list[Message]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for choice in reply(model, messages):
            self._chunk(f"data: {json.dumps({'model': model, 'choices': [choice]})}\n\n")
        self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text.encode()))

    def do_GET(self) -> None:
        self.server.requests += 1
        self._say({"city": self.path.rpartition("/")[2], "celsius": 21})

    def _say(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def reply(model: str, messages: list[Message]) -> Iterator[Message]:
    """A model that looks up the weather, books a table, and then answers word by word."""
    used = sum(message["role"] == "tool" for message in messages)
    if used == 0:
        yield _tool("weather", city="Bern")
    elif used == 1:
        yield _tool("book", city="Bern", people=2)
    else:
        for number, word in enumerate(WORDS[model].split(" ")):
            yield _choice({"content": f" {word}" if number else word})
        yield _choice({}, "stop")


def _tool(name: str, **arguments: Any) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call_{name}", "type": "function", "function": function}
    return _choice({"tool_calls": [call]}, "tool_calls")


def _choice(delta: Message, end: str | None = None) -> Message:
    return {"index": 0, "delta": delta, "finish_reason": end}
