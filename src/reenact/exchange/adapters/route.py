"""Functions that are routes of an app: the registry, ``@agent.route``, and jobs of queue workers.

The start payload of a job consists of the arguments of its function.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
from reenact.exchange.route_revision import Definition, define
from reenact.exchange.steps import Handler, awaited, handler_block

__all__ = [
    "FunctionRoute",
    "RouteRegistry",
    "make_route",
    "make_task",
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
                f"the route {entry.route_id!r} is there already", hint="use a unique id"
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
        with self._exchange(entry, message, correlation_id) as call:
            return call.ended(_guarded(entry, call.active, message, run))

    async def go_async(
        self,
        entry: FunctionRoute,
        message: Message,
        run: Callable[[], Any],
        correlation_id: str = "",
    ) -> Any:
        """Async variant of :meth:`go`."""
        self._loop_bridge.remember()
        with self._exchange(entry, message, correlation_id) as call:
            return call.ended(await _guarded_async(entry, call.active, message, run))

    @contextmanager
    def _exchange(
        self, entry: FunctionRoute, message: Message, correlation_id: str
    ) -> Iterator[_Call]:
        """Record the block as the exchange that begins with ``message``, if it is sampled."""
        trace = self._sampled(entry, message)
        if trace is None:
            yield _Call(None)
            return
        recorder = self._recorder
        start, too_large = recorder.bounded(message.payload())
        unfit = message.unfit() or entry.objection(message) or too_large
        headers = message.headers.pairs()
        active = recorder.begin(entry.route_id, entry.kind, headers, trace, correlation_id)
        call = _Call(active)

        def finish(**found: Any) -> None:
            end = ExchangeEnd(start=start, unfit=unfit, **found)
            recorder.finish(active, end, entry.definition(recorder.version))

        active.open()
        try:
            yield call
        except BaseException as error:
            finish(error=error)
            raise
        finish(result=self._result(call.result))

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
        with self._replay(active, payload) as call:
            call.ended(_guarded(entry, active, message, lambda: entry.handler(message)))
        return call.exchange

    async def _enter_async(
        self, entry: FunctionRoute, active: ActiveExchange, payload: Payload
    ) -> Exchange:
        message = Message.of(payload)
        with self._replay(active, payload) as call:
            call.ended(await _guarded_async(entry, active, message, lambda: entry.handler(message)))
        return call.exchange

    @contextmanager
    def _replay(self, active: ActiveExchange, start: Payload) -> Iterator[_Call]:
        """Replay the block. Every failure of the app is the result of the replay."""
        call = _Call(active)
        active.open()
        try:
            yield call
        except BaseException as error:  # noqa: BLE001 - see above
            call.exchange = active.close(ExchangeEnd(start=start, error=error))
        else:
            end = ExchangeEnd(start=start, result=self._result(call.result))
            call.exchange = active.close(end)

    def _result(self, value: Any) -> Payload:
        return self._recorder.bounded(payload_from(value))[0]


class _Call:
    """Call of a route. ``active`` is None if it is not recorded."""

    exchange: Exchange
    """The exchange of a replay that has ended."""

    def __init__(self, active: ActiveExchange | None) -> None:
        self.active = active
        self.result: Any = None

    def ended(self, result: Any) -> Any:
        """Note and return the result of the route."""
        self.result = result
        return result


def _guarded(
    entry: FunctionRoute, active: ActiveExchange | None, message: Message, run: Callable[[], Any]
) -> Any:
    """Run a route with its error handler. ``active`` is None if the exchange is not sampled."""
    try:
        return run()
    except Exception as error:
        if entry.on_error is None:
            raise
        with _handling(entry.on_error, active):
            return entry.on_error(error, message)


async def _guarded_async(
    entry: FunctionRoute, active: ActiveExchange | None, message: Message, run: Callable[[], Any]
) -> Any:
    """Async variant of :func:`_guarded`."""
    try:
        return await run()
    except Exception as error:
        if entry.on_error is None:
            raise
        with _handling(entry.on_error, active):
            return await awaited(entry.on_error(error, message))


def _handling(handler: Handler, active: ActiveExchange | None) -> AbstractContextManager[None]:
    if active is None:
        return nullcontext()
    return handler_block(handler, Position(active.lineage))


def make_route(
    registry: RouteRegistry, function: Callable[..., Any], route_id: str, on_error: Handler | None
) -> Callable[..., Any]:
    """Return ``function`` as the route ``route_id``. Raises :class:`UsageError`."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__qualname__} is a generator, which cannot be a route: its end is not known",
            hint="return a list, or give the message on",
        )

    def plain(message: Message) -> Any:
        result = function(message)
        return message.body if result is None else result

    async def asynchronous(message: Message) -> Any:
        result = await function(message)
        return message.body if result is None else result

    is_async = inspect.iscoroutinefunction(function)
    handler = asynchronous if is_async else plain
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


# Jobs of queue workers


def make_task(
    registry: RouteRegistry, function: Callable[..., Any], route_id: str
) -> Callable[..., Any]:
    """Return ``function`` as a task whose calls are exchanges.

    Under Celery's ``@app.task``, an exchange has the id, headers and retries of the job. With
    ``bind=True`` the task object is not part of the payload.
    """
    called = TaskArguments(function)
    entry = FunctionRoute(route_id, "task", function, called.again, objection=called.objection)
    registry.add(entry)
    if entry.is_async:

        @wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            message, correlation_id = called.message(args, kwargs)
            return await registry.go_async(
                entry, message, lambda: function(*args, **kwargs), correlation_id
            )

        return run_async

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        message, correlation_id = called.message(args, kwargs)
        return registry.go(entry, message, lambda: function(*args, **kwargs), correlation_id)

    return run


class TaskArguments:
    """Conversion between the arguments of a task and a message."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def message(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Message, str]:
        """Return the start payload of a call, and the correlation id of the queue."""
        task = _celery_task(args)
        is_bound = task is not None and bool(args) and args[0] is task
        given = args[1:] if is_bound else args
        request = getattr(task, "request", None)
        body = {"args": list(given), "kwargs": dict(kwargs)}
        if request is None or not getattr(request, "id", None):
            return Message(body), ""
        properties: dict[str, Any] = {
            "task.id": str(request.id),
            "task.name": str(getattr(task, "name", "")),
            "task.retries": int(getattr(request, "retries", 0) or 0),
        }
        if is_bound:
            properties["task.bound"] = True
        said = str(getattr(request, "correlation_id", None) or request.id)
        return Message(body, _headers_of(request), properties), said

    def again(self, message: Message) -> Any:
        """Call the function with the arguments in ``message``."""
        owner = (_registered(message),) if message.properties.get("task.bound") else ()
        return self._function(*owner, *message.body["args"], **message.body["kwargs"])

    def objection(self, message: Message) -> str:
        """Return the reason why the function cannot be called with ``message``, or an empty string."""
        body = message.body
        if (
            not isinstance(body, dict)
            or not isinstance(body.get("args"), list)
            or not isinstance(body.get("kwargs"), dict)
            or set(body) != {"args", "kwargs"}
        ):
            return "the body of a task has args, a list, and kwargs, an object"
        if message.properties.get("task.bound") and _registered(message) is None:
            return "the task that it is bound to is not in this process"
        return ""


def _registered(message: Message) -> Any:
    """Return the Celery task that a bound function receives."""
    celery = sys.modules.get("celery")
    if celery is None:
        return None
    return celery.current_app.tasks.get(message.properties.get("task.name"))


def _celery_task(args: tuple[Any, ...]) -> Any:
    """Return the running Celery task, or None."""
    celery = sys.modules.get("celery")
    task = None if celery is None else celery.current_task
    if not task:
        return None
    found = task._get_current_object() if hasattr(task, "_get_current_object") else task
    return args[0] if args and args[0] == found else found


def _headers_of(request: Any) -> list[tuple[str, str]]:
    """Return the text headers of the job."""
    sent = getattr(request, "headers", None)
    if not isinstance(sent, Mapping):
        return []
    return [(str(name), value) for name, value in sent.items() if isinstance(value, str)]
