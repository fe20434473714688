"""Functions that are routes of an app: the registry, and the ``@agent.route`` decorator."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from reenact.errors import UsageError
from reenact.exchange.active_exchange import ActiveExchange, ExchangeEnd
from reenact.exchange.adapters.base import LoopBridge, run_in_context
from reenact.exchange.context import TRACEPARENT, TRACESTATE, Position
from reenact.exchange.message import Message, payload_from
from reenact.exchange.model import Exchange, Kind, Payload, Route, Trace
from reenact.exchange.payload import find_header
from reenact.exchange.recorder import ExchangeRecorder
from reenact.exchange.revision import Definition, define
from reenact.exchange.steps import Handler, HandlerCall

__all__ = [
    "FunctionRoute",
    "RouteRegistry",
    "make_route",
]


class FunctionRoute:
    """One route. ``handler`` gets the message; ``objection`` says of one why it cannot."""

    def __init__(
        self,
        route_id: str,
        kind: Kind,
        function: Callable[..., Any],
        handler: Callable[[Message], Any],
        *,
        on_error: Handler | None = None,
        objection: Callable[[Message], str] = lambda message: "",
    ) -> None:
        self.route_id = route_id
        self.kind: Kind = kind
        self.function = function
        self.handler = handler
        self.on_error = on_error
        self.objection = objection
        self.is_async = inspect.iscoroutinefunction(function)
        self._definition: Definition | None = None

    def definition(self, version: str) -> Definition:
        """As its code is."""
        if self._definition is None:
            handlers = (self.function,) if self.on_error is None else (self.function, self.on_error)
            self._definition = define(self.route_id, self.kind, version, handlers)
        return self._definition


class RouteRegistry:
    """The door of all routes and tasks of an app."""

    def __init__(self, desk: ExchangeRecorder, home: LoopBridge) -> None:
        self._desk = desk
        self._home = home
        self._ways: dict[str, FunctionRoute] = {}

    def add(self, way: FunctionRoute) -> None:
        """Raises :class:`UsageError` for an id that another function has."""
        before = self._ways.get(way.route_id)
        if before is not None and before.function is not way.function:
            raise UsageError(
                f"the route {way.route_id!r} is there already", hint="give it an id of its own"
            )
        self._ways[way.route_id] = way

    # Going through, for the first time

    def go(
        self, way: FunctionRoute, message: Message, run: Callable[[], Any], correlation_id: str = ""
    ) -> Any:
        """Run ``run`` as the exchange that begins with ``message``; its result."""
        trace = self._sampled(way, message)
        if trace is None:
            return _guarded(way, None, message, run)
        first = _First(self._desk, way, message, trace, correlation_id)
        first.passage.open()
        try:
            result = _guarded(way, first.passage, message, run)
        except BaseException as error:
            first.failed(error)
            raise
        first.ended(result)
        return result

    async def go_async(
        self, way: FunctionRoute, message: Message, run: Callable[[], Any], correlation_id: str = ""
    ) -> Any:
        """The same for a coroutine function."""
        self._home.remember()
        trace = self._sampled(way, message)
        if trace is None:
            return await _guarded_async(way, None, message, run)
        first = _First(self._desk, way, message, trace, correlation_id)
        first.passage.open()
        try:
            result = await _guarded_async(way, first.passage, message, run)
        except BaseException as error:
            first.failed(error)
            raise
        first.ended(result)
        return result

    def _sampled(self, way: FunctionRoute, message: Message) -> Trace | None:
        headers = message.headers.pairs()
        parent, state = find_header(headers, TRACEPARENT), find_header(headers, TRACESTATE)
        return self._desk.sampled(parent, state, lambda: way.route_id)

    # As a door

    def routes(self) -> tuple[Route, ...]:
        """See :class:`reenact.exchange.adapters.base.Door`."""
        return tuple(map(self._route, tuple(self._ways.values())))

    def _route(self, way: FunctionRoute) -> Route:
        found = way.definition(self._desk.version)
        return Route(
            route_id=way.route_id,
            revision=found.revision,
            kind=way.kind,
            processors=found.processors,
        )

    def definition(self, route_id: str) -> Definition:
        """See :class:`reenact.exchange.adapters.base.Door`."""
        return self._ways[route_id].definition(self._desk.version)

    def objection(self, route_id: str, payload: Payload) -> str:
        """See :class:`reenact.exchange.adapters.base.Door`."""
        return self._ways[route_id].objection(Message.of(payload))

    def enter(
        self, passage: ActiveExchange, route_id: str, payload: Payload, cancelled: threading.Event
    ) -> Exchange:
        """See :class:`reenact.exchange.adapters.base.Door`."""
        way = self._ways[route_id]
        if way.is_async:
            return self._home.run(lambda: self._enter_async(way, passage, payload), cancelled)
        return run_in_context(lambda: self._enter(way, passage, payload), cancelled)

    def _enter(self, way: FunctionRoute, passage: ActiveExchange, payload: Payload) -> Exchange:
        message = Message.of(payload)
        passage.open()
        try:
            result = _guarded(way, passage, message, lambda: way.handler(message))
        except BaseException as error:  # noqa: BLE001 - whatever it did is what the replay shows
            return passage.close(ExchangeEnd(start=payload, error=error))
        return passage.close(ExchangeEnd(start=payload, result=self._result(result)))

    async def _enter_async(
        self, way: FunctionRoute, passage: ActiveExchange, payload: Payload
    ) -> Exchange:
        message = Message.of(payload)
        passage.open()
        try:
            result = await _guarded_async(way, passage, message, lambda: way.handler(message))
        except BaseException as error:  # noqa: BLE001 - whatever it did is what the replay shows
            return passage.close(ExchangeEnd(start=payload, error=error))
        return passage.close(ExchangeEnd(start=payload, result=self._result(result)))

    def _result(self, value: Any) -> Payload:
        return self._desk.bounded(payload_from(value))[0]


class _First:
    """An exchange that happens for the first time."""

    def __init__(
        self,
        desk: ExchangeRecorder,
        way: FunctionRoute,
        message: Message,
        trace: Trace,
        correlation_id: str,
    ) -> None:
        self._desk = desk
        self._way = way
        self._start, too_large = desk.bounded(message.payload())
        self._unfit = message.unfit() or way.objection(message) or too_large
        headers = message.headers.pairs()
        self.passage = desk.passage(way.route_id, way.kind, headers, trace, correlation_id)

    def ended(self, result: Any) -> None:
        found, _ = self._desk.bounded(payload_from(result))
        self._finish(ExchangeEnd(start=self._start, result=found, unfit=self._unfit))

    def failed(self, error: BaseException) -> None:
        self._finish(ExchangeEnd(start=self._start, error=error, unfit=self._unfit))

    def _finish(self, outcome: ExchangeEnd) -> None:
        self._desk.finish(self.passage, outcome, self._way.definition(self._desk.version))


def _guarded(
    way: FunctionRoute, passage: ActiveExchange | None, message: Message, run: Callable[[], Any]
) -> Any:
    """Without a ``passage`` it is not sampled."""
    try:
        return run()
    except Exception as error:
        if way.on_error is None:
            raise
        if passage is None:
            return way.on_error(error, message)
        return HandlerCall(way.on_error, Position(passage.flow)).call(error, (message,), {})


async def _guarded_async(
    way: FunctionRoute, passage: ActiveExchange | None, message: Message, run: Callable[[], Any]
) -> Any:
    try:
        return await run()
    except Exception as error:
        if way.on_error is None:
            raise
        if passage is None:
            given = way.on_error(error, message)
            return await given if inspect.isawaitable(given) else given
        handling = HandlerCall(way.on_error, Position(passage.flow))
        return await handling.call_async(error, (message,), {})


def make_route(
    ways: RouteRegistry, function: Callable[..., Any], route_id: str, on_error: Handler | None
) -> Callable[..., Any]:
    """``function`` as the route ``route_id``. Raises :class:`UsageError`."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__qualname__} is a generator, and no route: nobody knows when it ends",
            hint="return a list, or give the message on",
        )

    def plain(message: Message) -> Any:
        result = function(message)
        return message.body if result is None else result

    async def awaited(message: Message) -> Any:
        result = await function(message)
        return message.body if result is None else result

    is_async = inspect.iscoroutinefunction(function)
    handler = awaited if is_async else plain
    way = FunctionRoute(route_id, "route", function, handler, on_error=on_error)
    ways.add(way)
    if is_async:

        @wraps(function)
        async def call_async(body: Any = None, *, headers: Any = (), properties: Any = None) -> Any:
            message = Message(body, headers, properties)
            return await ways.go_async(way, message, lambda: handler(message))

        return call_async

    @wraps(function)
    def call(body: Any = None, *, headers: Any = (), properties: Any = None) -> Any:
        message = Message(body, headers, properties)
        return ways.go(way, message, lambda: handler(message))

    return call
