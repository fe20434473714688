"""Lanes: one numbered line of execution per thread, task, job or child process.

A lane is assigned when a thread, task or job is spawned, in program order, so it has the same
name in every run. The current lane belongs to the current task, otherwise to the thread (or to the
job that the thread works on). A context variable cannot hold it, because ``to_thread`` and
anyio copy context variables into their workers.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary
from zlib import crc32

from reenact.format.event import ROOT_LANE

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

__all__ = ["Lane", "Lanes", "WorkersLane", "lane_hash", "running_loop"]

_ident = threading.get_ident


def _none_yet() -> AbstractEventLoop | None:
    """Before the program imports asyncio no loop can run."""
    global _running
    events = sys.modules.get("asyncio.events")
    _running = getattr(events, "_get_running_loop", _none_yet)
    return None if _running is _none_yet else _running()


_running: Callable[[], AbstractEventLoop | None] = _none_yet


def running_loop() -> AbstractEventLoop | None:
    """The asyncio loop that runs in this thread."""
    return _running()


def _current_task(loop: AbstractEventLoop) -> Task[Any] | None:
    task: Task[Any] | None = sys.modules["asyncio"].current_task(loop)
    return task


def lane_hash(lane: str) -> int:
    """The hash of what is in ``lane``: sets of such things iterate the same every time."""
    return crc32(lane.encode())


class Lane:
    """One lane of a running session, with the counters that number what it does."""

    __slots__ = (
        "calls",
        "counted",
        "logged",
        "models",
        "name",
        "pool",
        "posts",
        "run",
        "side",
        "spawned",
        "timers",
        "told",
        "waits",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.spawned = 0
        self.calls = 0
        """Calls that were started."""
        self.logged = 0
        """Positions that are in the log."""
        self.models = 0
        """Model calls that were recorded."""
        self.counted = False
        """Does that count what a run that is forked begins with?"""
        self.run: Any = None
        """The draws that come one after the other just now, see :mod:`reenact.engine.draws`."""
        self.side: Any = None
        """Open run of draws without positions: of libraries, and facts."""
        self.told: dict[str, Any] | None = None
        """Facts about the host that the lane has read, see :mod:`reenact.boundaries.host`."""
        self.pool: str | None = None
        """Of a process that works for a pool: the lane of that."""
        self.timers = 0
        self.posts = 0
        self.waits = 0
        """Timed waits that ended in vain. The others are not counted: whether a thread has to wait
        for another one at all is a matter of chance."""

    def child(self) -> Lane:
        """The lane of what is spawned here next."""
        self.spawned += 1
        return Lane(f"{self.name}.{self.spawned}")

    def __repr__(self) -> str:
        return f"<Lane {self.name}>"


class WorkersLane(Lane):
    """The lane of a pool of processes: what is spawned here works for it."""

    __slots__ = ()

    def child(self) -> Lane:
        """The lane of the next worker."""
        lane = super().child()
        lane.pool = self.name
        return lane


class Lanes:
    """The lanes of one session. Every task and thread that was spawned in it is known."""

    def __init__(self) -> None:
        self.root = Lane(ROOT_LANE)
        self._tasks: WeakKeyDictionary[Task[Any], Lane] = WeakKeyDictionary()
        self._threads: dict[int, Lane] = {}
        self._strangers: Lane | None = None
        self._lock = threading.Lock()
        self._spawning = threading.local()

    def begin(self, lane: Lane) -> None:
        """Use ``lane`` as the root, for a continued recording or one process of several."""
        self.root = lane
        self._strangers = None

    def adopt(self) -> None:
        """Put the current thread or task into the root lane."""
        self._bind(self.root)

    def _bind(self, lane: Lane | None) -> None:
        task = self._task()
        if task is not None:
            if lane is None:
                self._tasks.pop(task, None)
            else:
                self._tasks[task] = lane
        elif lane is None:
            self._threads.pop(_ident(), None)
        else:
            self._threads[_ident()] = lane

    def _task(self) -> Task[Any] | None:
        loop = running_loop()
        return None if loop is None else _current_task(loop)

    def current(self) -> Lane:
        """The lane of what executes now."""
        loop = _running()
        if loop is not None:
            task = _current_task(loop)
            if task is not None:
                return self._tasks.get(task) or self._eager(task)
        return self._threads.get(_ident()) or self._stranger()

    def _eager(self, task: Task[Any]) -> Lane:
        """Return the lane of an eager task, which runs before its creator has bound it."""
        lane: Lane | None = getattr(self._spawning, "lane", None)
        if lane is None:
            lane = self._numbered_apart()
        else:
            self._spawning.lane = None
        self._tasks[task] = lane
        return lane

    def _stranger(self) -> Lane:
        """Return a new lane for a thread that was not started through Python."""
        lane = self._threads[_ident()] = self._numbered_apart()
        return lane

    def _numbered_apart(self) -> Lane:
        with self._lock:
            if self._strangers is None:
                self._strangers = Lane(f"{self.root.name}.0")
            return self._strangers.child()

    def spawn_apart(self) -> Lane:
        """Return a lane that does not shift other numbers, for code without a fixed place."""
        return self._numbered_apart()

    def spawn(self) -> Lane:
        """The lane of the task, thread or job that is being spawned now."""
        return self.current().child()

    @contextmanager
    def spawning(self, lane: Lane) -> Iterator[None]:
        """While a task is being made: should it start at once, it is in ``lane``."""
        self._spawning.lane = lane
        try:
            yield
        finally:
            self._spawning.lane = None

    def bind_task(self, task: Any, lane: Lane) -> None:
        """``task`` is in ``lane``."""
        self._tasks[task] = lane

    @contextmanager
    def inside(self, lane: Lane) -> Iterator[None]:
        """Run the block in ``lane``: a thread, a job or a tool."""
        task = self._task()
        if task is not None:
            before = self._tasks.get(task)
        else:
            before = self._threads.get(_ident())
        self._bind(lane)
        try:
            yield
        finally:
            self._bind(before)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Number tasks and threads of the block separately, because they are infrastructure."""
        with self.inside(self._numbered_apart()):
            yield

    def task_of(self, name: str) -> Task[Any] | None:
        """The task that is in lane ``name``; the innermost one where it waits for another."""
        for reference in reversed(self._tasks.keyrefs()):  # a copy: other threads spawn meanwhile
            task: Task[Any] | None = reference()
            if task is not None and not task.done():
                lane = self._tasks.get(task)
                if lane is not None and lane.name == name:
                    return task
        return None

    def thread_of(self, name: str) -> int | None:
        """The thread that is in lane ``name``, if it is one."""
        threads = list(self._threads.items())
        return next((ident for ident, lane in threads if lane.name == name), None)

    def after_fork(self, lane: Lane) -> None:
        """In a forked child: one thread is left, and it is in a lane of its own."""
        self._lock = threading.Lock()
        self._threads = {}
        self.begin(lane)
        self._bind(lane)
