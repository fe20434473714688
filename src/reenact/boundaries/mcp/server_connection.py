"""Real MCP connection: the SDK's transport in a task outside the session, and its stderr."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import anyio

from reenact.boundaries.mcp.messages import CLOSED, dump_item, is_answer, is_request, make_message
from reenact.engine.execution.steps import END
from reenact.engine.patches import unpatched_loop
from reenact.engine.session.context import context_outside_sessions
from reenact.format.event import Data

__all__ = [
    "Connection",
    "Said",
    "Transport",
    "descriptor_of",
    "say_again",
]

_MOST = 65_536


class Said:
    """Pipe from the process. Each received piece is passed to ``heard``.

    It is used in the thread of the loop. ``pipe`` is requested at most once. :meth:`begin` is
    called when the process has its end of the pipe, and :meth:`end` when the process has ended.
    """

    def __init__(self, heard: Callable[[Data], None]) -> None:
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._ours: int | None = None
        self._theirs: Any = None

    def pipe(self) -> Any:
        """Return the file that the process writes to."""
        self._ours, theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._theirs = open(theirs, "w", encoding="utf-8")  # noqa: SIM115 - closed in begin or end
        return self._theirs

    def begin(self) -> None:
        """Start reading, after the process has started."""
        if self._ours is not None:
            self._theirs.close()
            self._loop.add_reader(self._ours, self._read)

    def end(self) -> None:
        """Read the rest of the pipe, after the process has ended."""
        if self._ours is not None:
            self._theirs.close()
            while self._read():
                pass
            if self._ours is not None:
                self._forget()

    def _read(self) -> bool:
        if self._ours is None:
            return False
        try:
            found = os.read(self._ours, _MOST)
        except BlockingIOError:
            return False
        if found:
            self._heard({"stderr": _text(found)})
            return True
        self._forget()
        return False

    def _forget(self) -> None:
        assert self._ours is not None
        self._loop.remove_reader(self._ours)
        os.close(self._ours)
        self._ours = None


def _text(found: bytes) -> str | bytes:
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        return found


def descriptor_of(errors: Any) -> int | None:
    """Return the descriptor for the errors of a server, or None if the program does not want them.

    ``errors`` is a file or a descriptor. Raises the error of a file without a descriptor.
    """
    if errors is None:
        return None
    number: int = errors if isinstance(errors, int) else errors.fileno()
    return number if number >= 0 else None  # subprocess.DEVNULL is less


def say_again(piece: Data, errors: int) -> None:
    """Write to the descriptor ``errors`` what the process wrote."""
    said = piece["stderr"]
    rest = memoryview(said.encode() if isinstance(said, str) else said)
    while rest:
        rest = rest[os.write(errors, rest) :]


Transport = Callable[[Said], AbstractAsyncContextManager[Any]]
"""Factory of the transport. A process that it starts writes its errors to the given pipe."""

_REFUSED: Data = {"code": -32601, "message": "Method not found: the client replays a recording"}


class Connection:
    """Connection to a server, until :meth:`close`. All methods are called outside sessions.

    :meth:`messages` yields the server's own messages. They are dropped unless ``listens`` is set.
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
        """True if the connection has ended."""
        return self._task.done()

    # Its life

    async def open(self) -> None:
        """Connect. Raises the errors of the transport."""
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
            if self._failure is None:  # otherwise waiting callers are cancelled, as without Reenact
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
        """Close the connection. Messages end when the server has ended."""
        self._stop.set()

    async def end(self) -> None:
        """Wait for the end.

        If the connection was not closed before, the transport is cancelled in the way that it
        expects.
        """
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
        """Send a message that needs no response."""
        await self._streams[1].send(item)

    def session_id(self) -> str | None:
        """Return the session id of the server, if the transport provides it."""
        found: str | None = self._streams[2]() if len(self._streams) > 2 else None
        return found

    async def messages(self) -> AsyncIterator[Data]:
        """Yield the server's own messages, and the standard error output of its process.

        A response is delivered after everything that was received before it. Raises the error that
        ended the transport.
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
        """Answer all waiting requests with an error, because no response will arrive."""
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
    """Response that waits for the delivery of earlier messages."""

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
    """Return the id of a request. Some servers respond to ``"7"`` instead of ``7``."""
    if number not in known and isinstance(number, str) and number.isdecimal():
        return int(number)
    return number
