"""The world outside of the tests of a small project: a server that answers and remembers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["World"]


class World:
    """Answers ``GET`` and ``POST`` with the path, the same each time. ``asked`` are the paths."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                sent = self.rfile.read(size).decode()
                world.asked.append(self.path)
                answer = json.dumps({"path": self.path.partition("?")[0], "sent": sent}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET

            def log_message(self, *words: Any) -> None:
                pass

            def date_time_string(self, timestamp: float | None = None) -> str:
                return "Mon, 01 Jan 2024 00:00:00 GMT"

        return Handler

    def news(self) -> list[str]:
        """What was asked since the last time, without what came after a question mark; sorted."""
        found, self.asked = self.asked, []
        return sorted(path.partition("?")[0] for path in found)

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
