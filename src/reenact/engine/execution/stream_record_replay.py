"""Recording of a live stream while it is consumed, and replay of a recorded one, chunk by chunk.

Values that a consumer sends or throws into a recorded stream are not passed on. A replay can use
the recorded pace: no chunk is delivered earlier than in the recording. The pace only delays the
consumer. It does not change the delivery order, is not a timer of the program, and never counts
as a stall.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic, pause
from reenact.engine._lazy import lazy_module
from reenact.engine.call import CUT_OFF, Entry
from reenact.engine.codecs import BufferedResponse, BufferedResponseCodec, StreamCodec, result_field
from reenact.engine.execution.stream_chunks import (
    END,
    LiveIterator,
    chunk_name,
    raise_recorded,
    refuse_sent_value,
    returned,
)
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.engine.scheduling.waiters import Waiter
from reenact.format.event import Data

if TYPE_CHECKING:
    import asyncio
    from asyncio import Future

    from reenact.engine.execution import live_tasks
    from reenact.engine.execution.ports import ExecutingSession
    from reenact.engine.patches import unpatched_loop
else:
    asyncio, live_tasks = lazy_module("asyncio"), lazy_module("reenact.engine.execution.live_tasks")
    unpatched_loop = lazy_module("reenact.engine.patches.unpatched_loop")

__all__ = ["RecordedPace", "RecordedStream", "ReplayedStream", "UpdatedStream"]

_LONGEST = 1.0
"""Longest single wait in seconds. The scheduler sees progress after each."""


class RecordedPace:
    """The pace of one recorded call, which begins now. ``data`` is its completing event.

    ``clock`` gives seconds and ``sleep`` waits for some.
    """

    def __init__(
        self,
        session: ExecutingSession,
        data: Data,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], None] = pause,
    ) -> None:
        self._session = session
        paced = session.mode == "replay" and session.settings.pace == "recorded"
        self._offsets = _offsets(data) if paced else []
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._longest = min(_LONGEST, session.scheduler.patience / 4)

    def wait(self, number: int = 0) -> None:
        """Until piece ``number`` may come. One that has no recorded time may come at once."""
        while (left := self._left(number)) > 0:
            self._session.scheduler.arrive(self._session.runner())
            with self._helped():
                self._sleep(min(left, self._longest))

    async def wait_async(self, number: int = 0) -> None:
        """Async variant of :meth:`wait`. Other tasks run meanwhile."""
        while (left := self._left(number)) > 0:
            with self._helped():
                await self._sleep_async(min(left, self._longest))

    def _left(self, number: int) -> float:
        if number >= len(self._offsets):
            return 0.0
        return self._began + self._offsets[number] / 1e3 - self._clock()

    async def _sleep_async(self, seconds: float) -> None:
        loop_scheduler = self._session.running_loop_scheduler()
        done: Future[None] = loop_scheduler.loop.create_future()
        when = loop_scheduler.loop.time() + seconds
        timer = unpatched_loop.call_at(
            loop_scheduler.loop, when, _wake, done, context=loop_scheduler.own_context
        )
        try:
            await done
        finally:
            timer.cancel()

    @contextmanager
    def _helped(self) -> Iterator[None]:
        """Register as a helper in the block, because this wait ends without the session."""
        scheduler = self._session.scheduler
        scheduler.helper_comes()
        try:
            yield
        finally:
            scheduler.helper_goes()


def _wake(done: Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _offsets(data: Data) -> list[int]:
    timing = data.get("timing")
    found: Any = timing.get("offsets") if isinstance(timing, dict) else None
    return [one if type(one) is int else 0 for one in found] if isinstance(found, list) else []


class RecordedStream:
    """A live stream that is recorded while it is consumed.

    Values that a consumer sends or throws into it are not passed on.
    """

    _waits = True
    """Does the consumer do nothing until a piece comes?"""

    def __init__(self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._field = result_field(opened.call)
        self._seen: list[Any] = []
        self._size = 0
        self._began = monotonic()
        self._offsets: list[int] = []
        session.in_flight.begin(opened, self._abandoned)
        self._begin_note()
        self._growth = codec.growth(session.recorder.screen())
        self._whole = BufferedResponseCodec(codec)

    def _begin_note(self) -> None:
        with self._session.lock:
            self._session.recorder.note(self._opened)

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
        source = self._source(live)
        try:
            while (piece := self._next(source)) is not END:
                refuse_sent_value((yield piece), self._opened)
        except BaseException:  # the consumer's, or written already
            self._session.in_flight.defer(self._abandoned)
            raise
        finally:
            source.close()
        return source.returned

    def _source(self, live: Callable[[], Iterator[Any]]) -> Any:
        return LiveIterator(live)

    def _next(self, source: Any) -> Any:
        self._session.is_late()
        if self._session.tracks_order and self._waits:
            self._session.scheduler.arrive(self._session.runner())
        try:
            piece = self._admitted(source.next())
        except BaseException as error:
            failed = self._data("failed", error)
            self._deliver(lambda: self._complete(failed))
            raise
        if piece is END:
            data = self._data("done", returned=source.returned)
            self._deliver(lambda: self._complete(data))
            return END
        self._deliver(lambda: self._note(piece))
        return self._codec.admit(piece)

    def _deliver(self, act: Callable[[], Any]) -> None:
        session = self._session
        if session.tracks_order:
            session.scheduler.hand_over(session.runner(), act)
        else:
            act()

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        pump = live_tasks.AsyncPump(
            self._session.running_loop_scheduler(), live, paced=self._session.tracks_order
        )
        try:
            while True:
                self._session.is_late()
                piece = await pump.next(self._arrived, self._cancelled)
                if piece is END:
                    break
                refuse_sent_value((yield piece), self._opened)
                if isinstance(piece, BufferedResponse):
                    break
        except BaseException:
            self._session.in_flight.defer(self._abandoned)
            raise
        finally:
            await pump.close()

    def _arrived(self, answer: Future[Any]) -> Any:
        """In our turn: write what the next piece came to, and return or raise it."""
        try:
            piece = answer.result()
            if isinstance(piece, BufferedResponse):
                return self._arrived_whole(piece)
            piece = self._admitted(piece)
        except BaseException as error:
            self._complete(self._data("failed", error))
            raise
        if piece is END:
            self._complete(self._data("done"))
            return END
        self._note(piece)
        return self._codec.admit(piece)

    def _arrived_whole(self, answer: BufferedResponse) -> BufferedResponse:
        pieces = [self._admitted(piece) for piece in answer.pieces]
        fields: Data = {"response": self._codec.dump(pieces, None)}
        if answer.error is not None:
            fields["broken"] = self._codec.dump_error(self._opened.call, answer.error)
        self._complete(self._session.recorder.completing(self._opened, fields))
        return answer

    def _cancelled(self, turns: int) -> None:
        data = self._data("cancelled")
        data["timing"] = {**data.get("timing", {}), "turns": turns}
        self._complete(data)

    def _admitted(self, piece: Any) -> Any:
        """By value, as a replay will give it. Raises for what cannot be recorded."""
        if piece is END:
            return END
        if not isinstance(piece, BufferedResponse):
            piece = self._codec.admit(piece)
        room = self._session.recorder.budget
        if room.measures:
            parts = piece.pieces if isinstance(piece, BufferedResponse) else [piece]
            self._size += sum(map(self._codec.size, parts))
            refusal = room.over_answer(self._size)
            if refusal is not None:
                raise refusal
        return piece

    def _note(self, piece: Any) -> None:
        """In our turn, before the program sees it."""
        lane, position = self._opened.lane.name, self._opened.position
        offset = int((monotonic() - self._began) * 1e3)
        self._grow(piece, offset)
        self._session.in_flight.record_delivery(lane, chunk_name(position, len(self._seen)))
        self._seen.append(piece)
        self._offsets.append(offset)

    def _grow(self, piece: Any, offset: int) -> None:
        if self._opened.note is not None:
            part: Data = {self._field: self._growth.add(piece)}
            if self._codec.timed:
                part["timing"] = {"offsets": [offset]}
            self._session.recorder.grow(self._opened, part)

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

    def _abandoned(self) -> None:
        self._complete(self._data("abandoned"))


class UpdatedStream(RecordedStream):
    """A recorded stream in a recording that is added to: it stays as it was, unless the consumer
    stops earlier this time."""

    _stubs = True
    """Skip the calls that were recorded inside the stream."""

    def __init__(
        self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec, entry: Entry
    ) -> None:
        _, data = session.in_flight.claim(opened, entry, stub=self._stubs)
        self._answer = opened.answer = data or {}
        super().__init__(session, opened, codec)

    def _begin_note(self) -> None:
        """A kill leaves the old recording as it was."""

    def again(self) -> Generator[Any, Any, Any]:
        """Yield the recorded chunks as a live iterator would."""
        yield from self._codec.load(self._answer.get(self._field))
        raise_recorded(self._codec, self._opened.call, self._answer)
        return returned(self._opened.call, self._answer)

    async def again_async(self) -> AsyncIterator[Any]:
        """Async variant of :meth:`again`."""
        for piece in self._codec.load(self._answer.get(self._field)):
            yield piece
        raise_recorded(self._codec, self._opened.call, self._answer)

    def _complete(self, data: Data) -> None:
        recorded = self._codec.load(self._answer.get(self._field))
        same = data["ended"] == self._answer.get("ended") and recorded == self._seen
        super()._complete(self._answer if same else data)


class ReplayedStream:
    """A recorded stream, piece by piece, each in its turn."""

    _stubs = True
    """Skip the calls that were recorded inside the stream."""

    def __init__(
        self, session: ExecutingSession, opened: InFlightCall, codec: StreamCodec, entry: Entry
    ) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._entry = entry
        self._end, data = session.in_flight.claim(opened, entry, stub=self._stubs)
        self._data = data or {}
        if opened.spans:
            opened.entry, opened.answer = entry, self._data
        self._chunks = codec.load(self._data.get(result_field(opened.call)))
        self._number = 0
        self._pace = RecordedPace(session, self._data)
        session.in_flight.begin(opened, self._left)

    def pieces(self) -> Generator[Any, Any, Any]:
        try:
            for piece in self._chunks:
                self._pace.wait(self._number)
                self._wait(self._next_token())
                refuse_sent_value((yield piece), self._opened)
            self._check_end()
            self._wait(self._end)
        except BaseException:
            self._session.in_flight.defer(self._left)
            raise
        return self._finish()

    async def pieces_async(self) -> AsyncIterator[Any]:
        try:
            for piece in self._chunks:
                await self._pace.wait_async(self._number)
                await self._wait_async(self._next_token())
                refuse_sent_value((yield piece), self._opened)
            self._check_end()
            cancelled = self._data.get("ended") == "cancelled"
            await self._wait_async(None if cancelled else self._end)
        except asyncio.CancelledError:
            timing = self._data.get("timing")
            turns = timing.get("turns") if isinstance(timing, dict) else 0
            await live_tasks.take_turns(turns if isinstance(turns, int) else 0)
            self._left()
            raise
        except BaseException:
            self._session.in_flight.defer(self._left)
            raise
        self._finish()

    def _next_token(self) -> DeliveryToken:
        token = (self._entry.lane, chunk_name(self._entry.position, self._number))
        self._number += 1
        return token

    def _waiter(self, token: DeliveryToken | None) -> Waiter:
        opened = self._opened
        return Waiter(
            token,
            opened.lane.name,
            self._session.runner(),
            ask=lambda: self._session.machine.ask(opened.call, opened.key, opened.lane.name),
        )

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
        self._session.check_open()
        if not self._is_paced(token):
            return
        loop_scheduler = self._session.running_loop_scheduler()
        if not self._is_live():
            waiter = self._waiter(token)
            await loop_scheduler.wait(waiter)
            if not waiter.live:
                return
        await loop_scheduler.hand_over(lambda: self._note(token))

    def _is_live(self) -> bool:
        """Has the run been forked in the middle of this stream? What comes now is written."""
        return self._opened.spans and self._session.writes

    def _note(self, token: DeliveryToken | None) -> None:
        """In our turn, after the point: write that a piece was handed over, or that it ended."""
        if isinstance(token, tuple):
            opened = self._opened
            name = chunk_name(opened.position, self._number - 1)
            self._session.in_flight.record_delivery(opened.lane.name, name)
        else:
            self._session.in_flight.complete(self._opened, self._data)

    def _is_paced(self, token: DeliveryToken | None) -> bool:
        """The order has gone past what a lenient run went past."""
        return self._session.tracks_order and (token is None or not self._entry.passed)

    def _check_end(self) -> None:
        """The recorded consumer stopped here, or was killed; this one wants more than there is."""
        self._session.check_open()
        if self._data.get("ended") in ("abandoned", "unfinished"):
            raise self._session.reporter.wants_more(self._opened, self._entry)

    def _left(self) -> None:
        """The consumer stopped: was that so in the recording, too?"""
        if not self._session.in_flight.is_open(self._opened):
            return
        if self._is_live() and self._number < len(self._chunks):
            seen = self._codec.dump(self._chunks[: self._number], None)
            field = result_field(self._opened.call)
            self._session.in_flight.complete(
                self._opened, {**self._data, field: seen, "ended": "abandoned"}
            )
            return
        self._session.in_flight.complete(self._opened, self._data)
        if self._data.get("ended") in CUT_OFF and self._number == len(self._chunks):
            return
        tokens: list[DeliveryToken] = [self._next_token() for _ in self._chunks[self._number :]]
        self._session.reporter.left_early(self._opened, self._entry, tokens)

    def _finish(self) -> Any:
        self._session.in_flight.complete(self._opened, self._data)
        raise_recorded(self._codec, self._opened.call, self._data)
        return returned(self._opened.call, self._data)
