"""``@agent.route``: a function of one message that is called with what the message is made of."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from reenact.errors import UsageError
from reenact.exchange.message import Message
from reenact.exchange.steps import Handler
from reenact.exchange.ways import Way, Ways

__all__ = ["make_route"]


def make_route(
    ways: Ways, function: Callable[..., Any], route_id: str, on_error: Handler | None
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
    way = Way(route_id, "route", function, handler, on_error=on_error)
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
