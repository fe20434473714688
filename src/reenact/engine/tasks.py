"""Tasks whose hash is their lane's, so that sets of them iterate the same every time.

``asyncio.wait`` returns sets, a ``TaskGroup`` cancels a set of tasks, an executor's
``as_completed`` yields a set: by address, the order would be another one in every run.
"""

from __future__ import annotations

import asyncio
import builtins
from asyncio import coroutines
from collections.abc import Iterable
from typing import Any

from reenact.engine.current import current
from reenact.engine.lanes import lane_hash

__all__ = ["OrderedCoroutines", "make_task"]


class _Task(asyncio.Task[Any]):
    lane_hash: int

    def __hash__(self) -> int:
        return self.lane_hash


_Task.__name__ = _Task.__qualname__ = "Task"  # as people see it in a repr


def make_task(loop: Any, coro: Any, lane: str, **kwargs: Any) -> Any:
    """What ``loop.create_task`` makes where no task factory is set."""
    if loop.is_closed():
        raise RuntimeError("Event loop is closed")
    task = _Task.__new__(_Task)
    task.lane_hash = lane_hash(lane)  # before __init__, which already asks for it
    task.__init__(coro, loop=loop, **kwargs)  # type: ignore[misc]
    return task


class OrderedCoroutines:
    """``asyncio.as_completed`` makes tasks of a set of coroutines: by address, again.

    The module gets a ``set`` of its own, because a function that a program has imported by name
    could no longer be replaced.
    """

    def install(self) -> None:
        asyncio.tasks.set = _set  # type: ignore[attr-defined]

    def remove(self) -> None:
        del asyncio.tasks.set  # type: ignore[attr-defined]


def _set(items: Iterable[Any] = ()) -> Any:
    """A set; of coroutines in a session, something that iterates over them in their order."""
    given = list(items)
    if current() is not None and any(map(coroutines.iscoroutine, given)):
        return dict.fromkeys(given)
    return builtins.set(given)
