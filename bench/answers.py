"""A web server on loopback that gives prepared answers: ``python -m bench.answers FILE``.

FILE maps a path to ``[headers, body]``. The port is the first line on stdout.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def handler(answers: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            headers, text = answers[self.path]
            body = text.encode()
            self.send_response_only(200)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    return Answers


def main() -> None:
    answers = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(answers))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
