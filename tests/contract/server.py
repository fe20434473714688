"""A small HTTP/1.1 server for the contract: it says byte for byte what goes over the wire.

It keeps a journal of what it was asked. No two answers are alike: each carries the number of its
request. ``begin_act`` starts the numbers again, so that the same program gets the same answers.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["Asked", "Exchange", "Gate", "Gone", "Handler", "Server"]

_PATIENCE = 30
"""Seconds until the server gives up on a test that does not go on."""


class Gone(Exception):
    """The client, or the act, is over: nobody waits for the rest of the answer."""


@dataclass(frozen=True)
class Asked:
    """One request: its number, on which connection it came, and what it said."""

    number: int
    connection: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        return next((value for key, value in self.headers if key.lower() == name), None)


class Gate:
    """Holds the server back until the program has seen what was sent before."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._opened = 0
        self._over = False

    def open(self) -> None:
        """Let one answer, or one piece of it, pass."""
        with self._changed:
            self._opened += 1
            self._changed.notify_all()

    def end(self) -> None:
        """Whoever waits, waits in vain."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def passed(self) -> None:
        """Wait until somebody lets us pass. Raises :class:`Gone` when nobody will."""
        with self._changed:
            self._changed.wait_for(lambda: self._opened or self._over, _PATIENCE)
            if self._opened == 0:
                raise Gone
            self._opened -= 1

    def until(self, ready: Callable[[], bool], note: Callable[[], None]) -> None:
        """Do ``note``, then wait until everybody's notes make it ``ready``."""
        with self._changed:
            note()
            self._changed.notify_all()
            self._changed.wait_for(lambda: ready() or self._over, _PATIENCE)
            if not ready():
                raise Gone


@dataclass
class Act:
    """What belongs to one run of a program."""

    gate: Gate = field(default_factory=Gate)
    journal: list[Asked] = field(default_factory=list)
    notes: dict[str, list[Any]] = field(default_factory=dict)
    """What handlers of one act remember of each other."""


class Exchange:
    """One request in the hands of a handler."""

    def __init__(self, connection: socket.socket, asked: Asked, act: Act) -> None:
        self.asked = asked
        self.act = act
        self.gate = act.gate
        self._connection = connection
        parts = urlsplit(asked.target)
        self.path = parts.path
        self._query = parse_qs(parts.query)

    @property
    def number(self) -> str:
        """The number of the request; always six digits, so that lengths do not differ."""
        return f"{self.asked.number:06d}"

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the URL."""
        return self._query.get(name, [default])[0]

    def send(self, data: bytes) -> None:
        """To the client, as it is and at once."""
        self._connection.sendall(data)

    def chunk(self, data: bytes) -> None:
        """A piece of a chunked body."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def head(self, status: str, *headers: tuple[str, str], version: str = "HTTP/1.1") -> None:
        """The head of an answer; ``status`` with its reason."""
        own = ("X-Number", self.number)
        lines = [f"{version} {status}", *(f"{name}: {value}" for name, value in (own, *headers))]
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def answer(self, status: str, body: bytes, *headers: tuple[str, str]) -> None:
        """All of an answer; its body is left out where the method says so."""
        self.head(status, *headers, ("Content-Length", str(len(body))))
        if self.asked.method != "HEAD":
            self.send(body)

    def never(self) -> None:
        """Say nothing any more, until the client goes."""
        while self._connection.recv(1024):
            pass
        raise Gone


Handler = Callable[[Exchange], None]


class _Closed(Exception):
    """The client has closed the connection."""


class _NotHttp(Exception):
    """The client says hello in another language."""


class Server:
    """Serves on a free port of 127.0.0.1 until it is stopped."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers
        self._lock = threading.Lock()
        self._act = Act()
        self._open: dict[socket.socket, threading.Thread] = {}
        self.connections = 0
        """How many were accepted, ever."""
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._acceptor = threading.Thread(target=self._accept, name="server", daemon=True)
        self._acceptor.start()

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def journal(self) -> list[Asked]:
        """What was asked in this act."""
        return self._act.journal

    @property
    def gate(self) -> Gate:
        return self._act.gate

    def begin_act(self) -> None:
        """Close every connection and start again from number 1."""
        self._hang_up()
        with self._lock:
            self._act = Act()

    def stop(self) -> None:
        """Nobody answers at this address any more."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._socket.close()
        self._hang_up()

    def _hang_up(self) -> None:
        self._act.gate.end()
        with self._lock:
            left = list(self._open.items())
        for connection, thread in left:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client was faster
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                work = (connection, self.connections)
                thread = threading.Thread(target=self._serve, args=work, daemon=True)
                self._open[connection] = thread
                thread.start()  # before anybody can join it

    def _serve(self, connection: socket.socket, number: int) -> None:
        lines = connection.makefile("rb")
        try:
            while self._exchange(connection, lines, number):
                pass
        except (OSError, Gone, _Closed):
            pass  # the usual ends of a connection
        finally:
            with self._lock:
                del self._open[connection]
            lines.close()
            connection.close()

    def _exchange(self, connection: socket.socket, lines: Any, number: int) -> bool:
        """One request and its answer. May another one follow on this connection?"""
        try:
            method, target, headers, body = _read(lines)
        except _NotHttp:
            connection.sendall(b"HTTP/1.1 400 What?\r\nConnection: close\r\n\r\n")
            return False
        with self._lock:
            act = self._act
            asked = Asked(len(act.journal) + 1, number, method, target, headers, body)
            act.journal.append(asked)
        exchange = Exchange(connection, asked, act)
        name = "/" + exchange.path.split("/")[1]
        self._handlers[name](exchange)
        return (asked.header("connection") or "").lower() != "close"


def _read(lines: Any) -> tuple[str, str, tuple[tuple[str, str], ...], bytes]:
    first = lines.readline().decode("latin-1").split()
    if not first:
        raise _Closed
    if len(first) != 3 or not first[2].startswith("HTTP/"):
        raise _NotHttp
    headers = []
    while (line := lines.readline().decode("latin-1").rstrip("\r\n")) != "":
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    said = {name.lower(): value for name, value in headers}
    if said.get("transfer-encoding", "").lower() == "chunked":
        body = _read_chunks(lines)
    else:
        body = lines.read(int(said.get("content-length", "0")))
    return first[0], first[1], tuple(headers), body


def _read_chunks(lines: Any) -> bytes:
    body = b""
    while size := int(lines.readline().split(b";")[0] or b"0", 16):
        body += lines.read(size)
        lines.readline()
    while lines.readline().strip():
        pass
    return body
