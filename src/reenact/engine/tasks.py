"""Tasks and futures whose hash is their lane's, so that sets of them iterate the same every time.

``asyncio.wait`` returns sets, a ``TaskGroup`` cancels a set of tasks, an executor's
``as_completed`` yields a set: by address, the order would be another one in every run.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any
from zlib import crc32

__all__ = ["hash_future", "make_task"]


class _Task(asyncio.Task[Any]):
    lane_hash: int

    def __hash__(self) -> int:
        return self.lane_hash


class _Future(Future[Any]):
    lane_hash: int

    def __hash__(self) -> int:
        return self.lane_hash


for _kind, _name in ((_Task, "Task"), (_Future, "Future")):
    _kind.__name__ = _kind.__qualname__ = _name  # as people see them in a repr


def make_task(loop: Any, coro: Any, lane: str, **kwargs: Any) -> Any:
    """What ``loop.create_task`` makes where no task factory is set."""
    if loop.is_closed():
        raise RuntimeError("Event loop is closed")
    task = _Task.__new__(_Task)
    task.lane_hash = crc32(lane.encode())  # before __init__, which already asks for it
    task.__init__(coro, loop=loop, **kwargs)  # type: ignore[misc]
    return task


def hash_future(future: Any, lane: str) -> None:
    """Give an executor's future its hash. Nobody has put it into a set yet."""
    kind: Any = type(future)
    if kind is Future:
        future.lane_hash = crc32(lane.encode())
        future.__class__ = _Future
