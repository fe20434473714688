"""Outermost middleware: request ids, security headers, access log, unexpected errors."""

from __future__ import annotations

import logging
import traceback
from contextlib import ExitStack
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reenact._system import monotonic
from reenact.server.endpoint import answer_problem
from reenact.server.http.connections import CROWDED
from reenact.server.http.transfer_rate import Outgoing, ReaderTooSlow
from reenact.server.problems import Problem
from reenact.server.process.logs import FACTS
from reenact.server.runtime import Server
from reenact.server.web.errors import plain_error_page, wants_page

__all__ = ["LOGGER", "ServerMiddleware", "request_id_of", "told_of"]

LOGGER: Final = logging.getLogger("reenact.server")

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_TLS: Final = ("Strict-Transport-Security", "max-age=31536000")
_TWO_LENGTHS: Final = "the request has both Content-Length and Transfer-Encoding"
_ID: Final = "reenact.request_id"
_ROUTE: Final = "reenact.route"
_TENANT: Final = "reenact.tenant"


def request_id_of(request: Request) -> str:
    """The id of a request that came through :class:`ServerMiddleware`; its answer carries the same."""
    found: str = request.scope[_ID]
    return found


def told_of(request: Request, route: str, who: str, tenant: str = "") -> None:
    """Set the route and caller for the access log.

    ``tenant`` is used for limits and is not logged.
    """
    request.scope[_ROUTE] = (route, who)
    request.scope[_TENANT] = tenant


class ServerMiddleware:
    """Middleware."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_ID] = request_id = self._server.new_id("req")
        began, status = monotonic(), 0
        held = ExitStack()
        outgoing = Outgoing(self._server, send, held)

        async def send_more(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                _complete(headers, scope["scheme"], request_id)
                if _has_two_lengths(scope):
                    # The bytes that follow can be part of the body or another request.
                    headers["Connection"] = "close"
            await outgoing.send(message, scope.get(_TENANT, ""))
            if message["type"] == "http.response.start":
                status = message["status"]

        try:
            if scope.get(CROWDED):
                raise _crowded()
            if _has_two_lengths(scope):
                raise Problem("malformed", _TWO_LENGTHS, hint="send one of them")
            await self._app(scope, receive, send_more)
        except (ClientDisconnect, ReaderTooSlow):
            status = status or 499  # the client has disconnected
        except Problem as problem:  # no memory for the response
            await _answer(scope, problem, request_id)(scope, receive, send_more)
        except Exception as error:  # noqa: BLE001 - logged without its message
            LOGGER.error("%s failed: %s", request_id, _where(error))
            if status:
                raise ConnectionAbortedError("an answer broke off") from None
            failed = Problem("internal", "the server failed", hint="its log has the request id")
            await _answer(scope, failed, request_id)(scope, receive, send_more)
        finally:
            held.close()
            self._note(scope, request_id, status, monotonic() - began)

    def _note(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        """In the log and in the numbers. A method that no route has is anybody's word."""
        route, who = scope.get(_ROUTE, ("no route", ""))
        method = scope["method"] if route != "no route" else "any"
        meters = self._server.meters
        meters.add(
            "reenact_http_requests_total", method=method, route=route, status=str(status or 499)
        )
        if not _goes_on(route):
            meters.took("reenact_http_request_seconds", seconds, method=method, route=route)
        took = round(seconds * 1000, 1)
        facts = {
            "requestId": request_id,
            "method": method,
            "route": route,
            "status": status,
            "ms": took,
            "who": who,
        }
        LOGGER.info(
            "%s %s %s %d %.1f ms %s",
            request_id,
            method,
            route,
            status,
            took,
            who,
            extra={FACTS: facts},
        )


def _answer(scope: Scope, problem: Problem, request_id: str) -> Response:
    if wants_page(Request(scope)):
        return plain_error_page(problem, request_id)
    return answer_problem(problem, request_id)


def _crowded() -> Problem:
    return Problem(
        "unavailable",
        "the server has reached its limit of connections",
        hint="the limit of open files is too low, or clients open too many connections",
        retry_after=5,
    )


def _has_two_lengths(scope: Scope) -> bool:
    """A proxy and this server could disagree about where such a request ends (RFC 9112, 6.1)."""
    names = {name.lower() for name, _ in scope["headers"]}
    return b"content-length" in names and b"transfer-encoding" in names


def _goes_on(route: str) -> bool:
    """Return whether a route is a stream, whose duration is not a useful metric."""
    return route.endswith(("/events", "/commands"))


def _complete(headers: MutableHeaders, scheme: str, request_id: str) -> None:
    headers["X-Request-Id"] = request_id
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if scheme == "https":
        headers.setdefault(*_TLS)


def _where(error: BaseException) -> str:
    """Type and place of an error. Its message may have values in it, and stays out."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = (f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
    return "\n  ".join([type(error).__name__, *lines])
