"""Jobs of queue workers: functions whose arguments are the start payload."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from reenact.exchange.adapters.route import FunctionRoute, RouteRegistry
from reenact.exchange.message import Message

__all__ = ["make_task"]


def make_task(
    ways: RouteRegistry, function: Callable[..., Any], route_id: str
) -> Callable[..., Any]:
    """``function``, whose every call is an exchange. Under ``@app.task`` of Celery it gets the
    task's id, headers and retries from there; with ``bind=True`` the task is no part of the
    payload."""
    called = TaskArguments(function)
    way = FunctionRoute(route_id, "task", function, called.again, objection=called.objection)
    ways.add(way)
    if way.is_async:

        @wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            message, correlation_id = called.message(args, kwargs)
            return await ways.go_async(
                way, message, lambda: function(*args, **kwargs), correlation_id
            )

        return run_async

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        message, correlation_id = called.message(args, kwargs)
        return ways.go(way, message, lambda: function(*args, **kwargs), correlation_id)

    return run


class TaskArguments:
    """How a task is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def message(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Message, str]:
        """The start payload of a call, and what the queue calls it."""
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
        """The call that ``message`` is the payload of."""
        owner = (_registered(message),) if message.properties.get("task.bound") else ()
        return self._function(*owner, *message.body["args"], **message.body["kwargs"])

    def objection(self, message: Message) -> str:
        """Why it cannot be called so."""
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
    """The task object of Celery that a bound task gets."""
    celery = sys.modules.get("celery")
    if celery is None:
        return None
    return celery.current_app.tasks.get(message.properties.get("task.name"))


def _celery_task(args: tuple[Any, ...]) -> Any:
    """The Celery task that runs here, if one does."""
    celery = sys.modules.get("celery")
    task = None if celery is None else celery.current_task
    if not task:
        return None
    found = task._get_current_object() if hasattr(task, "_get_current_object") else task
    return args[0] if args and args[0] == found else found


def _headers_of(request: Any) -> list[tuple[str, str]]:
    """What the sender put into the headers, as far as it is text."""
    sent = getattr(request, "headers", None)
    if not isinstance(sent, Mapping):
        return []
    return [(str(name), value) for name, value in sent.items() if isinstance(value, str)]
