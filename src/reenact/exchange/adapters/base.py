"""Interface of the adapters, and execution of replays where the app's own code runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import TimeoutError as NotYet
from contextvars import Context
from typing import Any, Protocol, TypeVar

from reenact.engine.session.context import OUTSIDE, VARIABLE
from reenact.exchange.active_exchange import ActiveExchange
from reenact.exchange.client.interface import ReplayCancelled
from reenact.exchange.model import Exchange, Payload, Route
from reenact.exchange.revision import Definition

__all__ = [
    "Adapter",
    "LoopBridge",
    "run_in_context",
]


class Adapter(Protocol):
    """Called from threads of the link while the app works."""

    def routes(self) -> tuple[Route, ...]:
        """Those that can be gone through, as they are now."""

    def definition(self, route_id: str) -> Definition:
        """Of one of them."""

    def objection(self, route_id: str, payload: Payload) -> str:
        """Why ``payload`` cannot go through ``route_id``; empty when it can."""

    def enter(
        self, passage: ActiveExchange, route_id: str, payload: Payload, cancelled: threading.Event
    ) -> Exchange:
        """Go through: open ``passage`` where the app's code runs, run that, and close it. Raises
        :class:`ReplayCancelled`."""


T = TypeVar("T")

_LOOK_EVERY = 0.05
"""Seconds between two looks at whether a replay was cancelled, or its loop has ended."""


class LoopBridge:
    """The loop of an app. Before it is known, and after it has ended, replays have one of their
    own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def remember(self) -> None:
        """This is it."""
        self._loop = asyncio.get_running_loop()

    def afresh(self) -> None:
        """In a forked child: the loop was the parent's."""
        self._loop = None

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], cancelled: threading.Event) -> T:
        """What ``work()`` comes to, in a task and context of its own. Raises
        :class:`ReplayCancelled` when it was cancelled, whatever it did with that."""
        loop = self._loop
        if loop is None or not loop.is_running():
            return _fresh().run(asyncio.run, _watched(work, cancelled))
        future = asyncio.run_coroutine_threadsafe(_watched(work, cancelled), loop)
        while True:
            try:
                return future.result(_LOOK_EVERY)
            except NotYet:
                if future.done():
                    raise
                if not loop.is_running():
                    future.cancel()
                    raise ReplayCancelled from None


async def _watched(work: Callable[[], Coroutine[Any, Any, T]], cancelled: threading.Event) -> T:
    task = asyncio.get_running_loop().create_task(work(), context=_fresh())
    asked = False
    while True:
        await asyncio.wait({task}, timeout=_LOOK_EVERY)
        if task.done():
            break
        if cancelled.is_set() and not asked:
            asked = True
            task.cancel()
    if cancelled.is_set():
        if not task.cancelled():
            task.exception()  # it was looked at
        raise ReplayCancelled
    return task.result()


def run_in_context(work: Callable[[], T], cancelled: threading.Event) -> T:
    """The same for code that has no loop: here. It is cancelled when it comes to its next step."""
    if cancelled.is_set():
        raise ReplayCancelled
    result = _fresh().run(work)
    if cancelled.is_set():
        raise ReplayCancelled
    return result


def _fresh() -> Context:
    """Nothing of whoever asked for the replay, and no session of the whole process."""
    context = Context()
    context.run(VARIABLE.set, OUTSIDE)
    return context
