"""WSGI: every request is an exchange, its method and path template the route.

The app runs in a context of its own, from its call to the end of its answer, so that nothing of an
exchange is left in the server's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from typing import Any

from reenact.exchange.desk import Desk
from reenact.exchange.django_routes import DjangoMap, is_django
from reenact.exchange.homes import in_thread
from reenact.exchange.http import Buffer, Response, failure_of, unread
from reenact.exchange.matching import Table
from reenact.exchange.model import Exchange, Header, Payload, Route
from reenact.exchange.passage import Outcome, Passage
from reenact.exchange.revision import Definition
from reenact.exchange.wsgi_environ import FlaskMap, environ_of, start_of
from reenact.hermetic.queue_handoffs import SERVED_LIVE

__all__ = ["WsgiDoor"]

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class WsgiDoor:
    """A WSGI app around ``app``, and the way into it for replays."""

    def __init__(self, app: App, desk: Desk) -> None:
        self.app = app
        self._desk = desk
        self._table = Table(DjangoMap() if is_django(app) else FlaskMap(app), desk)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        parent, state = environ.get("HTTP_TRACEPARENT", ""), environ.get("HTTP_TRACESTATE", "")
        trace = self._desk.sampled(parent, state, lambda: self._table.route_of(start_of(environ)))
        if trace is None:
            token = SERVED_LIVE.set(True)
            try:
                return self.app(environ, start_response)
            finally:
                SERVED_LIVE.reset(token)
        start = start_of(environ)
        route_id = self._table.route_of(start)
        passage = self._desk.passage(route_id, "http", start.headers, trace)
        tap = Tap(environ, self._desk.limits.max_body)

        def ended(error: BaseException | None) -> None:
            outcome = self._table.judged(route_id, tap.outcome(start, error))
            self._desk.finish(passage, outcome, self._table.definition(route_id))

        answer = Answer(passage, tap, ended)
        answer.begin(self.app, environ, start_response)
        return answer

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
        return in_thread(lambda: self._again(passage, payload), cancelled)

    def _again(self, passage: Passage, payload: Payload) -> Exchange:
        environ = environ_of(payload)
        tap = Tap(environ, self._desk.limits.max_body)
        made: list[Exchange] = []

        def ended(error: BaseException | None) -> None:
            made.append(passage.close(tap.outcome(payload, error, again=True)))

        answer = Answer(passage, tap, ended)
        try:
            answer.begin(self.app, environ, _nobody)
            for _ in answer:
                continue
        except BaseException:  # noqa: BLE001 - whatever it did is what the replay shows
            pass
        finally:
            answer.close()
        return made[0]


def _nobody(status: str, headers: list[Header], exc_info: Any = None) -> Callable[[bytes], object]:
    return lambda data: None


class Answer:
    """What the server iterates. ``ended`` is called once, in the app's context, when it is over."""

    def __init__(
        self, passage: Passage, tap: Tap, ended: Callable[[BaseException | None], None]
    ) -> None:
        self._passage = passage
        self._tap = tap
        self._ended: Callable[[BaseException | None], None] | None = ended
        self._context = copy_context()
        self._whole: Iterable[bytes] = ()
        self._parts: Iterator[bytes] = iter(())

    def begin(self, app: App, environ: Environ, start_response: StartResponse) -> None:
        """Call ``app``. Raises what it raises."""
        self._context.run(self._passage.open)
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
        """The server is done with it, or has given up."""
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
    """Copies what passes between server and app."""

    def __init__(self, environ: Environ, limit: int) -> None:
        self._request = Buffer(limit)
        self.response = Response(limit, environ.get("REQUEST_METHOD", "GET"))
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
    ) -> Outcome:
        """How it ended. ``again``: ``start`` is all there, because it was replayed."""
        whole, unfit = (start, "") if again else self._request.put_into(start)
        if not again and not unfit:
            unfit = unread(start, self._request.size)
        return Outcome(
            start=whole,
            result=self.response.payload(),
            error=error,
            failed=failure_of(self.response),
            unfit=unfit,
        )


class Reader:
    """``wsgi.input`` whose bytes are copied as they are read."""

    def __init__(self, source: Any, buffer: Buffer) -> None:
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
