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
