"""A server that speaks the agent protocol on a real socket, and misbehaves when it is told to."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import ssl
import threading
from base64 import b64decode
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from reenact.audit.keys import Signer
from reenact.exchange.command_signature import sign
from reenact.exchange.model import Command, Payload, ReplaySource
from reenact.exchange.payload import payload_digest

PATIENCE = 30.0
TENANT = "acme"
SIGNER = Signer("test.example/commands", bytes(range(32)))
KEY = "rnk_agent_" + "k" * 32


@dataclass
class Fault:
    """How one request is answered instead. ``cut`` closes the connection after so many bytes."""

    status: int = 500
    code: str = "scripted"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None
    after: bool = False
    """Do what was asked for first."""


class ProtocolServer:
    """Started and stopped with ``with``. What came is in its lists; wait for it with ``until``."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.changed = threading.Condition()
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        self.requests: list[tuple[str, str]] = []
        self.registrations: list[dict[str, Any]] = []
        self.heartbeats: list[dict[str, Any]] = []
        self.goodbyes: list[str] = []
        self.exchanges: dict[str, dict[str, Any]] = {}
        self.blobs: dict[str, bytes] = {}
        self.ingested: list[str] = []
        """Every exchange that came, each time it came."""
        self.batches: list[int] = []
        self.refuse: dict[str, str] = {}
        self.states: list[tuple[str, str, str]] = []
        self.sources: dict[str, ReplaySource] = {}
        self.recordings: dict[str, bytes] = {}
        self.epochs: dict[str, int] = defaultdict(int)
        self.last_event_ids: list[str] = []
        self.streams: dict[str, int] = {}
        self.connections = 0
        self.heartbeat_seconds = 15.0
        self.max_batch_bytes = 16 << 20
        self.command_key = SIGNER.key.to_text()
        self.retry = 10
        self.closing = False
        self._outbox: list[tuple[str, str, str]] = []
        self._number = 0
        self._sockets: set[socket.socket] = set()
        self._http: _Http | None = None
        self._thread: threading.Thread | None = None
        self.port = 0

    # Life

    def __enter__(self) -> ProtocolServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """On the port that it had before, if it had one."""
        self.closing = False
        self._http = _Http(("127.0.0.1", self.port), self)
        self.port = self._http.server_address[1]
        if self._tls is not None:
            self._http.socket = self._tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        """As a crash: connections are cut, nothing is said."""
        assert self._http is not None
        assert self._thread is not None
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self._http.shutdown()
        self._thread.join()
        self.cut_all()
        self._http.server_close()

    def cut_all(self) -> None:
        with self.changed:
            sockets = list(self._sockets)
        for sock in sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def opened(self, sock: socket.socket) -> None:
        with self.changed:
            self.connections += 1
            self._sockets.add(sock)

    def closed(self, sock: socket.socket) -> None:
        with self.changed:
            self._sockets.discard(sock)

    # Waiting

    def until(self, holds: Callable[[], Any]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, PATIENCE), self._story()

    def _story(self) -> str:
        return json.dumps(
            {"requests": self.requests[-20:], "states": self.states, "stored": list(self.exchanges)}
        )

    def says(self, replay: str) -> list[tuple[str, str]]:
        return [(state, code) for one, state, code in self.states if one == replay]

    def until_state(self, replay: str, state: str) -> None:
        self.until(lambda: any(one == state for one, _ in self.says(replay)))

    # Commands

    def send(self, event: str, data: str = "{}") -> None:
        """Put an event into every stream."""
        with self.changed:
            self._number += 1
            self._outbox.append((str(self._number), event, data))
            self.changed.notify_all()

    def forget_all(self) -> None:
        """Commands that were given are not given again."""
        with self.changed:
            self._outbox.clear()

    def order(self, agent: str, replay: str, **changes: Any) -> Command:
        """A signed command to replay ``replay``, whose source is known here."""
        payload = Payload(properties={"n": 1})
        self.sources.setdefault(replay, ReplaySource(payload=payload))
        number = len(self.sources) + self._number
        values: dict[str, Any] = {
            "command_id": f"cmd-{replay}-{number}",
            "replay_id": replay,
            "tenant": TENANT,
            "agent_id": agent,
            "issued_at": 1_700_000_000_000,
            "expires_at": 4_000_000_000_000,
            "nonce": f"nonce-{replay}-{number}",
            "source_exchange_id": "ex-source",
            "route_id": "orders",
            "boundaries": "live" if self.sources[replay].recording is None else "recorded",
            "payload_digest": payload_digest(self.sources[replay].payload),
        }
        return sign(Command(**{**values, **changes}), SIGNER)

    def give(self, command: Command) -> Command:
        self.send(command.type, msgspec.json.encode(command).decode())
        return command

    def events_after(self, number: int) -> list[tuple[str, str, str]]:
        return [one for one in self._outbox if int(one[0]) > number]

    # Answers

    def fail(self, what: str, *faults: Fault) -> None:
        """The next requests of ``what`` (``ingest``, ``agents``, ``heartbeat`` …) go wrong so."""
        with self.changed:
            self.faults[what].extend(faults)

    def fault(self, what: str) -> Fault | None:
        with self.changed:
            return self.faults[what].popleft() if self.faults[what] else None

    def note(self, change: Callable[[], Any]) -> None:
        with self.changed:
            change()
            self.changed.notify_all()

    def register(self, body: dict[str, Any]) -> dict[str, Any]:
        agent = body["agentId"]
        self.note(lambda: self.registrations.append(body))
        self.epochs[agent] += 1
        return {
            "agentId": agent,
            "tenant": TENANT,
            "epoch": self.epochs[agent],
            "commandKey": self.command_key,
            "heartbeatSeconds": self.heartbeat_seconds,
            "maxBatchBytes": self.max_batch_bytes,
        }

    def ingest(self, lines: Iterable[bytes]) -> list[dict[str, str]]:
        results = []
        with self.changed:
            for line in lines:
                value = json.loads(line)
                if "blob" in value:
                    content = b64decode(value["blob"]["base64"])
                    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
                    assert digest == value["blob"]["digest"]
                    self.blobs[digest] = content
                else:
                    results.append(self._store(value["exchange"]))
            self.batches.append(len(results))
            self.changed.notify_all()
        return results

    def _store(self, exchange: dict[str, Any]) -> dict[str, str]:
        name = exchange["exchangeId"]
        self.ingested.append(name)
        if name in self.refuse:
            return {
                "exchangeId": name,
                "status": "refused",
                "code": self.refuse[name],
                "message": "scripted",
            }
        if name in self.exchanges:
            assert self.exchanges[name] == exchange
            return {"exchangeId": name, "status": "duplicate"}
        recording = exchange.get("recording")
        assert recording is None or recording["digest"] in self.blobs
        self.exchanges[name] = exchange
        return {"exchangeId": name, "status": "stored"}


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], script: ProtocolServer) -> None:
        self.script = script
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that was cut is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def setup(self) -> None:
        super().setup()
        self.script = self.server.script
        self.script.opened(self.connection)

    def finish(self) -> None:
        self.script.closed(self.connection)
        super().finish()

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._handle(b"")

    def do_DELETE(self) -> None:
        self._handle(b"")

    def do_POST(self) -> None:
        self._handle(self.rfile.read(int(self.headers["Content-Length"])))

    def _handle(self, body: bytes) -> None:
        url = urlsplit(self.path)
        assert self.headers["Authorization"] == f"Bearer {KEY}"
        self.script.note(lambda: self.script.requests.append((self.command, url.path)))
        parts = url.path.removeprefix("/api/v1/").split("/")
        what = (
            parts[-1] if len(parts) > 2 else ("goodbye" if self.command == "DELETE" else parts[0])
        )
        fault = self.script.fault(what)
        if fault is not None and not fault.after:
            self._go_wrong(fault)
            return
        answer = getattr(self, f"_{what}")(parts, parse_qs(url.query), body)
        if fault is not None:
            self._go_wrong(fault)
        elif answer is not None:
            self._answer(*answer)

    def _go_wrong(self, fault: Fault) -> None:
        error = {"error": {"code": fault.code, "message": "scripted"}}
        body = fault.body if fault.body is not None else json.dumps(error).encode()
        if fault.cut is not None:
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body) + 100}\r\n\r\n".encode()
            self.wfile.write((head + body)[: fault.cut])
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(fault.status, body, fault.headers)

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # The routes

    def _agents(self, parts: Any, query: Any, body: bytes) -> Any:
        return 200, json.dumps(self.script.register(json.loads(body))).encode()

    def _heartbeat(self, parts: Any, query: Any, body: bytes) -> Any:
        self.script.note(lambda: self.script.heartbeats.append(json.loads(body)))
        return (204,)

    def _goodbye(self, parts: Any, query: Any, body: bytes) -> Any:
        self.script.note(lambda: self.script.goodbyes.append(parts[1]))
        return (204,)

    def _ingest(self, parts: Any, query: Any, body: bytes) -> Any:
        assert self.headers["Content-Encoding"] == "gzip"
        results = self.script.ingest(gzip.decompress(body).splitlines())
        return 200, json.dumps({"results": results}).encode()

    def _source(self, parts: Any, query: Any, body: bytes) -> Any:
        source = self.script.sources.get(parts[3])
        return (404,) if source is None else (200, msgspec.json.encode(source))

    def _recording(self, parts: Any, query: Any, body: bytes) -> Any:
        return 200, self.script.recordings[parts[3]]

    def _state(self, parts: Any, query: Any, body: bytes) -> Any:
        said = json.loads(body)
        heard = (parts[3], said["state"], said.get("code", ""))
        self.script.note(lambda: self.script.states.append(heard))
        return (204,)

    def _commands(self, parts: Any, query: Any, body: bytes) -> None:
        script, agent = self.script, parts[1]
        last = self.headers.get("Last-Event-ID", "")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(f": hello\nretry: {script.retry}\n\n")
        with script.changed:
            script.last_event_ids.append(last)
            script.streams[agent] = mine = script.streams.get(agent, 0) + 1
            script.changed.notify_all()
        self._follow(agent, mine, int(last or 0))
        self.close_connection = True

    def _follow(self, agent: str, mine: int, seen: int) -> None:
        script = self.script
        while True:
            with script.changed:
                if not (
                    script.closing or script.streams[agent] != mine or script.events_after(seen)
                ):
                    script.changed.wait(0.05)
                events, over = script.events_after(seen), script.closing
                newer = script.streams[agent] != mine
            if newer or over:
                return
            for number, event, data in events:
                seen = int(number)
                self._chunk(f"id: {number}\nevent: {event}\ndata: {data}\n\n")
                if event == "drain":
                    self.wfile.write(b"0\r\n\r\n")
                    return
            if not events:
                self._chunk(": ping\n\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
