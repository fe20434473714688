"""ASGI: every HTTP request is an exchange, its method and path template the route.

The app sees the same messages as without it, when it would have seen them: bodies are copied as
they pass. WebSockets and lifespan pass through.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from reenact.exchange.asgi_scope import scope_of, start_of
from reenact.exchange.desk import Desk
from reenact.exchange.homes import Home
from reenact.exchange.http import Buffer, Response, failure_of, unread
from reenact.exchange.matching import StarletteMap, Table
from reenact.exchange.model import Exchange, Payload, Route
from reenact.exchange.passage import Outcome, Passage
from reenact.exchange.revision import Definition

__all__ = ["AsgiDoor"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiDoor:
    """An ASGI app around ``app``, and the way into it for replays."""

    def __init__(self, app: App, desk: Desk, home: Home, start: Callable[[], Any]) -> None:
        self.app = app
        self._desk = desk
        self._home = home
        self._start = start
        self._table = Table(StarletteMap(app), desk)
        self._surroundings: dict[str, Any] = {}
        """What an app finds in a scope of its own: itself, and the state of its lifespan."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._remember(scope)
            self._start()
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self._remember(scope)
        await self._serve(scope, receive, send)

    def _remember(self, scope: Scope) -> None:
        self._home.remember()
        for name in ("app", "state"):
            if name in scope and name not in self._surroundings:
                self._surroundings[name] = scope[name]

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = start_of(scope)
        route_id = self._table.route_of(start)
        passage = self._desk.passage(route_id, "http", start.headers)
        tap = Tap(receive, send, self._desk.limits.max_body, scope["method"])
        passage.open()
        try:
            await self.app(scope, tap.receive, tap.send)
        except BaseException as error:
            self._finish(passage, tap.outcome(start, error))
            raise
        self._finish(passage, tap.outcome(start))

    def _finish(self, passage: Passage, outcome: Outcome) -> None:
        self._desk.finish(passage, outcome, self._table.definition(passage.begun.route_id))

    # As a door

    def routes(self) -> tuple[Route, ...]:
        """See :class:`reenact.exchange.doors.Door`."""
        return self._table.routes()

    def definition(self, route_id: str) -> Definition:
        """See :class:`reenact.exchange.doors.Door`."""
        return self._table.definition(route_id)

    def objection(self, route_id: str, payload: Payload) -> str:
        """See :class:`reenact.exchange.doors.Door`."""
        return self._table.objection(route_id, payload)

    def enter(
        self, passage: Passage, route_id: str, payload: Payload, cancelled: threading.Event
    ) -> Exchange:
        """See :class:`reenact.exchange.doors.Door`."""
        return self._home.run(lambda: self._again(passage, payload), cancelled)

    async def _again(self, passage: Passage, payload: Payload) -> Exchange:
        scope, body = scope_of(payload)
        for name, value in self._surroundings.items():
            scope[name] = dict(value) if name == "state" else value
        tap = Tap(_Sent(body).receive, _drop, self._desk.limits.max_body, scope["method"])
        passage.open()
        try:
            await self.app(scope, tap.receive, tap.send)
        except BaseException as error:  # noqa: BLE001 - whatever it did is what the replay shows
            return passage.close(tap.outcome(payload, error, again=True))
        return passage.close(tap.outcome(payload, again=True))


class _Sent:
    """A request that is there at once, from a client that stays."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is None:
            import asyncio

            await asyncio.get_running_loop().create_future()  # nobody hangs up
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _drop(message: MutableMapping[str, Any]) -> None:
    """Nobody is there to get it."""


class Tap:
    """Copies what passes between server and app."""

    def __init__(self, receive: Receive, send: Send, limit: int, method: str) -> None:
        self._receive = receive
        self._send = send
        self._request = Buffer(limit)
        self._response = Response(limit, method)
        self._has_more = True

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if message["type"] == "http.request":
            self._request.add(message.get("body", b""))
            self._has_more = bool(message.get("more_body", False))
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            self._response.begin(
                int(message["status"]),
                [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers],
            )
        elif message["type"] == "http.response.body":
            self._response.add(message.get("body", b""), last=not message.get("more_body", False))
        await self._send(message)

    def outcome(
        self, start: Payload, error: BaseException | None = None, *, again: bool = False
    ) -> Outcome:
        """How it ended. ``again``: ``start`` is all there, because it was replayed."""
        result = self._response.payload()
        whole, unfit = (start, "") if again else self._request.put_into(start)
        if not again and self._has_more and not unfit:
            unfit = unread(start, self._request.size)
        return Outcome(
            start=whole,
            result=result,
            error=error,
            failed=failure_of(self._response),
            unfit=unfit,
        )
