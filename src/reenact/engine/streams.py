"""Answers that come piece by piece: each piece is a delivery of its own.

What a consumer has seen is recorded whichever way it leaves: to the end, with an error, by
stopping early, or by being forgotten.
"""

from __future__ import annotations

from asyncio import CancelledError, Future
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic
from reenact.engine.answers import PIECES, StreamCodec
from reenact.engine.call import CHUNK, Call, Decision, Entry, GoLive, Pass, Refuse, Serve
from reenact.engine.desk import outside
from reenact.engine.living import END, Pump, take_turns
from reenact.engine.order import Token
from reenact.engine.recorder import Opened
from reenact.engine.waiter import Waiter
from reenact.errors import UsageError
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["follow", "follow_async", "outside_stream", "stream_async", "stream_sync"]


def stream_sync(session: Session, call: Call, live: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The pieces of ``call``. The decision is made now, not when the first one is asked for."""
    if session.mode == "off" or session.is_late():
        return outside_stream(live)
    decision, opened = session.decide(call, blocks=False)
    return follow(session, decision, opened, live, PIECES)


def follow(
    session: Session,
    decision: Decision,
    opened: Opened,
    live: Callable[[], Iterator[Any]],
    codec: StreamCodec,
) -> Iterator[Any]:
    """The pieces of a call about which ``decision`` was made."""
    if opened.entry is not None and isinstance(decision, Serve):
        kept = _Kept(session, opened, codec, opened.entry)
        return kept.pieces(kept.again)
    if isinstance(decision, Serve):
        return _Replayed(session, opened, codec, decision.entry).pieces()
    if isinstance(decision, GoLive):
        return _Recorded(session, opened, codec).pieces(live)
    if isinstance(decision, Pass):
        return outside_stream(live)
    assert isinstance(decision, Refuse)
    result: Iterator[Any] = session.gateway.refuse(opened, decision)
    return result


def stream_async(
    session: Session, call: Call, live: Callable[[], AsyncIterator[Any]]
) -> AsyncIterator[Any]:
    """The same for an asynchronous iterator."""
    if session.mode == "off" or session.is_late():
        return live()
    decision, opened = session.decide(call, blocks=False)
    return follow_async(session, decision, opened, live, PIECES)


def follow_async(
    session: Session,
    decision: Decision,
    opened: Opened,
    live: Callable[[], AsyncIterator[Any]],
    codec: StreamCodec,
) -> AsyncIterator[Any]:
    """The pieces of a call about which ``decision`` was made."""
    if opened.entry is not None and isinstance(decision, Serve):
        kept = _Kept(session, opened, codec, opened.entry)
        return kept.pieces_async(kept.again_async)
    if isinstance(decision, Serve):
        return _Replayed(session, opened, codec, decision.entry).pieces_async()
    if isinstance(decision, GoLive):
        return _Recorded(session, opened, codec).pieces_async(live)
    if isinstance(decision, Pass):
        return live()
    assert isinstance(decision, Refuse)
    result: AsyncIterator[Any] = session.gateway.refuse(opened, decision)
    return result


def outside_stream(live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
    """What ``live`` gives, in no session."""
    source = _Source(live)
    try:
        while (piece := source.next()) is not END:
            yield piece
    finally:
        source.close()
    return source.returned


def _name(position: int, number: int) -> str:
    return f"{CHUNK}:{position}:{number}"


class _Source:
    """A live iterator, drawn from in no session."""

    def __init__(self, live: Callable[[], Iterator[Any]]) -> None:
        self.returned: Any = None
        """What a generator returned at its end."""
        self._context = outside()
        self._live = live
        self._pieces: Any = None

    def next(self) -> Any:
        """The next piece, or ``END``. Raises what the iterator raises."""
        return self._context.run(self._next)

    def _next(self) -> Any:
        if self._pieces is None:
            self._pieces = iter(self._live())
        try:
            return next(self._pieces)
        except StopIteration as stop:
            self.returned = stop.value
            return END

    def close(self) -> None:
        """Nobody draws from it any more."""
        if hasattr(self._pieces, "close"):
            self._context.run(self._pieces.close)


class _Recorded:
    """A live stream, written down as it is consumed. What a consumer sends or throws into it is
    not passed on: it stops there."""

    def __init__(self, session: Session, opened: Opened, codec: StreamCodec) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._seen: list[Any] = []
        self._size = 0
        self._began = monotonic()
        self._offsets: list[int] = []
        session.begin(opened, self._abandoned)

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
        source = _Source(live)
        try:
            while (piece := self._next(source)) is not END:
                _check_sent((yield piece), self._opened)
        except BaseException:  # the consumer's, or written already
            self._session.defer(self._abandoned)
            raise
        finally:
            source.close()
        return source.returned

    def _next(self, source: _Source) -> Any:
        self._session.is_late()
        if self._session.paces:
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
        self._deliver(self._note)
        return self._saw(piece)

    def _deliver(self, act: Callable[[], Any]) -> None:
        session = self._session
        if session.paces:
            session.conductor.hand_over(session.runner(), act)
        else:
            act()

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        pump = Pump(self._session.running_desk(), live, paced=self._session.paces)
        try:
            while True:
                self._session.is_late()
                piece = await pump.next(self._arrived, self._cancelled)
                if piece is END:
                    break
                _check_sent((yield piece), self._opened)
        except BaseException:
            self._session.defer(self._abandoned)
            raise
        finally:
            await pump.close()

    def _arrived(self, answer: Future[Any]) -> Any:
        """In our turn: write what the next piece came to, and return or raise it."""
        try:
            piece = self._admitted(answer.result())
        except BaseException as error:
            self._complete(self._data("failed", error))
            raise
        if piece is END:
            self._complete(self._data("done"))
            return END
        self._note()
        return self._saw(piece)

    def _cancelled(self, turns: int) -> None:
        data = self._data("cancelled")
        data["timing"] = {**data.get("timing", {}), "turns": turns}
        self._complete(data)

    def _admitted(self, piece: Any) -> Any:
        """By value, as a replay will give it. Raises for what cannot be recorded."""
        if piece is END:
            return END
        piece = self._codec.admit(piece)
        room = self._session.recorder.room
        if room.measures:
            self._size += self._codec.size(piece)
            refusal = room.over_answer(self._size)
            if refusal is not None:
                raise refusal
        return piece

    def _saw(self, piece: Any) -> Any:
        self._seen.append(piece)
        self._offsets.append(int((monotonic() - self._began) * 1e3))
        return self._codec.admit(piece)

    def _note(self) -> None:
        lane, position = self._opened.lane.name, self._opened.position
        self._session.record_delivery(lane, _name(position, len(self._seen)))

    def _data(
        self, ended: str, error: BaseException | None = None, *, returned: Any = None
    ) -> Data:
        fields: Data = {"response": self._codec.dump(self._seen, returned), "ended": ended}
        if error is not None:
            fields["error"] = self._codec.dump_error(self._opened.call, error)
        if self._codec.timed:
            fields["timing"] = {"offsets": self._offsets}
        return self._session.recorder.completing(self._opened, fields)

    def _complete(self, data: Data) -> None:
        self._session.complete(self._opened, data)

    def _abandoned(self) -> None:
        self._complete(self._data("abandoned"))


class _Kept(_Recorded):
    """A recorded stream in a recording that is added to: it stays as it was, unless the consumer
    stops earlier this time."""

    def __init__(self, session: Session, opened: Opened, codec: StreamCodec, entry: Entry) -> None:
        _, data = session.claim(opened, entry)
        self._answer = opened.answer = data or {}
        super().__init__(session, opened, codec)

    def again(self) -> Generator[Any, Any, Any]:
        """What was recorded, as a live iterator gives it."""
        yield from self._codec.load(self._answer.get("response"))
        _raise_recorded(self._codec, self._opened.call, self._answer)
        return _returned(self._answer)

    async def again_async(self) -> AsyncIterator[Any]:
        for piece in self._codec.load(self._answer.get("response")):
            yield piece
        _raise_recorded(self._codec, self._opened.call, self._answer)

    def _complete(self, data: Data) -> None:
        recorded = self._codec.load(self._answer.get("response"))
        same = data["ended"] == self._answer.get("ended") and recorded == self._seen
        super()._complete(self._answer if same else data)


def _returned(data: Data) -> Any:
    response = data.get("response")
    return response.get("returned") if isinstance(response, dict) else None


def _raise_recorded(codec: StreamCodec, call: Call, data: Data) -> None:
    error = data.get("error")
    if error is not None:
        raise codec.load_error(call, error)


def _check_sent(sent: Any, opened: Opened) -> None:
    if sent is not None:
        raise UsageError(
            f"a value was sent into the stream {opened.call.operation}, which is recorded one way",
            hint="iterate over it; make what is sent an argument of the call",
        )


class _Replayed:
    """A recorded stream, piece by piece, each in its turn."""

    def __init__(self, session: Session, opened: Opened, codec: StreamCodec, entry: Entry) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._entry = entry
        self._end, data = session.claim(opened, entry)
        self._data = data or {}
        self._chunks = codec.load(self._data.get("response"))
        self._number = 0
        session.begin(opened, self._left)

    def pieces(self) -> Generator[Any, Any, Any]:
        try:
            for piece in self._chunks:
                self._wait(self._next_token())
                _check_sent((yield piece), self._opened)
            self._check_end()
            self._wait(self._end)
        except BaseException:
            self._session.defer(self._left)
            raise
        return self._finish()

    async def pieces_async(self) -> AsyncIterator[Any]:
        try:
            for piece in self._chunks:
                await self._wait_async(self._next_token())
                _check_sent((yield piece), self._opened)
            self._check_end()
            cancelled = self._data.get("ended") == "cancelled"
            await self._wait_async(None if cancelled else self._end)
        except CancelledError:
            timing = self._data.get("timing")
            turns = timing.get("turns") if isinstance(timing, dict) else 0
            await take_turns(turns if isinstance(turns, int) else 0)
            self._left()
            raise
        except BaseException:
            self._session.defer(self._left)
            raise
        self._finish()

    def _next_token(self) -> Token:
        token = (self._entry.lane, _name(self._entry.position, self._number))
        self._number += 1
        return token

    def _waiter(self, token: Token | None) -> Waiter:
        opened = self._opened
        return Waiter(
            token,
            opened.lane.name,
            self._session.runner(),
            ask=lambda: self._session.machine.ask(opened.call, opened.key, opened.lane.name),
        )

    def _wait(self, token: Token | None) -> None:
        session = self._session
        session.check_open()
        if self._is_paced(token) and not session.is_now(token):
            session.conductor.wait(self._waiter(token))

    async def _wait_async(self, token: Token | None) -> None:
        self._session.check_open()
        if self._is_paced(token):
            await self._session.running_desk().wait(self._waiter(token))

    def _is_paced(self, token: Token | None) -> bool:
        """The order has gone past what a lenient run went past."""
        return self._session.paces and (token is None or not self._entry.passed)

    def _check_end(self) -> None:
        """The recorded consumer stopped here; this one wants more than there is."""
        self._session.check_open()
        if self._data.get("ended") == "abandoned":
            raise self._session.wants_more(self._opened, self._entry)

    def _left(self) -> None:
        """The consumer stopped: was that so in the recording, too?"""
        if not self._session.is_open(self._opened):
            return
        self._session.complete(self._opened, self._data)
        stopped = self._data.get("ended") in ("abandoned", "cancelled")
        if stopped and self._number == len(self._chunks):
            return
        tokens: list[Token] = [self._next_token() for _ in self._chunks[self._number :]]
        self._session.left_early(self._opened, self._entry, tokens)

    def _finish(self) -> Any:
        self._session.complete(self._opened, self._data)
        _raise_recorded(self._codec, self._opened.call, self._data)
        return _returned(self._data)
