"""A real connection: the SDK's own transport, alive in a task of its own, in no session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import anyio

from reenact.boundaries.mcp.dialects import CLOSED, dump_item, is_answer, is_request, make_message
from reenact.boundaries.mcp.said import Said
from reenact.engine.execution.stream_chunks import END
from reenact.engine.patches import unpatched_loop
from reenact.engine.session.context import context_outside_sessions
from reenact.format.event import Data

__all__ = ["Connection", "Transport"]

Transport = Callable[[Said], AbstractAsyncContextManager[Any]]
"""Makes the transport; a process that it starts writes its errors where it is told."""

_REFUSED: Data = {"code": -32601, "message": "Method not found: the client replays a recording"}


class Connection:
    """Lives until :meth:`close`. All its methods are called in no session.

    What the server says by itself is in :meth:`messages`, or, where nobody ``listens``, forgotten.
    """

    def __init__(self, transport: Transport, *, listens: bool) -> None:
        loop = asyncio.get_running_loop()
        self._transport = transport
        self._listens = listens
        self._streams: Any = None
        self._ready: asyncio.Future[None] = loop.create_future()
        self._stop = asyncio.Event()
        self._asked: dict[Any, asyncio.Future[Data]] = {}
        self._over = False
        self._failure: BaseException | None = None
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self._scope = anyio.CancelScope()
        self._task = unpatched_loop.create_task(
            loop, self._live(), name="mcp", context=context_outside_sessions()
        )

    @property
    def is_over(self) -> bool:
        """Has it been closed, to the end?"""
        return self._task.done()

    # Its life

    async def open(self) -> None:
        """Connect. Raises what the transport raises."""
        try:
            await asyncio.shield(self._ready)
        except asyncio.CancelledError:
            await self.end()
            raise

    async def _live(self) -> None:
        said = Said(self._heard)
        try:
            with self._scope:
                async with self._transport(said) as streams:
                    said.begin()
                    self._streams = streams
                    self._ready.set_result(None)
                    await self._serve()
        except BaseException as error:  # noqa: BLE001 - raised where it is opened, or listened to
            if self._ready.done():
                self._failure = error
            else:
                self._ready.set_exception(error)
        finally:
            said.end()
            if self._failure is None:  # else who waits for an answer is cancelled, as without us
                self._ended()
            self._said.put_nowait(END)

    async def _serve(self) -> None:
        reading = asyncio.ensure_future(self._read())
        try:
            await self._stop.wait()
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    def close(self) -> None:
        """Hang up. When the server has ended, so have its messages."""
        self._stop.set()

    async def end(self) -> None:
        """See it end. Where nobody has hung up, the transport is told that it is cancelled, in the
        way that it expects."""
        if not self._stop.is_set():
            self._scope.cancel()
        while not self._task.done():
            await asyncio.wait([self._task])

    # What is said

    async def ask(self, item: Any, data: Data) -> Data:
        """Send a request; what it is answered."""
        number = data["id"]
        answer: asyncio.Future[Data] = asyncio.get_running_loop().create_future()
        if self._over:
            return {"error": CLOSED}
        self._asked[number] = answer
        try:
            await self.say(item)
            return await answer
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return {"error": CLOSED}
        finally:
            self._asked.pop(number, None)

    async def say(self, item: Any) -> None:
        """Send what wants no answer."""
        await self._streams[1].send(item)

    def session_id(self) -> str | None:
        """What the server calls this conversation, where the transport tells."""
        found: str | None = self._streams[2]() if len(self._streams) > 2 else None
        return found

    async def messages(self) -> AsyncIterator[Data]:
        """What the server says by itself, and what its process writes to its standard error.

        An answer is given to who asked when everything that came before it has been taken. Raises
        what the transport raises at its end.
        """
        try:
            while (piece := await self._said.get()) is not END:
                if isinstance(piece, _Answer):
                    piece.give()
                else:
                    yield piece
            if self._failure is not None:
                raise self._failure
        finally:
            self._listens = False
            while not self._said.empty():
                _give(self._said.get_nowait())

    async def _read(self) -> None:
        with suppress(anyio.ClosedResourceError):
            async for item in self._streams[0]:
                await self._came(item)
        self._ended()
        self._heard({"closed": True})

    async def _came(self, item: Any) -> None:
        data = dump_item(item)
        waiting = self._asked.get(_number(data["id"], self._asked)) if is_answer(data) else None
        if waiting is not None:
            self._answered(waiting, data)
        elif self._listens:
            self._said.put_nowait(data)
        elif is_request(data):
            await self.say(make_message({"id": data["id"], "error": _REFUSED}))

    def _heard(self, piece: Data) -> None:
        if self._listens:
            self._said.put_nowait(piece)

    def _ended(self) -> None:
        """Nobody will answer any more."""
        self._over = True
        for waiting in self._asked.values():
            self._answered(waiting, {"error": CLOSED})

    def _answered(self, waiting: asyncio.Future[Data], data: Data) -> None:
        answer = _Answer(waiting, data)
        if self._listens:
            self._said.put_nowait(answer)
        else:
            answer.give()


class _Answer:
    """Waits for its turn behind what the server said before."""

    def __init__(self, waiting: asyncio.Future[Data], data: Data) -> None:
        self._waiting = waiting
        self._data = data

    def give(self) -> None:
        if not self._waiting.done():
            self._waiting.set_result(self._data)


def _give(piece: Any) -> None:
    if isinstance(piece, _Answer):
        piece.give()


def _number(number: Any, known: dict[Any, Any]) -> Any:
    """Some servers answer to ``"7"`` when they were asked ``7``."""
    if number not in known and isinstance(number, str) and number.isdecimal():
        return int(number)
    return number
