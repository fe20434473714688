"""``@step``: a function that lineage knows. Outside an exchange it is the function, and no more."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final, ParamSpec, TypeVar, overload

from reenact.errors import UsageError
from reenact.exchange.changes import diff
from reenact.exchange.flow import PLACE, Place, Running, at
from reenact.exchange.message import Message
from reenact.exchange.values import shown

__all__ = ["STEP_ID", "Handler", "is_step", "step"]

STEP_ID: Final = "__reenact_step__"

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Handler = Callable[..., Any]
"""Gets the error, and then the arguments of what has failed."""


@overload
def step(name: F, /) -> F: ...


@overload
def step(name: str = "", /, *, on_error: Handler | None = None) -> Callable[[F], F]: ...


def step(name: Any = "", /, *, on_error: Handler | None = None) -> Any:
    """``@step``, ``@step("validate")``, ``@step("charge", on_error=refund)``.

    Inside an exchange every call is noted with its duration, status, error and calls; with what it
    changed, where it gets the :class:`Message`; else with arguments and result. ``on_error`` is
    called with the exception and the same arguments, and what it returns is the step's result.
    """
    if callable(name):
        return _stepped(name, "", None)
    return partial(_stepped, name=name, on_error=on_error)


def is_step(function: Any) -> bool:
    """Was it made one?"""
    return hasattr(function, STEP_ID)


def _stepped(function: Callable[..., Any], name: str, on_error: Handler | None) -> Any:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__qualname__} is a generator, and no step: nobody knows when it ends",
            hint="make steps of what it calls, or use loop(…)",
        )
    made = Step(function, name or getattr(function, "__qualname__", "step"), on_error)
    stepped = made.asynchronous() if inspect.iscoroutinefunction(function) else made.plain()
    setattr(stepped, STEP_ID, made.step_id)
    return stepped


class Step:
    """One function, its id, and what to do when it fails."""

    def __init__(
        self, function: Callable[..., Any], step_id: str, on_error: Handler | None = None
    ) -> None:
        self.function = function
        self.step_id = step_id
        self.on_error = on_error
        try:
            self._bind = inspect.signature(function).bind
        except (TypeError, ValueError):  # written in C
            self._bind = None  # type: ignore[assignment]

    def plain(self) -> Callable[..., Any]:
        """For a function."""
        get, function = PLACE.get, self.function

        @wraps(function)
        def stepped(*args: Any, **kwargs: Any) -> Any:
            place = get()
            if place is None or not place.flow.is_open:
                return function(*args, **kwargs)
            return self._run(place, args, kwargs)

        return stepped

    def asynchronous(self) -> Callable[..., Any]:
        """For a coroutine function."""
        get, function = PLACE.get, self.function

        @wraps(function)
        async def stepped(*args: Any, **kwargs: Any) -> Any:
            place = get()
            if place is None or not place.flow.is_open:
                return await function(*args, **kwargs)
            return await self._run_async(place, args, kwargs)

        return stepped

    def _run(self, place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen = Seen(self, place, args, kwargs)
        with at(seen.running.inside):
            try:
                result = self.function(*args, **kwargs)
            except BaseException as error:
                if not self._handles(error):
                    seen.failed(error)
                    raise
                handler = seen.handler(error)
                try:
                    result = handler.call(error, args, kwargs)
                except BaseException:
                    seen.failed(error)
                    raise
                seen.handled(error)
                return result
        seen.ended(result)
        return result

    async def _run_async(self, place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen = Seen(self, place, args, kwargs)
        with at(seen.running.inside):
            try:
                result = await self.function(*args, **kwargs)
            except BaseException as error:
                if not self._handles(error):
                    seen.failed(error)
                    raise
                handler = seen.handler(error)
                try:
                    result = await handler.call_async(error, args, kwargs)
                except BaseException:
                    seen.failed(error)
                    raise
                seen.handled(error)
                return result
        seen.ended(result)
        return result

    def _handles(self, error: BaseException) -> bool:
        return self.on_error is not None and isinstance(error, Exception)

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments by their names, which decide over what is secret."""
        try:
            bound = self._bind(*args, **kwargs)
        except TypeError:  # it cannot be called so, and will say so itself
            return shown({"args": args, "kwargs": kwargs})
        return shown(dict(bound.arguments))


class Seen:
    """One call of a step."""

    def __init__(
        self, made: Step, place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._made = made
        self._place = place
        self.running: Running = place.flow.begin(place, made.step_id)
        self._message = next((one for one in args[:2] if isinstance(one, Message)), None)
        if self._message is None:
            self.running.input = made.given(args, kwargs)
        else:
            self._before = self._message.document()

    def ended(self, result: Any) -> None:
        self._look()
        if self._message is None:
            self.running.output = shown(result)
        self.running.end()

    def failed(self, error: BaseException) -> None:
        self._look()
        self.running.end("failed", error)

    def handled(self, error: BaseException) -> None:
        self._look()
        self.running.end("handled", error)

    def handler(self, error: BaseException) -> Handling:
        assert self._made.on_error is not None
        return Handling(self._made.on_error, self.running.inside)

    def _look(self) -> None:
        if self._message is not None:
            self.running.changes = diff(self._before, self._message.document())


class Handling:
    """One call of an error handler: a processor of its own, inside what has failed."""

    def __init__(self, handler: Handler, place: Place) -> None:
        self._handler = handler
        name = getattr(handler, "__qualname__", type(handler).__name__)
        self._running = place.flow.begin(place, getattr(handler, STEP_ID, name), "handler")

    def call(self, error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with at(self._running.inside):
            try:
                result = self._handler(error, *args, **kwargs)
            except BaseException as problem:
                self._running.end("failed", problem)
                raise
        self._running.end()
        return result

    async def call_async(
        self, error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        with at(self._running.inside):
            try:
                result = self._handler(error, *args, **kwargs)
                if inspect.isawaitable(result):
                    result = await result
            except BaseException as problem:
                self._running.end("failed", problem)
                raise
        self._running.end()
        return result
