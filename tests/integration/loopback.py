"""A server on the loopback for programs with aiohttp, and the three ways to run such a program."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

import reenact
from reenact.format.event import Event

__all__ = ["Loopback", "Program", "failure"]

Program = Callable[[], Awaitable[Any]]
Handler = Callable[["Loopback", web.Request], Awaitable[web.StreamResponse]]
RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Loopback:
    """Serves ``routes`` of aiohttp, and ``raw`` handlers on a port of their own, from a thread.

    ``step`` lets one handler that waits in ``stepped`` go on. It does so through a pipe: what a
    program does to another thread would be part of its recording.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.warnings: list[str] = []
        self.connections = 0
        self.raw: RawHandler | None = None
        self._loop = asyncio.new_event_loop()
        self._pipe = os.pipe()
        self._steps = asyncio.Semaphore(0)
        self._loop.add_reader(self._pipe[0], self._stepped)
        self.app = web.Application()
        self._runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=0)
        self._thread = threading.Thread(target=self._loop.run_forever)

    def start(self, routes: Mapping[str, Handler]) -> None:
        for path, handler in routes.items():
            self.app.router.add_route("*", path, self._counting(handler))
        port, raw_port = self._loop.run_until_complete(self._start())
        self.url = f"http://127.0.0.1:{port}"
        self.raw_url = f"http://127.0.0.1:{raw_port}"
        self._thread.start()

    def _counting(self, handler: Handler) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.asked.append(f"{request.method} {request.path}")
            return await handler(self, request)

        return handle

    async def _start(self) -> tuple[int, int]:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._raw_server = await asyncio.start_server(self._serve_raw, "127.0.0.1", 0)
        port: int = self._runner.addresses[0][1]
        return port, self._raw_server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for end in self._pipe:
            os.close(end)

    async def _stop(self) -> None:
        self._loop.remove_reader(self._pipe[0])
        self._raw_server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._runner.cleanup()

    async def _serve_raw(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        assert self.raw is not None
        try:
            await self.raw(reader, writer)
        finally:
            writer.close()

    def _stepped(self) -> None:
        for _ in os.read(self._pipe[0], 100):
            self._steps.release()

    def step(self) -> None:
        """In the program."""
        os.write(self._pipe[1], b".")

    async def stepped(self) -> None:
        """In a handler."""
        await self._steps.acquire()

    async def _forget_steps(self) -> None:
        # A step of the last program may still be in the pipe: it must not release a handler of the next.
        if select.select([self._pipe[0]], [], [], 0)[0]:
            os.read(self._pipe[0], 4096)
        self._steps = asyncio.Semaphore(0)

    def _begin(self) -> None:
        asyncio.run_coroutine_threadsafe(self._forget_steps(), self._loop).result()

    # Running a program

    def plain(self, program: Program) -> Any:
        """What happens without us."""
        self._begin()
        return asyncio.run(program())  # type: ignore[arg-type]

    def record(self, program: Program, **options: Any) -> Any:
        self._begin()
        with self.session("record", **options):
            return asyncio.run(program())  # type: ignore[arg-type]

    def replay(self, program: Program, **options: Any) -> Any:
        """What happens from the recording; nobody comes to the server."""
        before = len(self.asked), self.connections
        with self.session("replay", **options) as session:
            result: Any = asyncio.run(program())  # type: ignore[arg-type]
        assert (len(self.asked), self.connections) == before
        assert session.divergences() == []
        return result

    def session(self, mode: str, **options: Any) -> reenact.Session:
        given = {"strict": True, "warn": self.warnings.append, **options}
        return reenact.session(capture=self.folder / "run", mode=mode, **given)

    def check(self, program: Program) -> Any:
        """Run it as it is, recorded, and twice replayed: all the same. What it gave."""
        plain = self.plain(program)
        recorded = self.record(program)
        assert recorded == plain
        for _ in range(2):
            assert self.replay(program) == recorded
        assert self.warnings == []
        return recorded

    def check_again(self, program: Program) -> Any:
        """The same for a program that does not do the same in every run, unless it is replayed."""
        recorded = self.record(program)
        for _ in range(2):
            assert self.replay(program) == recorded
        assert self.warnings == []
        return recorded

    def calls(self) -> list[Event]:
        """What was recorded of the network."""
        with reenact.open_recording(self.folder / "run") as source:
            return [event for event in source if event.data.get("source") == "network"]


async def failure(asked: Awaitable[Any]) -> list[Any]:
    """What ``asked`` raises: class, text, repr of it and of its causes."""
    told: list[Any] = []
    try:
        await asked
    except Exception as error:  # the tests look at what it is
        cause: BaseException | None = error
        while cause is not None:
            told.append((type(cause), str(cause), repr(cause)))
            cause = cause.__cause__
    return told
