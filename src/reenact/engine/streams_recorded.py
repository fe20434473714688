"""A live stream, written down as it is consumed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic
from reenact.engine.answers import StreamCodec, Whole, answer_field
from reenact.engine.call import Entry
from reenact.engine.late import late_module
from reenact.engine.pieces import END, Source, check_sent, chunk_name, raise_recorded, returned
from reenact.engine.recorder import Opened
from reenact.engine.wholes import WholeCodec
from reenact.format.event import Data

if TYPE_CHECKING:
    from asyncio import Future

    from reenact.engine import living
    from reenact.engine.session import Session
else:
    living = late_module("reenact.engine.living")

__all__ = ["Kept", "Recorded"]


class Recorded:
    """A live stream, written down as it is consumed. What a consumer sends or throws into it is
    not passed on: it stops there."""

    _waits = True
    """Does the consumer do nothing until a piece comes?"""

    def __init__(self, session: Session, opened: Opened, codec: StreamCodec) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._field = answer_field(opened.call)
        self._seen: list[Any] = []
        self._size = 0
        self._began = monotonic()
        self._offsets: list[int] = []
        session.begin(opened, self._abandoned)
        self._begin_note()
        self._growth = codec.growth(session.recorder.screen())
        self._whole = WholeCodec(codec)

    def _begin_note(self) -> None:
        with self._session.lock:
            self._session.recorder.note(self._opened)

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
        source = self._source(live)
        try:
            while (piece := self._next(source)) is not END:
                check_sent((yield piece), self._opened)
        except BaseException:  # the consumer's, or written already
            self._session.defer(self._abandoned)
            raise
        finally:
            source.close()
        return source.returned

    def _source(self, live: Callable[[], Iterator[Any]]) -> Any:
        return Source(live)

    def _next(self, source: Any) -> Any:
        self._session.is_late()
        if self._session.paces and self._waits:
            self._session.conductor.arrive(self._session.runner())
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
        if session.paces:
            session.conductor.hand_over(session.runner(), act)
        else:
            act()

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        pump = living.Pump(self._session.running_desk(), live, paced=self._session.paces)
        try:
            while True:
                self._session.is_late()
                piece = await pump.next(self._arrived, self._cancelled)
                if piece is END:
                    break
                check_sent((yield piece), self._opened)
                if isinstance(piece, Whole):
                    break
        except BaseException:
            self._session.defer(self._abandoned)
            raise
        finally:
            await pump.close()

    def _arrived(self, answer: Future[Any]) -> Any:
        """In our turn: write what the next piece came to, and return or raise it."""
        try:
            piece = answer.result()
            if isinstance(piece, Whole):
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

    def _arrived_whole(self, answer: Whole) -> Whole:
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
        if not isinstance(piece, Whole):
            piece = self._codec.admit(piece)
        room = self._session.recorder.room
        if room.measures:
            parts = piece.pieces if isinstance(piece, Whole) else [piece]
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
        self._session.record_delivery(lane, chunk_name(position, len(self._seen)))
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
        self._session.complete(self._opened, data)

    def _abandoned(self) -> None:
        self._complete(self._data("abandoned"))


class Kept(Recorded):
    """A recorded stream in a recording that is added to: it stays as it was, unless the consumer
    stops earlier this time."""

    _stubs = True
    """What was recorded inside of it is not asked for."""

    def __init__(self, session: Session, opened: Opened, codec: StreamCodec, entry: Entry) -> None:
        _, data = session.claim(opened, entry, stub=self._stubs)
        self._answer = opened.answer = data or {}
        super().__init__(session, opened, codec)

    def _begin_note(self) -> None:
        """A kill leaves the old recording as it was."""

    def again(self) -> Generator[Any, Any, Any]:
        """What was recorded, as a live iterator gives it."""
        yield from self._codec.load(self._answer.get(self._field))
        raise_recorded(self._codec, self._opened.call, self._answer)
        return returned(self._opened.call, self._answer)

    async def again_async(self) -> AsyncIterator[Any]:
        """The same for tasks."""
        for piece in self._codec.load(self._answer.get(self._field)):
            yield piece
        raise_recorded(self._codec, self._opened.call, self._answer)

    def _complete(self, data: Data) -> None:
        recorded = self._codec.load(self._answer.get(self._field))
        same = data["ended"] == self._answer.get("ended") and recorded == self._seen
        super()._complete(self._answer if same else data)
