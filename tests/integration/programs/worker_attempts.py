"""Work that a replay hands to workers outside it through every kind of queue.

``worker_attempts.py RECORDING RESULTS PORT`` writes one entry per attempt. Each worker first does an
item from outside, then one from inside a strict replay, then one from outside again: the paths of the
first and the last must reach the witness on PORT, that of the second must not.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import queue
import sys
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import requests

import reenact

RECORDING, RESULTS, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
ADDRESS = f"http://127.0.0.1:{PORT}"
found: dict[str, dict[str, Any]] = {}

Send = Callable[[str], None]


def sends_with_urllib(path: str) -> None:
    urllib.request.urlopen(f"{ADDRESS}/{path}").read()


def sends_with_requests() -> Send:
    client = requests.Session()

    def send(path: str) -> None:
        client.get(f"{ADDRESS}/{path}")

    return send


def sends_with_httpx() -> Send:
    client = httpx.Client()

    def send(path: str) -> None:
        client.get(f"{ADDRESS}/{path}")

    return send


def sends_with_http_client() -> Send:
    connection = http.client.HTTPConnection("127.0.0.1", PORT)

    def send(path: str) -> None:
        try:
            connection.request("GET", f"/{path}")
            connection.getresponse().read()
        except Exception:
            connection.close()  # as after any failure
            raise

    return send


def sends_in_a_thread(path: str) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            sends_with_urllib(path)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


class Custom(queue.Queue[Any]):
    """A queue that stores its items in its own way."""

    def _init(self, maxsize: int) -> None:
        self.stored: list[Any] = []

    def _qsize(self) -> int:
        return len(self.stored)

    def _put(self, item: Any) -> None:
        self.stored.append(item)

    def _get(self) -> Any:
        return self.stored.pop(0)


class Worker:
    """A thread that lives as long as the program. It goes on after an :class:`Exception`."""

    def __init__(self, items: Any, send: Send) -> None:
        self.items = items
        self.said = ""
        self._send = send
        self._done = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name="long-lived", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            item = self.items.get()
            self._work(item)

    def _work(self, item: Any) -> None:
        try:
            self._send(item[1])
            self.said = "sent"
        except Exception as error:
            self.said = f"{type(error).__name__}: {error}"
        self._done.release()

    def do(self, path: str) -> str:
        self.items.put((0, path))
        self._done.acquire()
        return self.said


class Iterating(Worker):
    """A worker that has bound ``get`` before any session."""

    def _run(self) -> None:
        for item in iter(self.items.get, None):
            self._work(item)


def session() -> reenact.Session:
    return reenact.session(capture=RECORDING, mode="replay", strict=True, warn=lambda text: None)


def attempt(name: str, do: Callable[[str], str]) -> None:
    said = [do(f"{name}/before")]
    made = session()
    try:
        with made:
            said.append(do(f"{name}/inside"))
        ended = ""
    except reenact.DivergenceError as error:
        ended = " ".join(str(error).split())
    said.append(do(f"{name}/after"))
    found[name] = {"said": said, "ended": ended, "status": made.report().status}


def threads() -> None:
    iterating = [Iterating(kind(), sends_with_urllib) for kind in (queue.Queue, queue.SimpleQueue)]
    for one in iterating:
        attempt(f"iter.{type(one.items).__name__}", one.do)
    kinds = (queue.Queue, queue.LifoQueue, queue.PriorityQueue, queue.SimpleQueue, Custom)
    for kind in kinds:
        worker = Worker(kind(), sends_with_urllib)
        attempt(f"queue.{kind.__name__}", worker.do)
    clients: dict[str, Send] = {
        "requests": sends_with_requests(),
        "httpx": sends_with_httpx(),
        "http.client": sends_with_http_client(),
        "thread": sends_in_a_thread,
    }
    for name, send in clients.items():
        attempt(name, Worker(queue.Queue(), send).do)
    with ThreadPoolExecutor(1) as pool:
        # The worker of a queue hands the work on to an executor.
        def submit(path: str) -> None:
            pool.submit(sends_with_urllib, path).result()

        attempt("executor", Worker(queue.SimpleQueue(), submit).do)


async def tasks() -> None:
    import aiohttp

    async with aiohttp.ClientSession() as client:
        items: asyncio.Queue[tuple[str, asyncio.Future[str]]] = asyncio.Queue()

        async def work() -> None:
            while True:
                path, said = await items.get()
                try:
                    async with client.get(f"{ADDRESS}/{path}") as answer:
                        await answer.read()
                    said.set_result("sent")
                except Exception as error:
                    said.set_result(f"{type(error).__name__}: {error}")

        async def do(path: str) -> str:
            said = asyncio.get_running_loop().create_future()
            items.put_nowait((path, said))
            return str(await said)

        worker = asyncio.create_task(work())
        said = [await do("asyncio/before")]
        made = session()
        try:
            async with made:
                said.append(await do("asyncio/inside"))
            ended = ""
        except reenact.DivergenceError as error:
            ended = " ".join(str(error).split())
        said.append(await do("asyncio/after"))
        found["asyncio"] = {"said": said, "ended": ended, "status": made.report().status}
        worker.cancel()


def after_the_end() -> None:
    """The worker acts when the session has ended."""
    items: queue.Queue[str] = queue.Queue()
    go, done = threading.Event(), threading.Semaphore(0)
    said: list[str] = []
    warnings: list[str] = []

    def run() -> None:
        while True:
            path = items.get()
            go.wait()
            try:
                sends_with_urllib(path)
                said.append("sent")
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}")
            done.release()

    threading.Thread(target=run, daemon=True).start()
    with reenact.session(
        capture=RECORDING, mode="replay", strict=True, warn=warnings.append
    ) as made:
        items.put("late/inside")
    go.set()
    done.acquire()
    items.put("late/after")
    done.acquire()
    found["late"] = {
        "said": ["sent", *said],
        "ended": " ".join(warnings),
        "status": made.report().status,
    }


if __name__ == "__main__":
    threads()
    asyncio.run(tasks())
    after_the_end()
    Path(RESULTS).write_text(json.dumps(found), encoding="utf-8")
