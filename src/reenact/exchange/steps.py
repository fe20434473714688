"""Functions, loops, splits and choices that are recorded as processors of an exchange."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import partial, wraps
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, overload

from reenact.errors import UsageError
from reenact.exchange.context import (
    POSITION,
    Position,
    RunningProcessor,
    current_position,
    set_position,
)
from reenact.exchange.message import Message
from reenact.exchange.payload_edits import diff_documents
from reenact.exchange.snapshot import snapshot

__all__ = [
    "STEP_ID",
    "Choice",
    "Handler",
    "aloop",
    "awaited",
    "choice",
    "handler_block",
    "is_step",
    "loop",
    "split",
    "step",
]

STEP_ID: Final = "__reenact_step__"

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Handler = Callable[..., Any]
"""Called with the exception and the arguments of the failed function."""


@overload
def step(name: F, /) -> F: ...


@overload
def step(name: str = "", /, *, on_error: Handler | None = None) -> Callable[[F], F]: ...


def step(name: Any = "", /, *, on_error: Handler | None = None) -> Any:
    """Decorate a function as a step: ``@step``, ``@step("validate")``, ``@step("charge",
    on_error=refund)``.

    Inside an exchange, every call is recorded with its duration, status, error and calls. A step
    with a :class:`Message` is recorded with its changes, others with arguments and result.
    ``on_error`` is called with the exception and the same arguments, and its result is the step's
    result.
    """
    if callable(name):
        return _stepped(name, "", None)
    return partial(_stepped, name=name, on_error=on_error)


def is_step(function: Any) -> bool:
    """Return whether ``function`` is a step."""
    return hasattr(function, STEP_ID)


def _stepped(function: Callable[..., Any], name: str, on_error: Handler | None) -> Any:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__qualname__} is a generator, which cannot be a step: its end is not known",
            hint="make steps of what it calls, or use loop(…)",
        )
    made = Step(function, name or getattr(function, "__qualname__", "step"), on_error)
    stepped = made.asynchronous() if inspect.iscoroutinefunction(function) else made.plain()
    setattr(stepped, STEP_ID, made.step_id)
    return stepped


class Step:
    """Function of a step, with its id and error handler."""

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
        """Return the step of a function."""
        get, function = POSITION.get, self.function

        @wraps(function)
        def stepped(*args: Any, **kwargs: Any) -> Any:
            position = get()
            if position is None or not position.lineage.is_open:
                return function(*args, **kwargs)
            return self._run(position, args, kwargs)

        return stepped

    def asynchronous(self) -> Callable[..., Any]:
        """Return the step of a coroutine function."""
        get, function = POSITION.get, self.function

        @wraps(function)
        async def stepped(*args: Any, **kwargs: Any) -> Any:
            position = get()
            if position is None or not position.lineage.is_open:
                return await function(*args, **kwargs)
            return await self._run_async(position, args, kwargs)

        return stepped

    def _run(self, position: Position, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with StepCall(self, position, args, kwargs) as call:
            try:
                return call.ended(self.function(*args, **kwargs))
            except Exception as error:
                if self.on_error is None:
                    raise
                with call.handler(error):
                    return self.on_error(error, *args, **kwargs)

    async def _run_async(
        self, position: Position, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        with StepCall(self, position, args, kwargs) as call:
            try:
                return call.ended(await self.function(*args, **kwargs))
            except Exception as error:
                if self.on_error is None:
                    raise
                with call.handler(error):
                    return await awaited(self.on_error(error, *args, **kwargs))

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the arguments by name. Names decide what is secret."""
        try:
            bound = self._bind(*args, **kwargs)
        except TypeError:  # it cannot be called so, and will say so itself
            return snapshot({"args": args, "kwargs": kwargs})
        return snapshot(dict(bound.arguments))


async def awaited(value: Any) -> Any:
    """Return ``value``, or its result if it can be awaited."""
    return await value if inspect.isawaitable(value) else value


@contextmanager
def processor_block(running: RunningProcessor | None) -> Iterator[None]:
    """End ``running`` with the block, whose code is in it. Without a processor do nothing."""
    if running is None:
        yield
        return
    try:
        with set_position(running.inside):
            yield
    except BaseException as error:
        running.end("failed", error)
        raise
    running.end()


class StepCall:
    """Call of a step, as a block that ends the processor."""

    def __init__(
        self, made: Step, position: Position, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._running: RunningProcessor = position.lineage.begin(position, made.step_id)
        self._on_error = made.on_error
        self._failure: BaseException | None = None
        """The error that the handler of the step got."""
        self._result: Any = None
        self._message = next((one for one in args[:2] if isinstance(one, Message)), None)
        if self._message is None:
            self._running.input = made.given(args, kwargs)
        else:
            self._before = self._message.document()

    def __enter__(self) -> Self:
        self._position = set_position(self._running.inside)
        self._position.__enter__()
        return self

    def ended(self, result: Any) -> Any:
        """Note and return the result of the function."""
        self._result = result
        return result

    def handler(self, error: BaseException) -> AbstractContextManager[None]:
        """Return the block in which the handler is called with ``error``."""
        assert self._on_error is not None
        self._failure = error
        return handler_block(self._on_error, self._running.inside)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._position.__exit__(None, None, None)
        if self._message is not None:
            self._running.changes = diff_documents(self._before, self._message.document())
        if error is not None:
            self._running.end("failed", error if self._failure is None else self._failure)
        elif self._failure is not None:
            self._running.end("handled", self._failure)
        else:
            if self._message is None:
                self._running.output = snapshot(self._result)
            self._running.end()


def handler_block(handler: Handler, position: Position) -> AbstractContextManager[None]:
    """Return the block of an error handler, which is a processor inside the failed one."""
    name = getattr(handler, "__qualname__", type(handler).__name__)
    return processor_block(
        position.lineage.begin(position, getattr(handler, STEP_ID, name), "handler")
    )


T = TypeVar("T")


def loop(name: str, items: Iterable[T]) -> Iterator[T]:
    """Iterate over ``items`` as a loop: ``for item in loop("lines", order.lines): …``. Steps in the
    body belong to an iteration."""
    position = current_position()
    if position is None:
        yield from items
        return
    running = position.lineage.begin(position, name, "loop")
    try:
        for round_, item in enumerate(items):
            with set_position(running.part(round_)):
                yield item
    except GeneratorExit:  # the body left the loop: break, return, or an error reported elsewhere
        running.end()
        raise
    except BaseException as error:
        running.end("failed", error)
        raise
    running.end()


async def aloop(name: str, items: AsyncIterable[T] | Iterable[T]) -> AsyncIterator[T]:
    """Async variant of :func:`loop`, for async and plain iterables."""
    position = current_position()
    source = items if isinstance(items, AsyncIterable) else _in_turn(items)
    if position is None:
        async for item in source:
            yield item
        return
    running = position.lineage.begin(position, name, "loop")
    round_ = 0
    try:
        async for item in source:
            with set_position(running.part(round_)):
                yield item
            round_ += 1
    except GeneratorExit:
        running.end()
        raise
    except BaseException as error:
        running.end("failed", error)
        raise
    running.end()


async def _in_turn(items: Iterable[T]) -> AsyncIterator[T]:
    for item in items:
        yield item


def split(
    name: str, items: Iterable[Any], function: Callable[[Any], Any], *, at_once: int = 1
) -> Any:
    """Return the results of ``function`` for ``items``, each run as a separate part, in the order
    of the items.

    ``at_once`` parts run at a time: in threads, or as tasks if ``function`` is a coroutine function
    (then the result is awaited). The first error, in that order, is raised after all parts have
    ended.
    """
    part = function if is_step(function) else step(function)
    if inspect.iscoroutinefunction(function):
        return _split_tasks(name, list(items), part, max(1, at_once))
    return _split_threads(name, list(items), part, max(1, at_once))


def _split_threads(
    name: str, items: list[Any], part: Callable[[Any], Any], at_once: int
) -> list[Any]:
    position = current_position()
    running = None if position is None else position.lineage.begin(position, name, "split")

    def one(index: int) -> Any:
        if running is None:
            return part(items[index])
        with set_position(running.part(index)):
            return part(items[index])

    with processor_block(running):
        if at_once == 1 or len(items) < 2:
            return [one(index) for index in range(len(items))]
        with ThreadPoolExecutor(min(at_once, len(items))) as pool:
            jobs = [pool.submit(copy_context().run, one, index) for index in range(len(items))]
        return [job.result() for job in jobs]


async def _split_tasks(
    name: str, items: list[Any], part: Callable[[Any], Awaitable[Any]], at_once: int
) -> list[Any]:
    import asyncio

    position = current_position()
    running = None if position is None else position.lineage.begin(position, name, "split")
    free = asyncio.Semaphore(at_once)

    async def one(index: int) -> Any:
        async with free:
            if running is None:
                return await part(items[index])
            with set_position(running.part(index)):
                return await part(items[index])

    with processor_block(running):
        if at_once == 1:
            return [await one(index) for index in range(len(items))]
        done = await asyncio.gather(*map(one, range(len(items))), return_exceptions=True)
        for found in done:
            if isinstance(found, BaseException):
                raise found
        return list(done)


class Choice:
    """Choice between branches: ``with choice("size") as branch: if branch.when("big", n > 9): …``"""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: RunningProcessor | None = None
        self.branch = ""
        """Label of the first branch whose condition was true."""

    def when(self, label: str, condition: object) -> bool:
        """Return ``condition`` as a bool. The first true condition selects its branch."""
        if condition and not self.branch:
            self._take(label)
        return bool(condition)

    def otherwise(self) -> bool:
        """Select the remaining branch. Returns True."""
        if not self.branch:
            self._take("otherwise")
        return True

    def _take(self, label: str) -> None:
        self.branch = label
        if self._running is not None:
            self._running.branch = label

    def __enter__(self) -> Self:
        position = current_position()
        if position is not None:
            self._running = position.lineage.begin(position, self._name, "choice")
        self._block = processor_block(self._running)
        self._block.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._block.__exit__(kind, error, trace)


def choice(name: str) -> Choice:
    """Return a choice, for use with ``with``."""
    return Choice(name)
