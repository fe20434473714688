"""Replay of streams: recorded chunks are delivered in their turns, and a tool can run again.

The core of a stream, ``_steps``, is written once. It yields what has to wait, and two shells in
:class:`ReplayedStream` perform that: ``pieces`` for threads and ``pieces_async`` for tasks::

    replay:     DeliverChunk ──> … ──> WaitForEnd ──> complete
    run again:  RunToolChunk ──> DeliverChunk ──> … ──> WaitForEnd ──> compare ──> complete

A dropped iterator is closed by the garbage collector, which can run while a lock is held, so its
end is deferred. Values that a consumer sends or throws into a stream are not passed on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.engine._lazy import lazy_module
from reenact.engine.call import CUT_OFF, Entry
from reenact.engine.codecs import StreamCodec, error_fields, result_field
from reenact.engine.execution.pace import RecordedPace
from reenact.engine.execution.steps import END, Outcome
from reenact.engine.execution.stream_chunks import (
    ToolIterator,
    chunk_name,
    raise_recorded,
    refuse_sent_value,
    returned_value,
)
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.engine.scheduling.waiters import Waiter
from reenact.errors import DivergenceError
from reenact.format.event import Data

if TYPE_CHECKING:
    import asyncio

    from reenact.engine.execution import live_tasks
    from reenact.engine.execution.ports import ExecutingSession
else:
    asyncio, live_tasks = lazy_module("asyncio"), lazy_module("reenact.engine.execution.live_tasks")

__all__ = ["ReexecutedToolStream", "ReplayedStream"]


class RunToolChunk(msgspec.Struct):
    """Get the next chunk of ``tool`` without recording it. The reply is an :class:`Outcome`."""

    tool: ToolIterator


class WaitForPace(msgspec.Struct):
    """Wait until the recorded pace allows chunk ``number``."""

    number: int


class DeliverChunk(msgspec.Struct):
    """Wait for delivery ``token``, then give ``piece`` to the consumer.

    None is a delivery that never comes, or that was not recorded.
    """

    token: DeliveryToken | None
    piece: Any


class WaitForEnd(msgspec.Struct):
    """Wait for ``token``, the delivery of the end. None is a delivery that never comes."""

    token: DeliveryToken | None


ChunkStep = RunToolChunk | WaitForPace | DeliverChunk | WaitForEnd

ChunkSteps = Generator[ChunkStep, Any, Any]
"""Core of a stream. Its result is the return value of the stream."""


class ReplayedStream:
    """A recorded stream, each chunk in its turn."""

    _stubs = True
    """Skip the calls that were recorded inside the stream."""

    def __init__(
        self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec, entry: Entry
    ) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._field = result_field(opened.call)
        self._entry = entry
        self._end, data = session.in_flight.claim(opened, entry, stub=self._stubs)
        self._data = data or {}
        if opened.spans:
            opened.entry, opened.answer = entry, self._data
        self._chunks = codec.load(self._data.get(self._field))
        self._number = 0
        """Number of chunks whose delivery was requested."""
        self._pace = RecordedPace(session, self._data)
        session.in_flight.begin(opened, self._left)

    # Shells

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
        """Return an iterator over the recorded chunks, or over the chunks of the tool ``live``."""
        tool = self._tool(live)
        steps = self._steps(tool)
        reply: Any = None
        try:
            while True:
                try:
                    step = steps.send(reply)
                except StopIteration as stop:
                    return stop.value
                reply = None
                if isinstance(step, DeliverChunk):
                    self._wait(step.token)
                    refuse_sent_value((yield step.piece), self._opened)
                elif isinstance(step, WaitForEnd):
                    self._wait(step.token)
                elif isinstance(step, WaitForPace):
                    self._pace.wait(step.number)
                else:
                    reply = step.tool.next()
        except BaseException:  # an error of the consumer, or the recorded one
            self._session.in_flight.defer(self._left)
            raise
        finally:
            if tool is not None:
                tool.close()

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Async variant of :meth:`pieces`."""
        tool = self._tool(live)
        steps = self._steps(tool)
        reply: Any = None
        try:
            while True:
                try:
                    step = steps.send(reply)
                except StopIteration:
                    return
                reply = None
                if isinstance(step, DeliverChunk):
                    await self._wait_async(step.token)
                    refuse_sent_value((yield step.piece), self._opened)
                elif isinstance(step, WaitForEnd):
                    await self._wait_async(step.token)
                elif isinstance(step, WaitForPace):
                    await self._pace.wait_async(step.number)
                else:
                    reply = await step.tool.next_async()
        except asyncio.CancelledError:
            await self._unwind()
            self._left()
            raise
        except BaseException:
            self._session.in_flight.defer(self._left)
            raise
        finally:
            if tool is not None:
                await tool.close_async()

    # Core

    def _tool(self, live: Callable[[], Any]) -> ToolIterator | None:
        """Return the tool to run again, or None if the chunks are served."""
        return None

    def _steps(self, tool: Any) -> ChunkSteps:
        for number, piece in enumerate(self._chunks):
            if self._pace.is_recorded:
                yield WaitForPace(number)
            yield DeliverChunk(self._next_token(), piece)
        self._check_end()
        # A recorded cancellation has no turn: this wait ends with a cancellation as well.
        yield WaitForEnd(None if self._data.get("ended") == "cancelled" else self._end)
        self._session.in_flight.complete(self._opened, self._data)
        raise_recorded(self._codec, self._opened.call, self._data)
        return returned_value(self._opened.call, self._data)

    def _next_token(self) -> DeliveryToken:
        token = (self._entry.lane, chunk_name(self._entry.position, self._number))
        self._number += 1
        return token

    def _wait(self, token: DeliveryToken | None) -> None:
        session = self._session
        session.check_open()
        if not self._is_paced(token):
            return
        if not self._is_live():
            if session.in_flight.is_now(token):
                return
            waiter = self._waiter(token)
            session.scheduler.wait(waiter)
            if not waiter.live:
                return
        session.scheduler.hand_over(session.runner(), lambda: self._note(token))

    async def _wait_async(self, token: DeliveryToken | None) -> None:
        session = self._session
        session.check_open()
        if not self._is_paced(token):
            return
        loop_scheduler = session.running_loop_scheduler()
        if not self._is_live():
            waiter = self._waiter(token)
            await loop_scheduler.wait(waiter)
            if not waiter.live:
                return
        await loop_scheduler.hand_over(lambda: self._note(token))

    def _waiter(self, token: DeliveryToken | None) -> Waiter:
        session, opened = self._session, self._opened
        return Waiter(
            token,
            opened.lane.name,
            session.runner(),
            describe=lambda: session.machine.describe(opened.call, opened.key, opened.lane.name),
        )

    def _is_live(self) -> bool:
        """Return whether the run was forked in the middle of this stream.

        Deliveries after the fork point are recorded.
        """
        return self._opened.spans and self._session.writes

    def _note(self, token: DeliveryToken | None) -> None:
        """Record a delivery or the end, after the fork point. Called in its turn."""
        opened = self._opened
        if isinstance(token, tuple):
            name = chunk_name(opened.position, self._number - 1)
            self._session.in_flight.record_delivery(opened.lane.name, name)
        else:
            self._session.in_flight.complete(opened, self._data)

    def _is_paced(self, token: DeliveryToken | None) -> bool:
        """Return whether to wait for ``token``; not for an entry that a lenient run has passed."""
        return self._session.tracks_order and (token is None or not self._entry.passed)

    def _check_end(self) -> None:
        """Raise if the recorded consumer stopped here or was killed, and this one wants more."""
        self._session.check_open()
        if self._data.get("ended") in ("abandoned", "unfinished"):
            raise self._session.reporter.wants_more(self._opened, self._entry)

    async def _unwind(self) -> None:
        """Let as many loop turns pass as the recorded stream needed after a cancellation."""
        timing = self._data.get("timing")
        turns = timing.get("turns") if isinstance(timing, dict) else 0
        await live_tasks.take_turns(turns if isinstance(turns, int) else 0)

    def _left(self) -> None:
        """Complete the stream, and report if the recorded consumer did not stop here."""
        session, opened = self._session, self._opened
        if not session.in_flight.is_open(opened):
            return
        if self._is_live() and self._number < len(self._chunks):
            seen = self._codec.dump(self._chunks[: self._number], None)
            session.in_flight.complete(
                opened, {**self._data, self._field: seen, "ended": "abandoned"}
            )
            return
        session.in_flight.complete(opened, self._data)
        if self._data.get("ended") in CUT_OFF and self._number == len(self._chunks):
            return
        tokens: list[DeliveryToken] = [self._next_token() for _ in self._chunks[self._number :]]
        session.reporter.left_early(opened, self._entry, tokens)


class ReexecutedToolStream(ReplayedStream):
    """A recorded tool that runs again. Its calls are served, and its chunks are compared."""

    _stubs = False

    def __init__(
        self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec, entry: Entry
    ) -> None:
        super().__init__(session, opened, codec, entry)
        self._seen: list[Any] = []

    def _tool(self, live: Callable[[], Any]) -> ToolIterator:
        return ToolIterator(self._session, self._opened, live)

    def _steps(self, tool: ToolIterator) -> ChunkSteps:
        while True:
            if self._number >= len(self._chunks):
                self._check_end()
            outcome: Outcome = yield RunToolChunk(tool)
            error = outcome.error
            if error is not None and not isinstance(error, Exception):
                raise error  # cancelled, or the program ends: nothing to compare
            if error is not None or outcome.value is END:
                break
            self._seen.append(outcome.value)
            try:
                piece = self._codec.admit(outcome.value)
            except Exception as failure:  # noqa: BLE001 - compared below, then raised
                error = failure
                break
            # A chunk that was not recorded has no turn.
            is_recorded = self._number < len(self._chunks)
            yield DeliverChunk(self._next_token() if is_recorded else None, piece)
        yield WaitForEnd(self._last_token())
        self._compare(error, tool.returned)
        return tool.returned

    def _last_token(self) -> DeliveryToken | None:
        """Return the token of the end, and skip chunks that do not come this time."""
        left = [self._next_token() for _ in self._chunks[self._number :]]
        with self._session.lock:
            self._session.scheduler.skip(*left)
        return None if self._data.get("ended") in CUT_OFF else self._end

    def _is_paced(self, token: DeliveryToken | None) -> bool:
        return token is not None and super()._is_paced(token)

    def _compare(self, error: BaseException | None, returned: Any) -> None:
        """Compare the result with the recorded one, then raise ``error``."""
        call = self._opened.call
        fields: Data = {"ok": True, "ended": "done"}
        fields[self._field] = self._codec.dump(self._seen, returned)
        if error is not None:
            fields |= error_fields(call, self._codec.dump_error(call, error))
            fields["ended"] = "failed"
        self._session.in_flight.complete(self._opened, self._data)
        self._session.reporter.compare_result(self._opened, self._entry, fields, self._data)
        if error is not None:
            raise error

    async def _unwind(self) -> None:
        """The tool itself was cancelled and has unwound."""

    def _left(self) -> None:
        if not self._session.in_flight.is_open(self._opened):
            return
        super()._left()
        fields = {self._field: self._codec.dump(self._seen, None)}
        with suppress(DivergenceError):  # the next call of the program raises it
            self._session.reporter.compare_result(self._opened, self._entry, fields, self._data)
