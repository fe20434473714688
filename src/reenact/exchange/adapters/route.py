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
    """One route. ``handler`` is called with the message. ``objection`` returns the reason why a
    message cannot be replayed."""

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
        """Return the definition of the current code."""
        if self._definition is None:
            handlers = (self.function,) if self.on_error is None else (self.function, self.on_error)
            self._definition = define(self.route_id, self.kind, version, handlers)
        return self._definition


class RouteRegistry:
    """Adapter of all routes and tasks of an app."""

    def __init__(self, recorder: ExchangeRecorder, loop_bridge: LoopBridge) -> None:
        self._recorder = recorder
        self._loop_bridge = loop_bridge
        self._entries: dict[str, FunctionRoute] = {}

    def add(self, entry: FunctionRoute) -> None:
        """Register a route. Raises :class:`UsageError` if a different function has the same id."""
        before = self._entries.get(entry.route_id)
        if before is not None and before.function is not entry.function:
            raise UsageError(
                f"the route {entry.route_id!r} is there already", hint="give it an id of its own"
            )
        self._entries[entry.route_id] = entry

    # Going through, for the first time

    def go(
        self,
        entry: FunctionRoute,
        message: Message,
        run: Callable[[], Any],
        correlation_id: str = "",
    ) -> Any:
        """Run ``run`` as the exchange that begins with ``message``, and return its result."""
        trace = self._sampled(entry, message)
        if trace is None:
            return _guarded(entry, None, message, run)
        first = _First(self._recorder, entry, message, trace, correlation_id)
        first.active.open()
        try:
            result = _guarded(entry, first.active, message, run)
        except BaseException as error:
            first.failed(error)
            raise
        first.ended(result)
        return result

    async def go_async(
        self,
        entry: FunctionRoute,
        message: Message,
        run: Callable[[], Any],
        correlation_id: str = "",
    ) -> Any:
        """Async variant of :meth:`go`."""
        self._loop_bridge.remember()
        trace = self._sampled(entry, message)
        if trace is None:
            return await _guarded_async(entry, None, message, run)
        first = _First(self._recorder, entry, message, trace, correlation_id)
        first.active.open()
        try:
            result = await _guarded_async(entry, first.active, message, run)
        except BaseException as error:
            first.failed(error)
            raise
        first.ended(result)
        return result

    def _sampled(self, entry: FunctionRoute, message: Message) -> Trace | None:
        headers = message.headers.pairs()
        parent, state = find_header(headers, TRACEPARENT), find_header(headers, TRACESTATE)
        return self._recorder.sampled(parent, state, lambda: entry.route_id)

    # As a adapter

    def routes(self) -> tuple[Route, ...]:
        """Return the current routes."""
        return tuple(map(self._route, tuple(self._entries.values())))

    def _route(self, entry: FunctionRoute) -> Route:
        found = entry.definition(self._recorder.version)
        return Route(
            route_id=entry.route_id,
            revision=found.revision,
            kind=entry.kind,
            processors=found.processors,
        )

    def definition(self, route_id: str) -> Definition:
        """Return the definition of a route."""
        return self._entries[route_id].definition(self._recorder.version)

    def objection(self, route_id: str, payload: Payload) -> str:
        """Return why ``payload`` cannot take the route, or an empty string."""
        return self._entries[route_id].objection(Message.of(payload))

    def enter(
        self, active: ActiveExchange, route_id: str, payload: Payload, cancelled: threading.Event
    ) -> Exchange:
        """Replay ``payload``."""
        entry = self._entries[route_id]
        if entry.is_async:
            return self._loop_bridge.run(
                lambda: self._enter_async(entry, active, payload), cancelled
            )
        return run_in_context(lambda: self._enter(entry, active, payload), cancelled)

    def _enter(self, entry: FunctionRoute, active: ActiveExchange, payload: Payload) -> Exchange:
        message = Message.of(payload)
        active.open()
        try:
            result = _guarded(entry, active, message, lambda: entry.handler(message))
        except BaseException as error:  # noqa: BLE001 - every failure of the app is the result of the replay
            return active.close(ExchangeEnd(start=payload, error=error))
        return active.close(ExchangeEnd(start=payload, result=self._result(result)))

    async def _enter_async(
        self, entry: FunctionRoute, active: ActiveExchange, payload: Payload
    ) -> Exchange:
        message = Message.of(payload)
        active.open()
        try:
            result = await _guarded_async(entry, active, message, lambda: entry.handler(message))
        except BaseException as error:  # noqa: BLE001 - every failure of the app is the result of the replay
            return active.close(ExchangeEnd(start=payload, error=error))
        return active.close(ExchangeEnd(start=payload, result=self._result(result)))

    def _result(self, value: Any) -> Payload:
        return self._recorder.bounded(payload_from(value))[0]


class _First:
    """Exchange of a call by the app itself, as opposed to a replay."""

    def __init__(
        self,
        recorder: ExchangeRecorder,
        entry: FunctionRoute,
        message: Message,
        trace: Trace,
        correlation_id: str,
    ) -> None:
        self._recorder = recorder
        self._entry = entry
        self._start, too_large = recorder.bounded(message.payload())
        self._unfit = message.unfit() or entry.objection(message) or too_large
        headers = message.headers.pairs()
        self.active = recorder.begin(entry.route_id, entry.kind, headers, trace, correlation_id)

    def ended(self, result: Any) -> None:
        found, _ = self._recorder.bounded(payload_from(result))
        self._finish(ExchangeEnd(start=self._start, result=found, unfit=self._unfit))

    def failed(self, error: BaseException) -> None:
        self._finish(ExchangeEnd(start=self._start, error=error, unfit=self._unfit))

    def _finish(self, outcome: ExchangeEnd) -> None:
        self._recorder.finish(self.active, outcome, self._entry.definition(self._recorder.version))


def _guarded(
    entry: FunctionRoute, active: ActiveExchange | None, message: Message, run: Callable[[], Any]
) -> Any:
    """Run a route with its error handler. ``active`` is None if the exchange is not sampled."""
    try:
        return run()
    except Exception as error:
        if entry.on_error is None:
            raise
        if active is None:
            return entry.on_error(error, message)
        return HandlerCall(entry.on_error, Position(active.lineage)).call(error, (message,), {})


async def _guarded_async(
    entry: FunctionRoute, active: ActiveExchange | None, message: Message, run: Callable[[], Any]
) -> Any:
    try:
        return await run()
    except Exception as error:
        if entry.on_error is None:
            raise
        if active is None:
            given = entry.on_error(error, message)
            return await given if inspect.isawaitable(given) else given
        handling = HandlerCall(entry.on_error, Position(active.lineage))
        return await handling.call_async(error, (message,), {})


def make_route(
    registry: RouteRegistry, function: Callable[..., Any], route_id: str, on_error: Handler | None
) -> Callable[..., Any]:
    """Return ``function`` as the route ``route_id``. Raises :class:`UsageError`."""
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
    entry = FunctionRoute(route_id, "route", function, handler, on_error=on_error)
    registry.add(entry)
    if is_async:

        @wraps(function)
        async def call_async(body: Any = None, *, headers: Any = (), properties: Any = None) -> Any:
            message = Message(body, headers, properties)
            return await registry.go_async(entry, message, lambda: handler(message))

        return call_async

    @wraps(function)
    def call(body: Any = None, *, headers: Any = (), properties: Any = None) -> Any:
        message = Message(body, headers, properties)
        return registry.go(entry, message, lambda: handler(message))

    return call
