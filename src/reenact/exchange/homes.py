"""Running a replay where the app's own code runs: on its loop, or in a thread of the link."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import TimeoutError as NotYet
from contextvars import Context
from typing import Any, TypeVar

from reenact.engine.session.context import OUTSIDE, VARIABLE
from reenact.exchange.link.ports import ReplayCancelled

__all__ = ["Home", "in_thread"]

T = TypeVar("T")

_LOOK_EVERY = 0.05
"""Seconds between two looks at whether a replay was cancelled, or its loop has ended."""


class Home:
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


def in_thread(work: Callable[[], T], cancelled: threading.Event) -> T:
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
