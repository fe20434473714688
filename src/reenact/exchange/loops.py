"""Loops, splits and choices that lineage knows: rounds and parts do not collapse into one."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

from reenact.exchange.flow import Place, Running, at, here
from reenact.exchange.steps import is_step, step

__all__ = ["Choice", "aloop", "choice", "loop", "split"]

T = TypeVar("T")


def loop(name: str, items: Iterable[T]) -> Iterator[T]:
    """``for item in loop("lines", order.lines): …``: what steps do in the body is in a round."""
    place = here()
    if place is None:
        yield from items
        return
    running = place.flow.begin(place, name, "loop")
    try:
        for round_, item in enumerate(items):
            with at(running.part(round_)):
                yield item
    except (
        GeneratorExit
    ):  # the body left it: by break, return, or an error that somebody else tells
        running.end()
        raise
    except BaseException as error:
        running.end("failed", error)
        raise
    running.end()


async def aloop(name: str, items: AsyncIterable[T] | Iterable[T]) -> AsyncIterator[T]:
    """The same for ``async for``; over what is asynchronous, and what is not."""
    place = here()
    source = items if isinstance(items, AsyncIterable) else _in_turn(items)
    if place is None:
        async for item in source:
            yield item
        return
    running = place.flow.begin(place, name, "loop")
    round_ = 0
    try:
        async for item in source:
            with at(running.part(round_)):
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
    """``function`` for each of ``items``, as a part of its own; the results in the order of the
    items. ``at_once`` parts run at a time: in threads, or as tasks where ``function`` is
    asynchronous (then it is awaited). The first error, in that order, is raised once all are done.
    """
    part = function if is_step(function) else step(function)
    if inspect.iscoroutinefunction(function):
        return _split_tasks(name, list(items), part, max(1, at_once))
    return _split_threads(name, list(items), part, max(1, at_once))


def _split_threads(
    name: str, items: list[Any], part: Callable[[Any], Any], at_once: int
) -> list[Any]:
    place = here()
    running = None if place is None else place.flow.begin(place, name, "split")

    def one(index: int) -> Any:
        if running is None:
            return part(items[index])
        with at(running.part(index)):
            return part(items[index])

    with _Ending(running):
        if at_once == 1 or len(items) < 2:
            return [one(index) for index in range(len(items))]
        with ThreadPoolExecutor(min(at_once, len(items))) as pool:
            jobs = [pool.submit(copy_context().run, one, index) for index in range(len(items))]
        return [job.result() for job in jobs]


async def _split_tasks(
    name: str, items: list[Any], part: Callable[[Any], Awaitable[Any]], at_once: int
) -> list[Any]:
    import asyncio

    place = here()
    running = None if place is None else place.flow.begin(place, name, "split")
    free = asyncio.Semaphore(at_once)

    async def one(index: int) -> Any:
        async with free:
            if running is None:
                return await part(items[index])
            with at(running.part(index)):
                return await part(items[index])

    with _Ending(running):
        if at_once == 1:
            return [await one(index) for index in range(len(items))]
        done = await asyncio.gather(*map(one, range(len(items))), return_exceptions=True)
        for found in done:
            if isinstance(found, BaseException):
                raise found
        return list(done)


class _Ending:
    """Ends a processor as the block ends."""

    def __init__(self, running: Running | None) -> None:
        self._running = running

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running is not None:
            self._running.end("completed" if error is None else "failed", error)


class Choice:
    """Which way was taken. ``with choice("size") as way: if way.when("big", n > 9): …``"""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: Running | None = None
        self._block: Any = None
        self.branch = ""
        """The label of the first way whose condition held."""

    def when(self, label: str, condition: object) -> bool:
        """Does ``condition`` hold? Then ``label`` is the way that was taken."""
        if condition and not self.branch:
            self._take(label)
        return bool(condition)

    def otherwise(self) -> bool:
        """The way that is left. True."""
        if not self.branch:
            self._take("otherwise")
        return True

    def _take(self, label: str) -> None:
        self.branch = label
        if self._running is not None:
            self._running.branch = label

    def __enter__(self) -> Self:
        place: Place | None = here()
        if place is not None:
            self._running = place.flow.begin(place, self._name, "choice")
            self._block = at(self._running.inside)
            self._block.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running is not None:
            self._block.__exit__(None, None, None)
            self._running.end("completed" if error is None else "failed", error)


def choice(name: str) -> Choice:
    """A choice, to be entered with ``with``."""
    return Choice(name)
