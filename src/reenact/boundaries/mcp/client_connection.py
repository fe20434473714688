"""MCP connection as the program sees it: its messages are calls of a session.

The program's own client runs unchanged on the two streams that it gets. Each message that it writes
becomes a call, and each response is put into the stream that it reads. A recording has a real
connection behind them. A replay has none, unless a rule demands that a tool is called again. A tool
that a replay calls live takes its real time, so the time-outs of the client are extended.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from reenact.boundaries.mcp.messages import (
    CODEC,
    Tokens,
    ask_call,
    dump_item,
    is_answer,
    is_request,
    load_item,
    make_message,
    messages_call,
    reply_call,
    say_call,
    server_of,
    told,
)
from reenact.boundaries.mcp.server_connection import Connection, Transport, say_again
from reenact.engine.call import Call, Decision, Refuse, Serve
from reenact.engine.codecs import PLAIN_STREAM_CODEC
from reenact.engine.execution import live_tasks
from reenact.engine.execution.stream_chunks import recorded_chunks
from reenact.engine.execution.stream_recording import UpdatedStream
from reenact.engine.execution.streams import open_stream
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.session import Session
from reenact.format.event import Data

__all__ = [
    "Link",
    "waited_for",
]


async def waited_for(session: Session, live: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Await ``live()``.

    A replay does not report a stall meanwhile, because the code that listens to the server waits as
    well.
    """
    if session.mode != "replay":
        return await live()
    scheduler = session.scheduler
    task = asyncio.ensure_future(live())
    try:
        while not task.done():
            scheduler.helper_comes()
            try:
                await asyncio.wait([task], timeout=scheduler.patience / 4)
            finally:
                scheduler.helper_goes()
        return task.result()
    finally:
        task.cancel()


class Link:
    """Connection of a session.

    ``errors`` is the descriptor for the errors of the server process, if it has one.
    """

    def __init__(
        self, session: Session, connect: Call, transport: Transport, errors: int | None = None
    ) -> None:
        self.session = session
        self.session_id: str | None = None
        self.failure: BaseException | None = None
        """Error that ended the transport."""
        self.received, self.reads = anyio.create_memory_object_stream[Any](math.inf)
        self._connect = connect
        self._transport = transport
        self._errors = errors
        self._server = server_of(session, connect.request)
        self._real: Connection | None = None
        self._reaching = asyncio.Lock()
        self._hung_up = asyncio.Event()
        self._hello: Any = None
        self._asked: dict[Any, str] = {}
        """Requests of the server that are not answered yet, and what they ask for."""
        self._tokens = Tokens()
        self._scopes: dict[Any, anyio.CancelScope] = {}
        self._tasks: anyio.abc.TaskGroup

    @property
    def is_closed(self) -> bool:
        """True if the program has closed the connection."""
        return self._hung_up.is_set()

    # Opening and closing

    async def open(self) -> tuple[Decision, InFlightCall]:
        """Connect. Return the decision about listening to the server."""
        session = self.session

        async def live() -> Data:
            self._real = Connection(self._transport, listens=True)
            await self._real.open()
            return {"result": None}

        await session.gateway.acall(self._connect, live, CODEC)
        decision, opened = session.decisions.decide(messages_call(), blocks=False)
        if isinstance(decision, Refuse):
            session.gateway.refuse(opened, decision)
        return decision, opened

    def start(self, tasks: anyio.abc.TaskGroup, decision: Decision, opened: InFlightCall) -> None:
        """Start to deliver messages of the server to the program."""
        self._tasks = tasks
        self._spawn(self._listen, decision, opened)

    def close(self) -> None:
        """Close the connection. It has ended when the tasks of :meth:`start` have ended."""
        self._hung_up.set()
        if self._real is not None:
            self._real.close()

    async def release(self) -> None:
        """Wait for the end of a live connection that was opened in addition to a recorded one."""
        real = self._real
        if real is not None and not real.is_over:
            await self._outside(real.end)

    def _spawn(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        with self.session.lanes.apart():
            self._tasks.start_soon(function, *args)

    async def _outside(self, act: Callable[[], Awaitable[Any]]) -> Any:
        return await live_tasks.live_call(
            self.session.running_loop_scheduler(),
            act,
            asyncio.Future.result,
            lambda _: None,
            paced=False,
        )

    # Messages of the program

    async def send(self, item: Any) -> None:
        """Send a message of the program's client. Raises divergences from the recording."""
        data = dump_item(item)
        if self.session.is_late():
            self._spawn(self._bypass, item, data)
        elif is_request(data):
            self._ask(item, data)
        elif is_answer(data):
            method = self._asked.pop(data["id"], "")
            await self._say(reply_call(self._server, method, data), item)
        else:
            await self._say(say_call(self._server, data), item)
            self._cancel(data)
        await anyio.lowlevel.checkpoint()

    async def _say(self, call: Call, item: Any) -> None:
        async def live() -> Data:
            real = await self._reach()
            await real.say(item)
            return {"result": None}

        await self.session.gateway.acall(call, live, CODEC)

    def _ask(self, item: Any, data: Data) -> None:
        session = self.session
        if data["method"] == "initialize":
            self._hello = item
        decision, opened = session.decisions.decide(ask_call(self._server, data), blocks=False)
        if isinstance(decision, Refuse):
            session.gateway.refuse(opened, decision)
        self._tokens.note(data["id"], decision, opened)
        self._spawn(self._answer, decision, opened, item, data)

    async def _answer(
        self, decision: Decision, opened: InFlightCall, item: Any, data: Data
    ) -> None:
        async def live() -> Data:
            real = await self._reach(None if item is self._hello else self._hello)
            found = await real.ask(item, data)
            return {**found, "sessionId": real.session_id()}

        async def patient() -> Data:
            found: Data = await waited_for(self.session, live)
            return found

        async def apart() -> Data:
            found: Data = await self._detached(opened, patient)
            return found

        method, number = data["method"], data["id"]
        run = apart if opened.call.nests else patient
        with anyio.CancelScope() as self._scopes[number]:
            try:
                found = await self.session.gateway.run_async(
                    self.session.gateway.steps(decision, opened, run, CODEC)
                )
            except Exception as error:  # noqa: BLE001 - the caller receives it
                found = {"error": told(error)}
            if "error" not in found:
                self._server.heard(method, found["result"])
                self.session_id = found.get("sessionId") or self.session_id
            self._put(make_message({"id": number, **_answered(found)}))
        self._scopes.pop(number, None)

    async def _detached(self, opened: InFlightCall, live: Callable[[], Awaitable[Any]]) -> Any:
        """Await ``live`` outside the session. If it is cancelled, so is the recorded call."""
        session = self.session

        def cancelled(turns: int) -> None:
            if session.writes and session.in_flight.is_open(opened):
                session.in_flight.cancel(opened, turns=turns)

        return await live_tasks.live_call(
            session.running_loop_scheduler(), live, asyncio.Future.result, cancelled, paced=False
        )

    def _cancel(self, data: Data) -> None:
        """Cancel the request that a ``notifications/cancelled`` message names."""
        if data["method"] == "notifications/cancelled":
            scope = self._scopes.get((data.get("params") or {}).get("requestId"))
            if scope is not None:
                scope.cancel()

    async def _bypass(self, item: Any, data: Data) -> None:
        """Send a message after the end of the session, without recording it."""
        real = await self._reach()
        if is_request(data):
            found = await real.ask(item, data)
            self._put(make_message({"id": data["id"], **_answered(found)}))
        else:
            await real.say(item)

    async def _reach(self, hello: Any = None) -> Connection:
        """Return the real connection.

        It is opened now if the program's connection is a recorded one.
        """
        async with self._reaching:
            if self._real is None:
                self.session.asks_again = True
                real = Connection(self._transport, listens=False)
                await real.open()
                self._real = real
                if hello is not None:
                    await real.ask(hello, dump_item(hello))
                    await real.say(make_message({"method": "notifications/initialized"}))
        return self._real

    # Messages of the server

    async def _listen(self, decision: Decision, opened: InFlightCall) -> None:
        async def live() -> AsyncIterator[Data]:
            real = await self._reach()
            try:
                async for piece in real.messages():
                    yield self._tokens.placed(piece)
            finally:
                await real.end()

        session = self.session
        if opened.entry is not None and isinstance(decision, Serve):
            kept = UpdatedStream(session, opened, PLAIN_STREAM_CODEC, opened.entry)
            pieces = kept.pieces_async(lambda: self._kept(kept))
        else:
            pieces = open_stream(session, decision, opened, PLAIN_STREAM_CODEC).pieces_async(live)
        try:
            async for piece in pieces:
                self._hear(piece)
        except Exception as error:
            self.failure = error
            raise
        self.received.close()

    async def _kept(self, kept: UpdatedStream) -> AsyncIterator[Data]:
        """Yield the recorded messages of a recording that is being extended, then wait for the end."""
        for piece in recorded_chunks(PLAIN_STREAM_CODEC, messages_call(), kept.recorded):
            yield piece
        await self._hung_up.wait()

    def _hear(self, piece: Data) -> None:
        if "stderr" in piece:
            if self._errors is not None:
                say_again(piece, self._errors)
        elif "closed" in piece:
            self.received.close()
        else:
            if is_request(piece):
                self._asked[piece["id"]] = piece["method"]
            self._put(load_item(self._tokens.numbered(piece)))

    def _put(self, item: Any) -> None:
        try:
            self.received.send_nowait(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the program has stopped listening


def _answered(found: Data) -> Data:
    return {"error": found["error"]} if "error" in found else {"result": found["result"] or {}}
