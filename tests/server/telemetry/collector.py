"""A place that takes OTLP: a real HTTP server, which answers as it is told."""

from __future__ import annotations

import gzip
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from reenact.interop.otel import Group
from reenact.interop.otel_protobuf import read_protobuf


class Collector:
    """``answers`` are given in turn, then 200. ``requests`` are headers and what was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: queue.SimpleQueue[tuple[int, dict[str, str]]] = queue.SimpleQueue()
        self.arrived = threading.Event()
        self.requests: list[tuple[str, dict[str, str], tuple[Group, ...]]] = []

    @property
    def groups(self) -> list[Group]:
        return [group for _, _, groups in self.requests for group in groups]


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received = read_protobuf(gzip.decompress(data))
            assert received.refused == ()
            collector.requests.append((self.path, headers, received.groups))
            collector.arrived.set()
            try:
                status, more = collector.answers.get_nowait()
            except queue.Empty:
                status, more = 200, {}
            self.send_response(status)
            for name, value in {"Content-Length": "0", **more}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
