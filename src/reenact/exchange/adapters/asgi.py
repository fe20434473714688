"""ASGI middleware that records every HTTP request as an exchange.

The route is the method and the path template. The app receives the same messages as without the
middleware, at the same time, because bodies are copied while they pass. WebSockets and lifespan
messages pass through.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import quote

from reenact.engine.session.context import OUTSIDE, VARIABLE
from reenact.exchange.active_exchange import ActiveExchange, ExchangeEnd
from reenact.exchange.adapters.base import LoopBridge
from reenact.exchange.adapters.http import (
    BodyBuffer,
    CapturedResponse,
    SentRequest,
    outcome_of,
    start_payload,
)
from reenact.exchange.adapters.route_table import (
    DjangoResolver,
    RouteTable,
    StarletteResolver,
    is_django,
)
from reenact.exchange.model import Exchange, Payload, Trace
from reenact.exchange.recorder import ExchangeRecorder
from reenact.hermetic.handoffs import served_live

__all__ = [
    "AsgiAdapter",
    "scope_of",
    "start_of",
]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiAdapter:
    """ASGI middleware around ``app``, and the adapter for its replays."""

    def __init__(
        self,
        app: App,
        recorder: ExchangeRecorder,
        loop_bridge: LoopBridge,
        start: Callable[[], Any],
        sign_off: Callable[[], Any],
    ) -> None:
        self.app = app
        self._recorder = recorder
        self._loop_bridge = loop_bridge
        self._start = start
        self._sign_off = sign_off
        self._table = RouteTable(
            DjangoResolver() if is_django(app) else StarletteResolver(app), recorder
        )
        self.routes = self._table.routes
        self.definition = self._table.definition
        self.objection = self._table.objection
        self._surroundings: dict[str, Any] = {}
        """The ``app`` and ``state`` of scopes, which replays need as well."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._remember(scope)
            self._start()
            await Lifespan(receive, send, self._sign_off).run(self.app, scope)
            return
        if scope["type"] != "http":
            with served_live():
                await self.app(scope, receive, send)
            return
        self._remember(scope)
        parent, state = _trace_headers(scope["headers"])
        trace = self._recorder.sampled(parent, state, lambda: self._table.route_of(start_of(scope)))
        if trace is None:
            with served_live():
                await self.app(scope, receive, send)
        else:
            await self._serve(scope, receive, send, trace)

    def _remember(self, scope: Scope) -> None:
        self._loop_bridge.remember()
        for name in ("app", "state"):
            if name in scope and name not in self._surroundings:
                self._surroundings[name] = scope[name]

    async def _serve(self, scope: Scope, receive: Receive, send: Send, trace: Trace) -> None:
        start = start_of(scope)
        route_id = self._table.route_of(start)
        active = self._recorder.begin(route_id, "http", start.headers, trace)
        tap = Tap(receive, send, self._recorder.limits.max_body, scope["method"])
        active.open()
        try:
            await self.app(scope, tap.receive, tap.send)
        except BaseException as error:
            self._finish(active, tap.outcome(start, error))
            raise
        self._finish(active, tap.outcome(start))

    def _finish(self, active: ActiveExchange, outcome: ExchangeEnd) -> None:
        route_id = active.begun.route_id
        outcome = self._table.judged(route_id, outcome)
        self._recorder.finish(active, outcome, self._table.definition(route_id))

    def enter(
        self, active: ActiveExchange, route_id: str, payload: Payload, cancelled: threading.Event
    ) -> Exchange:
        """Replay ``payload``."""
        return self._loop_bridge.run(lambda: self._again(active, payload), cancelled)

    async def _again(self, active: ActiveExchange, payload: Payload) -> Exchange:
        scope, body = scope_of(payload)
        for name, value in self._surroundings.items():
            scope[name] = dict(value) if name == "state" else value
        tap = Tap(_Sent(body).receive, _drop, self._recorder.limits.max_body, scope["method"])
        active.open()
        try:
            await self.app(scope, tap.receive, tap.send)
        except BaseException as error:  # noqa: BLE001 - every failure of the app is the result of the replay
            return active.close(tap.outcome(payload, error, again=True))
        return active.close(tap.outcome(payload, again=True))


class Lifespan:
    """Lifespan of an app. The agent signs off at its end, because servers that receive a signal
    often end the process without running exit handlers.

    The class answers for an app that does not support lifespan messages.
    """

    def __init__(self, receive: Receive, send: Send, sign_off: Callable[[], Any]) -> None:
        self._receive = receive
        self._send = send
        self._sign_off = sign_off
        self._received = 0
        self._sent = ""

    async def run(self, app: App, scope: Scope) -> None:
        """Run ``app``. Raises its exceptions, except those before its first message."""
        try:
            await app(scope, self.receive, self.send)
        except Exception:
            if self._sent:
                raise
        if self._sent:
            return
        if not self._received:
            await self.receive()
        await self.send({"type": "lifespan.startup.complete"})
        await self.receive()
        await self.send({"type": "lifespan.shutdown.complete"})

    async def receive(self) -> MutableMapping[str, Any]:
        self._received += 1
        return await self._receive()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self._sent = str(message["type"])
        if self._sent.startswith("lifespan.shutdown"):
            # Before the server hears of it: then it ends the process.
            await asyncio.get_running_loop().run_in_executor(None, self._sign_off)
        await self._send(message)


def _trace_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, str]:
    """Return ``traceparent`` and ``tracestate`` without decoding other headers."""
    parent = state = b""
    for name, value in headers:
        if name == b"traceparent":
            parent = value
        elif name == b"tracestate":
            state = value
    return parent.decode("latin-1"), state.decode("latin-1")


class _Sent:
    """Request with a complete body, from a client that does not disconnect."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is None:
            await asyncio.get_running_loop().create_future()  # nobody hangs up
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _drop(message: MutableMapping[str, Any]) -> None:
    """Discard a message of a replay, which has no client."""


class Tap:
    """Copies the messages between server and app.

    The server's own code runs outside the session. Its sockets and timers are not calls of the app,
    and a replay, which has no server, would miss them.
    """

    def __init__(self, receive: Receive, send: Send, limit: int, method: str) -> None:
        self._receive = receive
        self._send = send
        self._request = BodyBuffer(limit)
        self._response = CapturedResponse(limit, method)
        self._has_more = True

    async def receive(self) -> MutableMapping[str, Any]:
        token = VARIABLE.set(OUTSIDE)
        try:
            message = await self._receive()
        finally:
            VARIABLE.reset(token)
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
        token = VARIABLE.set(OUTSIDE)
        try:
            await self._send(message)
        finally:
            VARIABLE.reset(token)

    def outcome(
        self, start: Payload, error: BaseException | None = None, *, again: bool = False
    ) -> ExchangeEnd:
        """Return the result of the exchange. ``again`` means that ``start`` is complete, because it
        was replayed."""
        return outcome_of(
            start, self._request, self._response, error, has_more=self._has_more, again=again
        )


def start_of(scope: MutableMapping[str, Any]) -> Payload:
    """Return the headers and properties of the request. The body is added later."""
    client = scope.get("client")
    return start_payload(
        [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]],
        method=scope["method"],
        path=scope["path"],
        query=scope.get("query_string", b"").decode("latin-1"),
        scheme=scope.get("scheme", "http"),
        client=str(client[0]) if client else "",
        root=scope.get("root_path", ""),
    )


def scope_of(payload: Payload) -> tuple[dict[str, Any], bytes]:
    """Return an ASGI scope and the body for ``payload``."""
    sent = SentRequest(payload)
    default = 443 if sent.scheme == "https" else 80
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": sent.scheme,
        "path": sent.path,
        "raw_path": quote(sent.path, safe="/:@!$&'()*+,;=~-._%").encode("ascii"),
        "query_string": sent.query.encode("latin-1", "replace"),
        "root_path": sent.root,
        "headers": [
            (key.lower().encode("latin-1"), value.encode("latin-1", "replace"))
            for key, value in sent.headers
        ],
        "client": (sent.client, 0),
        "server": (sent.server, int(sent.port) if sent.port.isdigit() else default),
        "extensions": {},
    }, sent.body
