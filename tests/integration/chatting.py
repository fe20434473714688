"""A real websocket server on the loopback, which says and does what its paths are called."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

__all__ = ["Chat"]

SUBPROTOCOL = Subprotocol("chat.v2")


class Chat:
    """Runs from ``start`` to ``stop``. ``opened`` counts connections, ``heard`` is every message."""

    def __init__(self) -> None:
        self.opened = 0
        self.heard: list[str | bytes] = []
        self.lost = threading.Event()
        """The silent path has seen its client go."""
        self.go = threading.Event()
        """What the path ``late`` waits for."""
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._port = 0

    def start(self) -> None:
        self._server = serve(
            self._talk,
            "127.0.0.1",
            0,
            process_request=self._check,
            select_subprotocol=_choose,
        )
        self._port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        """Nobody listens any more."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.shutdown()
            thread.join()

    def url(self, path: str, credentials: str = "") -> str:
        return f"ws://{credentials}127.0.0.1:{self._port}/{path}"

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        self.opened += 1
        path = urlsplit(request.path).path
        if path == "/refuse":
            headers = Headers([("X-Reason", "closed today"), ("Content-Length", "9")])
            return Response(HTTPStatus.FORBIDDEN, "Forbidden", headers, b"not today")
        if path == "/moved":
            return Response(HTTPStatus.FOUND, "Found", Headers([("Location", "/echo")]))
        if path == "/busy" and self.opened == 1:
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, "Busy", Headers())
        return None

    def _talk(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        parts = urlsplit(connection.request.path)
        talk = getattr(self, f"_{parts.path.strip('/')}")
        try:
            talk(connection, **dict(parse_qsl(parts.query)))
        except ConnectionClosed:
            pass

    def _messages(self, connection: ServerConnection, act: Callable[[Any], None]) -> None:
        for message in connection:
            self.heard.append(message)
            act(message)

    def _echo(self, connection: ServerConnection, **_: str) -> None:
        self._messages(connection, connection.send)

    _busy = _echo

    def _json(self, connection: ServerConnection) -> None:
        """Numbers its answers."""
        count = iter(range(1, 1000))
        self._messages(
            connection,
            lambda message: connection.send(json.dumps({"n": next(count), "got": message})),
        )

    def _feed(self, connection: ServerConnection, count: str) -> None:
        for number in range(int(count)):
            connection.send(json.dumps({"tick": number}))

    def _close(self, connection: ServerConnection, code: str, reason: str = "") -> None:
        connection.send("before")
        connection.close(int(code), reason)

    def _drop(self, connection: ServerConnection) -> None:
        """The line goes dead in the middle of a conversation."""
        connection.send("before")
        connection.recv()
        connection.socket.shutdown(socket.SHUT_RDWR)

    def _silent(self, connection: ServerConnection) -> None:
        try:
            connection.recv()
        finally:
            self.lost.set()

    def _late(self, connection: ServerConnection) -> None:
        self.go.wait()
        connection.send("at last")
        connection.recv()

    def _fragments(self, connection: ServerConnection) -> None:
        connection.send(iter(["one ", "two ", "", "three"]))
        connection.send(iter([b"\x00", b"\xff"]))

    def _secret(self, connection: ServerConnection, value: str) -> None:
        connection.send(json.dumps({"access_token": value, "user": "ann"}))
        self._messages(connection, lambda _: connection.send(f"Bearer {value}"))


def _choose(_: ServerConnection, offered: Any) -> Subprotocol | None:
    return SUBPROTOCOL if SUBPROTOCOL in offered else None
