"""A web server on loopback that gives prepared answers: ``python -m bench.answers FILE``.

FILE maps a path to ``[headers, body]``, where the body may be a list: pieces, of which all but the
first are sent a little later. The port is the first line on stdout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import sleep
from typing import Any

Answer = tuple[list[list[str]], str | list[str]]
"""Headers and body."""

PAUSE = 0.02
"""Seconds between the first piece of an answer and the others."""


@contextmanager
def serving(folder: Path, answers: Mapping[str, Answer]) -> Iterator[str]:
    """The address of a server in a process of its own, so that only the client's time counts."""
    script = folder / "answers.json"
    script.write_text(json.dumps(answers), encoding="utf-8")
    command = [sys.executable, "-m", "bench.answers", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as server:
        try:
            if server.stdout is None:
                raise AssertionError("no pipe")
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def handler(answers: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            headers, body = answers[self.path]
            self.send_response_only(200)
            for name, value in headers:
                self.send_header(name, value)
            if isinstance(body, list):
                self._send_pieces(body)
            else:
                self.send_header("content-length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

        def _send_pieces(self, pieces: list[str]) -> None:
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for number, piece in enumerate(pieces):
                if number == 1:
                    sleep(PAUSE)
                encoded = piece.encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(encoded), encoded))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    return Answers


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # many clients connect at the same moment


def main() -> None:
    answers = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    server = _Server(("127.0.0.1", 0), handler(answers))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
