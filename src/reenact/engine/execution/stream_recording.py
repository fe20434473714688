"""Recording of streams: each chunk is recorded when the consumer receives it.

The state of a recorded stream::

    begun ──> chunk ──> … ──> done, failed, cancelled or abandoned

Every chunk that a consumer has received is recorded, however it stops: at the end, with an error,
by stopping early, or by dropping the iterator. A dropped iterator is closed by the garbage
collector, which can run while a lock is held, so its end is deferred.

Values that a consumer sends or throws into a stream are not passed on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic
from reenact.engine._lazy import lazy_module
from reenact.engine.call import Entry
from reenact.engine.codecs import BufferedResponse, StreamCodec, result_field
from reenact.engine.execution.steps import END, Outcome
from reenact.engine.execution.stream_chunks import (
    LiveIterator,
    ToolIterator,
    chunk_name,
    recorded_chunks,
    refuse_sent_value,
)
from reenact.engine.recording.recorder import InFlightCall
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
    "UpdatedStream",
    "UpdatedToolStream",
]

Source = LiveIterator | ToolIterator


class RecordedStream:
    """A live stream that is recorded while it is consumed."""

    def __init__(self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._field = result_field(opened.call)
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

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
        """Return an iterator over the chunks of ``live``."""
        source = self._source(live)
        try:
            while (piece := self._fetch(source)) is not END:
                refuse_sent_value((yield piece), self._opened)
                if isinstance(piece, BufferedResponse):
                    return None
            return source.returned
        except BaseException:  # an error of the consumer, or of the stream, which is written
            self._session.in_flight.defer(self._left)
            raise
        finally:
            source.close()

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Async variant of :meth:`pieces`."""
        source = self._source_async(live)
        try:
            while (piece := await self._fetch_async(source)) is not END:
                refuse_sent_value((yield piece), self._opened)
                if isinstance(piece, BufferedResponse):
                    return
        except asyncio.CancelledError:
            self._left()
            raise
        except BaseException:
            self._session.in_flight.defer(self._left)
            raise
        finally:
            await source.close_async()

    def _source(self, live: Callable[[], Iterator[Any]]) -> Source:
        return LiveIterator(live)

    def _source_async(self, live: Callable[[], AsyncIterator[Any]]) -> Any:
        session = self._session
        return live_tasks.AsyncPump(
            session.running_loop_scheduler(), live, paced=session.tracks_order
        )

    def _fetch(self, source: Source) -> Any:
        """Return the next live chunk or ``END``, recorded in its turn. ``END`` completes the stream.

        An error of the live stream completes it as well, and is raised.
        """
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
        """Async variant of :meth:`_fetch`."""
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
        """Complete the stream, which the consumer has left, unless it is complete."""
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
