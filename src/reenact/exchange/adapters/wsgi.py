"""WSGI middleware that records every request as an exchange.

The route is the method and the path template. The app runs in its own context until its response
ends, so no part of an exchange stays in the server's thread.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from typing import Any

from reenact.exchange.active_exchange import ActiveExchange, ExchangeEnd
from reenact.exchange.adapters.base import run_in_context
from reenact.exchange.adapters.http import (
    BodyBuffer,
    CapturedResponse,
    SentRequest,
    outcome_of,
    start_payload,
)
from reenact.exchange.adapters.route_table import (
    DjangoResolver,
    FlaskResolver,
    RouteTable,
    is_django,
)
from reenact.exchange.model import Exchange, Header, Payload
from reenact.exchange.recorder import ExchangeRecorder
from reenact.hermetic.handoffs import served_live

__all__ = [
    "WsgiAdapter",
    "environ_of",
    "start_of",
]

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class WsgiAdapter:
    """WSGI middleware around ``app``, and the adapter for its replays."""

    def __init__(self, app: App, recorder: ExchangeRecorder) -> None:
        self.app = app
        self._recorder = recorder
        self._table = RouteTable(
            DjangoResolver() if is_django(app) else FlaskResolver(app), recorder
        )
        self.routes = self._table.routes
        self.definition = self._table.definition
        self.objection = self._table.objection

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        parent, state = environ.get("HTTP_TRACEPARENT", ""), environ.get("HTTP_TRACESTATE", "")
        trace = self._recorder.sampled(
            parent, state, lambda: self._table.route_of(start_of(environ))
        )
        if trace is None:
            with served_live():
                return self.app(environ, start_response)
        start = start_of(environ)
        route_id = self._table.route_of(start)
        active = self._recorder.begin(route_id, "http", start.headers, trace)
        tap = Tap(environ, self._recorder.limits.max_body)

        def ended(error: BaseException | None) -> None:
            outcome = self._table.judged(route_id, tap.outcome(start, error))
            self._recorder.finish(active, outcome, self._table.definition(route_id))

        answer = ResponseIterator(active, tap, ended)
        answer.begin(self.app, environ, start_response)
        return answer

    def enter(
        self, active: ActiveExchange, route_id: str, payload: Payload, cancelled: threading.Event
    ) -> Exchange:
        """Replay ``payload``."""
        return run_in_context(lambda: self._again(active, payload), cancelled)

    def _again(self, active: ActiveExchange, payload: Payload) -> Exchange:
        environ = environ_of(payload)
        tap = Tap(environ, self._recorder.limits.max_body)
        made: list[Exchange] = []

        def ended(error: BaseException | None) -> None:
            made.append(active.close(tap.outcome(payload, error, again=True)))

        answer = ResponseIterator(active, tap, ended)
        try:
            answer.begin(self.app, environ, _nobody)
            for _ in answer:
                continue
        except BaseException:  # noqa: BLE001 - every failure of the app is the result of the replay
            pass
        finally:
            answer.close()
        return made[0]


def _nobody(status: str, headers: list[Header], exc_info: Any = None) -> Callable[[bytes], object]:
    return lambda data: None


class ResponseIterator:
    """Response that the server iterates. ``ended`` is called once, in the app's context, at its
    end."""

    def __init__(
        self, active: ActiveExchange, tap: Tap, ended: Callable[[BaseException | None], None]
    ) -> None:
        self._active = active
        self._tap = tap
        self._ended: Callable[[BaseException | None], None] | None = ended
        self._context = copy_context()
        self._whole: Iterable[bytes] = ()
        self._parts: Iterator[bytes] = iter(())

    def begin(self, app: App, environ: Environ, start_response: StartResponse) -> None:
        """Call ``app``. Raises its exceptions."""
        self._context.run(self._active.open)
        try:
            tapped = self._tap.starting(start_response)
            self._whole = self._context.run(app, environ, tapped)
            self._parts = self._context.run(iter, self._whole)
        except BaseException as error:
            self._end(error)
            raise

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            part = self._context.run(next, self._parts)
        except StopIteration:
            self._tap.response.is_whole = True
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._tap.response.add(part)
        return part

    def close(self) -> None:
        """End the response, complete or not."""
        try:
            close = getattr(self._whole, "close", None)
            if close is not None:
                self._context.run(close)
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            self._context.run(ended, error)


class Tap:
    """Copies the data between server and app."""

    def __init__(self, environ: Environ, limit: int) -> None:
        self._request = BodyBuffer(limit)
        self.response = CapturedResponse(limit, environ.get("REQUEST_METHOD", "GET"))
        self._input = environ.get("wsgi.input")
        if self._input is not None:
            environ["wsgi.input"] = Reader(self._input, self._request)

    def starting(self, start_response: StartResponse) -> StartResponse:
        def start(status: str, headers: list[Header], *more: Any) -> Callable[[bytes], object]:
            self.response.begin(int(status[:3]), [(str(k), str(v)) for k, v in headers])
            write = start_response(status, headers, *more)

            def written(data: bytes) -> object:
                self.response.add(data)
                return write(data)

            return written

        return start

    def outcome(
        self, start: Payload, error: BaseException | None = None, *, again: bool = False
    ) -> ExchangeEnd:
        """Return the result of the exchange. ``again`` means that ``start`` is complete, because it
        was replayed."""
        return outcome_of(start, self._request, self.response, error, again=again)


class Reader:
    """``wsgi.input`` whose bytes are copied as they are read."""

    def __init__(self, source: Any, buffer: BodyBuffer) -> None:
        self._source = source
        self._buffer = buffer

    def read(self, *args: Any) -> bytes:
        return self._seen(self._source.read(*args))

    def readinto(self, target: Any) -> int:
        data = self.read(len(memoryview(target).cast("B")))
        memoryview(target).cast("B")[: len(data)] = data
        return len(data)

    def readline(self, *args: Any) -> bytes:
        return self._seen(self._source.readline(*args))

    def readlines(self, *args: Any) -> list[bytes]:
        return [self._seen(line) for line in self._source.readlines(*args)]

    def __iter__(self) -> Iterator[bytes]:
        return map(self._seen, self._source)

    def close(self) -> None:
        self._source.close()

    def _seen(self, data: bytes) -> bytes:
        self._buffer.add(data)
        return data


_BARE = {"CONTENT_TYPE": "content-type", "CONTENT_LENGTH": "content-length"}


def start_of(environ: Environ) -> Payload:
    """Return the headers and properties of the request. The body is added later."""
    return start_payload(
        _headers(environ),
        method=environ.get("REQUEST_METHOD", "GET"),
        path=_text(environ.get("PATH_INFO") or "/"),
        query=environ.get("QUERY_STRING", ""),
        scheme=environ.get("wsgi.url_scheme", "http"),
        client=str(environ.get("REMOTE_ADDR", "")),
        root=environ.get("SCRIPT_NAME", ""),
    )


def _headers(environ: Environ) -> list[Header]:
    found = [(_BARE[name], str(environ[name])) for name in _BARE if environ.get(name)]
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            found.append((name[5:].replace("_", "-").lower(), str(value)))
    return found


def _text(path: str) -> str:
    """Decode a path, which PEP 3333 passes as Latin-1."""
    return path.encode("latin-1", "replace").decode("utf-8", "replace")


def environ_of(payload: Payload) -> Environ:
    """Return a WSGI environ for ``payload``."""
    sent = SentRequest(payload)
    environ: Environ = {
        "REQUEST_METHOD": sent.method,
        "SCRIPT_NAME": sent.root,
        "PATH_INFO": sent.path.encode().decode("latin-1"),
        "QUERY_STRING": sent.query,
        "SERVER_NAME": sent.server,
        "SERVER_PORT": sent.port,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": sent.client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": sent.scheme,
        "wsgi.input": io.BytesIO(sent.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for key, value in sent.headers:
        _put(environ, key.lower(), value)
    return environ


def _put(environ: Environ, name: str, value: str) -> None:
    """Add a header. Repeated headers are joined, as servers do."""
    bare = {spelled: key for key, spelled in _BARE.items()}.get(name)
    key = bare or f"HTTP_{name.upper().replace('-', '_')}"
    joint = "; " if name == "cookie" else ","
    environ[key] = f"{environ[key]}{joint}{value}" if key in environ and not bare else value
