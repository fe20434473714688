"""A way between an app and its server that breaks when it is told to: in the middle of what is sent
there, of the answer, or of an event; with an end that both sides see, or with none at all."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal

import msgspec

from tests.server.fire.running import PATIENCE

Where = Literal["request", "answer", "event"]
How = Literal["closed", "silent"]


class Cut(msgspec.Struct, frozen=True):
    """Half of the piece in which ``seen`` comes by goes through, or half of the answer to it. From then
    on the connection is ``closed``, or ``silent``: open, and nothing comes out at either end."""

    seen: bytes
    where: Where
    how: How


class Wire:
    """Listens at ``url``, for a server on ``port``. Close it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._news = threading.Condition()  # covers what follows
        self._cut: Cut | None = None
        self._lines: list[_Line] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def arm(self, cut: Cut) -> None:
        """The next connection that fits is cut."""
        with self._news:
            self._cut = cut

    def was_cut(self) -> None:
        """Wait for it."""
        with self._news:
            assert self._news.wait_for(lambda: self._cut is None, PATIENCE), self._cut

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for line in self._lines:
            line.end()
        for thread in self._threads:
            thread.join()
        for line in self._lines:
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                near.close()
                continue
            line = _Line(near, far)
            self._lines.append(line)
            for pump in (self._up, self._down):
                self._threads.append(threading.Thread(target=pump, args=(line,)))
                self._threads[-1].start()

    def _up(self, line: _Line) -> None:
        while data := line.receive(line.near):
            line.pass_on(line.far, data, self._judge(line, data, "request"))
        line.end()

    def _down(self, line: _Line) -> None:
        while data := line.receive(line.far):
            line.pass_on(line.near, data, self._judge(line, data, "event"))
        line.end()

    def _judge(self, line: _Line, data: bytes, side: Literal["request", "event"]) -> How | None:
        with self._news:
            cut = self._cut
            if cut is None:
                return None
            if side == "request" and cut.where == "answer":
                line.awaits = line.awaits or cut.seen in data
                return None
            fits = cut.seen in data if cut.where != "answer" else line.awaits
            if not fits or (side == "request") != (cut.where == "request"):
                return None
            self._cut = None
            self._news.notify_all()
            return cut.how


class _Line:
    """The two ends of one connection."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far
        self.awaits = False
        self._silent = False

    def receive(self, end: socket.socket) -> bytes:
        try:
            return end.recv(1 << 16)
        except OSError:
            return b""

    def pass_on(self, end: socket.socket, data: bytes, how: How | None) -> None:
        if self._silent:
            return
        with suppress(OSError):
            end.sendall(data if how is None else data[: len(data) // 2])
        if how == "closed":
            self.end()
        self._silent = how == "silent"

    def end(self) -> None:
        for one in (self.near, self.far):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.near.close()
        self.far.close()
