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
from reenact.exchange.route_revision import Definition

__all__ = [
    "Adapter",
    "LoopBridge",
    "run_in_context",
]


class Adapter(Protocol):
    """Entry point of an app. Client threads call the methods while the app runs."""

    def routes(self) -> tuple[Route, ...]:
        """Return the current routes."""

    def definition(self, route_id: str) -> Definition:
        """Return the definition of the route ``route_id``."""

    def objection(self, route_id: str, payload: Payload) -> str:
        """Return the reason why ``payload`` cannot take ``route_id``, or an empty string."""

    def enter(
        self, active: ActiveExchange, route_id: str, payload: Payload, cancelled: threading.Event
    ) -> Exchange:
        """Replay ``payload``: open the exchange where the app's code runs, run it, and close it.
        Raises :class:`ReplayCancelled`."""


T = TypeVar("T")

_LOOK_EVERY = 0.05
"""Seconds between checks for cancellation and for the end of the loop."""


class LoopBridge:
    """Event loop of an app. Replays get their own loop before it is known and after it has ended."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def remember(self) -> None:
        """Remember the running loop."""
        self._loop = asyncio.get_running_loop()

    def forget(self) -> None:
        """Forget the loop in a forked child."""
        self._loop = None

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], cancelled: threading.Event) -> T:
        """Return the result of ``work()``, run in a new task and context.

        Raises :class:`ReplayCancelled` if it was cancelled, even if ``work`` suppressed the
        cancellation.
        """
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
    """Return the result of ``work()``, run in this thread with a new context. Cancellation takes
    effect at the next step."""
    if cancelled.is_set():
        raise ReplayCancelled
    result = _fresh().run(work)
    if cancelled.is_set():
        raise ReplayCancelled
    return result


def _fresh() -> Context:
    """Return a context without variables of the caller and without a process-wide session."""
    context = Context()
    context.run(VARIABLE.set, OUTSIDE)
    return context
