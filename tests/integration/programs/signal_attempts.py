"""Work that a replay hands to workers outside it with a signal instead of a queue.

``signal_attempts.py RECORDING RESULTS PORT`` writes one entry per attempt. Each worker first does an
item from outside, then one from inside a strict replay, then one from outside again: the paths of the
first and the last must reach the witness on PORT, that of the second must not.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import os
import sqlite3
import sys
import threading
import urllib.request
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import anyio

import reenact

RECORDING, RESULTS, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
ADDRESS = f"http://127.0.0.1:{PORT}"
DATABASE = Path(RESULTS).with_name("database.sqlite")
found: dict[str, dict[str, Any]] = {}


def session(warn: Callable[[str], None] = lambda text: None) -> reenact.Session:
    return reenact.session(capture=RECORDING, mode="replay", strict=True, warn=warn)


def send(path: str) -> None:
    urllib.request.urlopen(f"{ADDRESS}/{path}").read()


class Worker:
    """A thread that lives as long as the program. Its items are in a list, with a signal."""

    send = staticmethod(send)

    def __init__(self) -> None:
        self.items: deque[str] = deque()
        self.said = ""
        self.begun = threading.Semaphore(0)
        self.gate = threading.Lock()
        self.done = threading.Lock()
        self.done.acquire()
        self.make()
        self.thread = threading.Thread(target=self.run, name="long-lived", daemon=True)
        self.thread.start()

    def make(self) -> None:
        """Make the object that signals."""

    def signal(self) -> None:
        raise NotImplementedError

    def wait(self) -> str:
        """Return the next item."""
        raise NotImplementedError

    def run(self) -> None:
        while True:
            path = self.wait()
            if not path:
                return
            with self.gate:
                try:
                    self.send(path)
                    self.said = "sent"
                except Exception as error:
                    self.said = f"{type(error).__name__}: {error}"
            self.done.release()

    def give(self, path: str) -> None:
        self.items.append(path)
        self.signal()

    def settle(self) -> None:
        """Return when the worker waits."""
        ident = self.thread.ident or 0
        gc.disable()  # a collection that begins while the frames are listed can stop all threads
        while sys._current_frames()[ident].f_code.co_qualname != "Condition.wait":
            os.sched_yield()
        gc.enable()

    def do(self, path: str) -> str:
        self.settle()
        self.give(path)
        self.done.acquire()
        return self.said


class ByCondition(Worker):
    def make(self) -> None:
        self.condition = threading.Condition()

    def signal(self) -> None:
        with self.condition:
            self.condition.notify()

    def wait(self) -> str:
        with self.condition:
            while not self.items:
                self.condition.wait()
            return self.items.popleft()


class ByPredicate(ByCondition):
    def wait(self) -> str:
        with self.condition:
            self.condition.wait_for(lambda: self.items)
            return self.items.popleft()


class ByEvent(Worker):
    def make(self) -> None:
        self.event = threading.Event()

    def signal(self) -> None:
        self.event.set()

    def wait(self) -> str:
        self.event.wait()
        self.event.clear()
        return self.items.popleft()


class ByTimedEvent(ByEvent):
    def wait(self) -> str:
        while not self.event.wait(0.05):
            pass
        self.event.clear()
        return self.items.popleft()


class ByStatement(ByEvent):
    """Its work is a statement of a database that it has opened before."""

    def make(self) -> None:
        super().make()
        self.connection = sqlite3.connect(DATABASE, check_same_thread=False, isolation_level=None)
        self.connection.execute("create table if not exists paths (path)")

    def send(self, path: str) -> None:
        self.connection.execute("insert into paths values (?)", [path])


class BySemaphore(Worker):
    def make(self) -> None:
        self.semaphore = threading.Semaphore(0)

    def signal(self) -> None:
        self.semaphore.release()

    def wait(self) -> str:
        self.semaphore.acquire()
        return self.items.popleft()


class ByBarrier(Worker):
    def make(self) -> None:
        self.barrier = threading.Barrier(2)

    def signal(self) -> None:
        self.barrier.wait()

    def wait(self) -> str:
        self.barrier.wait()
        return self.items.popleft()


class ByFuture(Worker):
    def make(self) -> None:
        self.future: Future[str] = Future()

    def give(self, path: str) -> None:
        self.future.set_result(path)

    def wait(self) -> str:
        result = self.future.result()
        self.future = Future()
        return result


def attempt(
    name: str, do: Callable[[str], str], inside: Callable[[str], str] | None = None
) -> None:
    said = [do(f"{name}/before")]
    made = session()
    try:
        with made:
            said.append((inside or do)(f"{name}/inside"))
        ended = ""
    except reenact.DivergenceError as error:
        ended = " ".join(str(error).split())
    said.append(do(f"{name}/after"))
    found[name] = {"said": said, "ended": ended, "status": made.report().status}


def while_busy(worker: Worker, name: str) -> None:
    """The worker has waited during the replay, and works for others when the replay signals it."""
    go, went = threading.Lock(), threading.Lock()
    go.acquire()
    went.acquire()

    def feed() -> None:
        go.acquire()
        worker.do(f"{name}/first")
        worker.gate.acquire()
        worker.give(f"{name}/second")
        while worker.items:
            pass
        went.release()

    threading.Thread(target=feed, daemon=True).start()

    def inside(path: str) -> str:
        go.release()
        went.acquire()
        worker.give(path)
        worker.gate.release()
        worker.done.acquire()  # the second item
        worker.done.acquire()
        return worker.said

    attempt(name, worker.do, inside)


def threads(prefix: str = "") -> None:
    kinds = (ByCondition, ByPredicate, ByEvent, ByTimedEvent, BySemaphore, ByBarrier, ByFuture)
    for kind in (*kinds, ByStatement):
        attempt(prefix + kind.__name__, kind().do)
    for kind in (ByCondition, ByEvent, BySemaphore):
        while_busy(kind(), f"{prefix}busy.{kind.__name__}")


class TaskWorker:
    """A task that lives as long as the loop."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.items: deque[str] = deque()
        self.make()

    def make(self) -> None:
        """Make the object that signals."""

    async def signal(self, path: str) -> None:
        raise NotImplementedError

    async def wait(self) -> str:
        raise NotImplementedError

    async def run(self) -> None:
        while True:
            path = await self.wait()
            try:
                async with self.client.get(f"{ADDRESS}/{path}") as answer:
                    await answer.read()
                said = "sent"
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            self.said.set_result(said)

    async def do(self, path: str) -> str:
        self.said = asyncio.get_running_loop().create_future()
        for _ in range(3):  # then the worker waits, also in a task of its own
            await asyncio.sleep(0)
        await self.signal(path)
        return str(await self.said)


class Event(TaskWorker):
    def make(self) -> None:
        self.event = asyncio.Event()

    async def signal(self, path: str) -> None:
        self.items.append(path)
        self.event.set()

    async def wait(self) -> str:
        await self.event.wait()
        self.event.clear()
        return self.items.popleft()


class WaitFor(Event):
    async def wait(self) -> str:
        await asyncio.wait_for(self.event.wait(), 60)
        self.event.clear()
        return self.items.popleft()


class Wait(Event):
    async def wait(self) -> str:
        await asyncio.wait([asyncio.create_task(self.event.wait())])
        self.event.clear()
        return self.items.popleft()


class Posted(Event):
    async def signal(self, path: str) -> None:
        self.items.append(path)
        asyncio.get_running_loop().call_soon_threadsafe(self.event.set)


class Condition(TaskWorker):
    def make(self) -> None:
        self.condition = asyncio.Condition()

    async def signal(self, path: str) -> None:
        self.items.append(path)
        async with self.condition:
            self.condition.notify()

    async def wait(self) -> str:
        async with self.condition:
            await self.condition.wait_for(lambda: self.items)
            return self.items.popleft()


class Semaphore(TaskWorker):
    def make(self) -> None:
        self.semaphore = asyncio.Semaphore(0)

    async def signal(self, path: str) -> None:
        self.items.append(path)
        self.semaphore.release()

    async def wait(self) -> str:
        await self.semaphore.acquire()
        return self.items.popleft()


class Result(TaskWorker):
    def make(self) -> None:
        self.future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def signal(self, path: str) -> None:
        self.future.set_result(path)

    async def wait(self) -> str:
        path = await self.future
        self.make()
        return path


class PostedResult(Result):
    async def signal(self, path: str) -> None:
        asyncio.get_running_loop().call_soon_threadsafe(self.future.set_result, path)


class Wrapped(TaskWorker):
    def make(self) -> None:
        self.future: Future[str] = Future()

    async def signal(self, path: str) -> None:
        self.future.set_result(path)

    async def wait(self) -> str:
        path = await asyncio.wrap_future(self.future)
        self.make()
        return path


class Stream(TaskWorker):
    def make(self) -> None:
        self.sender, self.receiver = anyio.create_memory_object_stream[str](5)

    async def signal(self, path: str) -> None:
        await self.sender.send(path)

    async def wait(self) -> str:
        return await self.receiver.receive()


class Iterated(Stream):
    async def wait(self) -> str:
        async for path in self.receiver:
            return path
        raise EOFError


class AnyioEvent(TaskWorker):
    def make(self) -> None:
        self.event = anyio.Event()

    async def signal(self, path: str) -> None:
        self.items.append(path)
        self.event.set()

    async def wait(self) -> str:
        await self.event.wait()
        self.make()
        return self.items.popleft()


class QueueInTime(TaskWorker):
    def make(self) -> None:
        self.queue: asyncio.Queue[str] = asyncio.Queue()

    async def signal(self, path: str) -> None:
        self.queue.put_nowait(path)

    async def wait(self) -> str:
        return await asyncio.wait_for(self.queue.get(), 60)


async def attempt_task(name: str, do: Callable[[str], Awaitable[str]]) -> None:
    said = [await do(f"{name}/before")]
    made = session()
    try:
        async with made:
            said.append(await do(f"{name}/inside"))
        ended = ""
    except reenact.DivergenceError as error:
        ended = " ".join(str(error).split())
    said.append(await do(f"{name}/after"))
    found[name] = {"said": said, "ended": ended, "status": made.report().status}


async def tasks(prefix: str = "") -> None:
    import aiohttp

    kinds = (Event, WaitFor, Wait, Posted, Condition, Semaphore, Result, PostedResult, Wrapped)
    async with aiohttp.ClientSession() as client:
        for kind in (*kinds, Stream, Iterated, AnyioEvent, QueueInTime):
            worker = kind(client)
            task = asyncio.create_task(worker.run())
            await attempt_task(f"{prefix}task.{kind.__name__}", worker.do)
            task.cancel()


def after_the_end() -> None:
    """The worker acts when the session has ended."""
    warnings: list[str] = []
    worker = ByEvent()
    worker.do("late/before")
    worker.settle()
    worker.gate.acquire()
    with session(warnings.append) as made:
        worker.give("late/inside")
    worker.gate.release()
    worker.done.acquire()
    said = [worker.said, worker.do("late/after")]
    found["late"] = {
        "said": ["sent", *said],
        "ended": " ".join(warnings),
        "status": made.report().status,
    }


if __name__ == "__main__":
    threads()
    asyncio.run(tasks())
    after_the_end()
    # With another replay open, the workers wait in the patched methods.
    other, context = session(), contextvars.copy_context()
    context.run(other.__enter__)
    threads("again.")
    asyncio.run(tasks("again."))
    context.run(other.__exit__, None, None, None)
    with sqlite3.connect(DATABASE) as connection:
        rows = [path for (path,) in connection.execute("select path from paths")]
    found["database"] = {"said": rows, "ended": "", "status": ""}
    Path(RESULTS).write_text(json.dumps(found), encoding="utf-8")
