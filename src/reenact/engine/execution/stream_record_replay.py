"""Streams, chunk by chunk: recorded while they are consumed, replayed, or run again.

The core of a stream, ``_steps``, is written once. It yields what has to wait, and two shells in
:class:`ChunkStream` perform that: ``pieces`` for threads and ``pieces_async`` for tasks::

    recording:  FetchChunk ──> … ──> FetchChunk returns END, and the stream is complete
    replay:     DeliverChunk ──> … ──> WaitForEnd ──> complete
    run again:  RunToolChunk ──> DeliverChunk ──> … ──> WaitForEnd ──> compare ──> complete

Every chunk that a consumer has received is recorded, however it stops: at the end, with an error,
by stopping early, or by dropping the iterator. A dropped iterator is closed by the garbage
collector, which can run while a lock is held, so its end is deferred.

Values that a consumer sends or throws into a stream are not passed on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from reenact._system import monotonic
from reenact.engine._lazy import lazy_module
from reenact.engine.call import CUT_OFF, Entry
from reenact.engine.codecs import (
    BufferedResponse,
    StreamCodec,
    error_fields,
    result_field,
)
from reenact.engine.execution.pace import RecordedPace
from reenact.engine.execution.steps import END, Outcome
from reenact.engine.execution.stream_chunks import (
    LiveIterator,
    ToolIterator,
    chunk_name,
    raise_recorded,
    recorded_chunks,
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
    from asyncio import Future

    from reenact.engine.execution import live_tasks
    from reenact.engine.execution.ports import ExecutingSession
else:
    asyncio, live_tasks = lazy_module("asyncio"), lazy_module("reenact.engine.execution.live_tasks")

__all__ = [
    "PresetStream",
    "RecordedStream",
    "RecordedToolStream",
    "ReexecutedToolStream",
    "ReplayedStream",
    "UpdatedStream",
    "UpdatedToolStream",
]


class FetchChunk(msgspec.Struct):
    """Get the next live chunk, record it in its turn, and give it to the consumer.

    The reply is the chunk or ``END``, which completes the stream.
    """


class RunToolChunk(msgspec.Struct):
    """Get the next chunk of a tool without recording it. The reply is an :class:`Outcome`."""


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


ChunkStep = FetchChunk | RunToolChunk | WaitForPace | DeliverChunk | WaitForEnd

ChunkSteps = Generator[ChunkStep, Any, Any]
"""Core of a stream. Its result is the return value of the stream."""

_FETCH, _RUN_TOOL = FetchChunk(), RunToolChunk()

Source = LiveIterator | ToolIterator


class ChunkStream:
    """Shells of a stream for threads and for tasks. Subclasses have the core."""

    _pace: RecordedPace

    def __init__(self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._field = result_field(opened.call)

    def _steps(self, source: Any) -> ChunkSteps:
        raise NotImplementedError

    def _left(self) -> None:
        """Complete the stream, which the consumer has left, unless it is complete."""
        raise NotImplementedError

    # Shell for threads

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
        """Return an iterator over the chunks, of ``live`` or recorded."""
        source = self._source(live)
        steps = self._steps(source)
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
                elif step is _RUN_TOOL:
                    reply = source.next()
                else:
                    reply = self._fetch(source)
                    if reply is not END:
                        refuse_sent_value((yield reply), self._opened)
        except BaseException:  # an error of the consumer, or of the stream, which is written
            self._session.in_flight.defer(self._left)
            raise
        finally:
            if source is not None:
                source.close()

    def _source(self, live: Callable[[], Iterator[Any]]) -> Any:
        return None

    def _fetch(self, source: Source) -> Any:
        raise NotImplementedError

    def _wait(self, token: DeliveryToken | None) -> None:
        raise NotImplementedError

    # Shell for tasks

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Async variant of :meth:`pieces`."""
        source = self._source_async(live)
        steps = self._steps(source)
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
                elif step is _RUN_TOOL:
                    reply = await source.next_async()
                else:
                    reply = await self._fetch_async(source)
                    if reply is not END:
                        refuse_sent_value((yield reply), self._opened)
        except asyncio.CancelledError:
            await self._unwind()
            self._left()
            raise
        except BaseException:
            self._session.in_flight.defer(self._left)
            raise
        finally:
            if source is not None:
                await source.close_async()

    def _source_async(self, live: Callable[[], AsyncIterator[Any]]) -> Any:
        return None

    async def _fetch_async(self, source: Any) -> Any:
        raise NotImplementedError

    async def _wait_async(self, token: DeliveryToken | None) -> None:
        raise NotImplementedError

    async def _unwind(self) -> None:
        """Let as many loop turns pass as the recorded stream needed after a cancellation."""


# Recording


class RecordedStream(ChunkStream):
    """A live stream that is recorded while it is consumed."""

    def __init__(self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec) -> None:
        super().__init__(session, opened, codec)
        self._seen: list[Any] = []
        self._size = 0
        self._began = monotonic()
        self._offsets: list[int] = []
        session.in_flight.begin(opened, self._left)
        self._begin_note()
        self._growth = codec.growth(session.recorder.screen())

    def _begin_note(self) -> None:
        with self._session.lock:
            self._session.recorder.note(self._opened)

    def _steps(self, source: Any) -> ChunkSteps:
        while (piece := (yield _FETCH)) is not END:
            if isinstance(piece, BufferedResponse):
                return None
        return source.returned

    def _source(self, live: Callable[[], Iterator[Any]]) -> Source:
        return LiveIterator(live)

    def _source_async(self, live: Callable[[], AsyncIterator[Any]]) -> Any:
        session = self._session
        return live_tasks.AsyncPump(
            session.running_loop_scheduler(), live, paced=session.tracks_order
        )

    def _fetch(self, source: Source) -> Any:
        session = self._session
        session.is_late()
        if session.tracks_order and isinstance(source, LiveIterator):
            # The consumer does nothing until the chunk comes. The code of a tool would.
            session.scheduler.arrive(session.runner())
        write, outcome = self._arrived(source.next(), source.returned)
        if session.tracks_order:
            session.scheduler.hand_over(session.runner(), write)
        else:
            write()
        return _value(outcome)

    async def _fetch_async(self, source: Any) -> Any:
        self._session.is_late()

        def finish(answer: Future[Any]) -> Any:
            write, outcome = self._arrived(live_tasks.outcome_of(answer))
            write()
            return _value(outcome)

        return await source.next(finish, self._cancelled)

    def _arrived(
        self, outcome: Outcome, returned: Any = None
    ) -> tuple[Callable[[], None], Outcome]:
        """Return the function that records a live chunk in its turn, and the consumer's outcome."""
        error = outcome.error
        if error is None:
            piece = outcome.value
            try:
                if piece is END:
                    return partial(self._complete, self._data("done", returned=returned)), outcome
                piece = self._admitted(piece)
                if isinstance(piece, BufferedResponse):
                    return partial(self._complete, self._buffered_data(piece)), outcome
                outcome = Outcome(self._codec.admit(piece))
            except BaseException as failure:  # noqa: BLE001 - the consumer gets it
                error = failure
            else:
                return partial(self._note, piece), outcome
        return partial(self._complete, self._data("failed", error)), Outcome(error=error)

    def _buffered_data(self, answer: BufferedResponse) -> Data:
        pieces = [self._admitted(piece) for piece in answer.pieces]
        fields: Data = {"response": self._codec.dump(pieces, None)}
        if answer.error is not None:
            fields["broken"] = self._codec.dump_error(self._opened.call, answer.error)
        return self._session.recorder.completing(self._opened, fields)

    def _cancelled(self, turns: int) -> None:
        data = self._data("cancelled")
        data["timing"] = {**data.get("timing", {}), "turns": turns}
        self._complete(data)

    def _admitted(self, piece: Any) -> Any:
        """Return the chunk by value, as in a replay. Raises if it cannot be recorded."""
        if not isinstance(piece, BufferedResponse):
            piece = self._codec.admit(piece)
        budget = self._session.recorder.budget
        if budget.measures:
            parts = piece.pieces if isinstance(piece, BufferedResponse) else [piece]
            self._size += sum(map(self._codec.size, parts))
            refusal = budget.over_answer(self._size)
            if refusal is not None:
                raise refusal
        return piece

    def _note(self, piece: Any) -> None:
        """Record the delivery of a chunk. Called in its turn, before the consumer gets it."""
        lane, position = self._opened.lane.name, self._opened.position
        offset = int((monotonic() - self._began) * 1e3)
        if self._opened.note is not None:
            part: Data = {self._field: self._growth.add(piece)}
            if self._codec.timed:
                part["timing"] = {"offsets": [offset]}
            self._session.recorder.grow(self._opened, part)
        self._session.in_flight.record_delivery(lane, chunk_name(position, len(self._seen)))
        self._seen.append(piece)
        self._offsets.append(offset)

    def _data(
        self, ended: str, error: BaseException | None = None, *, returned: Any = None
    ) -> Data:
        fields: Data = {self._field: self._codec.dump(self._seen, returned), "ended": ended}
        if self._opened.call.type == "tool_call":
            fields["ok"] = ended not in ("failed", "cancelled")
        if error is not None:
            fields["error"] = self._codec.dump_error(self._opened.call, error)
        if self._codec.timed:
            fields["timing"] = {"offsets": self._offsets}
        return self._session.recorder.completing(self._opened, fields)

    def _complete(self, data: Data) -> None:
        self._session.in_flight.complete(self._opened, data)

    def _left(self) -> None:
        if self._session.in_flight.is_open(self._opened):
            self._complete(self._data("abandoned"))


def _value(outcome: Outcome) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


class UpdatedStream(RecordedStream):
    """A recorded stream in an updated recording.

    It stays unchanged, unless the consumer stops earlier this time.
    """

    _stubs = True
    """Skip the calls that were recorded inside the stream."""

    def __init__(
        self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec, entry: Entry
    ) -> None:
        _, data = session.in_flight.claim(opened, entry, stub=self._stubs)
        self.recorded: Data = data or {}
        opened.answer = self.recorded
        super().__init__(session, opened, codec)

    def _begin_note(self) -> None:
        """Write nothing yet: after a kill, the old recording is unchanged."""

    def _complete(self, data: Data) -> None:
        chunks = self._codec.load(self.recorded.get(self._field))
        same = data["ended"] == self.recorded.get("ended") and chunks == self._seen
        super()._complete(self.recorded if same else data)


class PresetStream:
    """A recorded stream with the chunks in ``data``, a completing event, instead of live ones."""

    def __init__(
        self, stream: RecordedStream, opened: InFlightCall, codec: StreamCodec, data: Data
    ):
        self._stream = stream
        self._chunks = partial(recorded_chunks, codec, opened.call, data)

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Return an iterator over the preset chunks."""
        return self._stream.pieces(self._chunks)

    def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Async variant of :meth:`pieces`."""

        async def chunks() -> AsyncIterator[Any]:
            for piece in self._chunks():
                yield piece

        return self._stream.pieces_async(chunks)


class RecordedToolStream(RecordedStream):
    """A tool that runs and is recorded, see :class:`.ToolIterator`."""

    def _source(self, live: Callable[[], Iterator[Any]]) -> Source:
        return ToolIterator(self._session, self._opened, live)

    def _source_async(self, live: Callable[[], AsyncIterator[Any]]) -> ToolIterator:
        return ToolIterator(self._session, self._opened, live)

    async def _fetch_async(self, source: ToolIterator) -> Any:
        session = self._session
        session.is_late()
        outcome = await source.next_async()
        if outcome.cancelled:
            self._cancelled(0)
            return _value(outcome)
        write, outcome = self._arrived(outcome)
        if session.tracks_order:
            try:
                await session.running_loop_scheduler().hand_over(write)
            except asyncio.CancelledError:
                self._cancelled(0)
                raise
        else:
            write()
        return _value(outcome)


class UpdatedToolStream(RecordedToolStream, UpdatedStream):
    """A recorded tool in an updated recording, which runs again."""

    _stubs = False


# Replay


class ReplayedStream(ChunkStream):
    """A recorded stream, each chunk in its turn."""

    _stubs = True
    """Skip the calls that were recorded inside the stream."""

    def __init__(
        self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec, entry: Entry
    ) -> None:
        super().__init__(session, opened, codec)
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

    def _steps(self, source: Any) -> ChunkSteps:
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

    def _source(self, live: Callable[[], Iterator[Any]]) -> Source:
        return ToolIterator(self._session, self._opened, live)

    def _source_async(self, live: Callable[[], AsyncIterator[Any]]) -> ToolIterator:
        return ToolIterator(self._session, self._opened, live)

    def _steps(self, source: Any) -> ChunkSteps:
        while True:
            if self._number >= len(self._chunks):
                self._check_end()
            outcome: Outcome = yield _RUN_TOOL
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
        self._compare(error, source.returned)
        return source.returned

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
