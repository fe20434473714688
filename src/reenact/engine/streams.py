"""Answers that come piece by piece: each piece is a delivery of its own.

What a consumer has seen is recorded whichever way it leaves: to the end, with an error, by
stopping early, or by being forgotten.
"""

from __future__ import annotations

from asyncio import CancelledError, Future
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from reenact.engine.answers import PLAIN, owned
from reenact.engine.call import Call, Entry, GoLive, Pass, Refuse, Serve
from reenact.engine.desk import outside
from reenact.engine.living import END, Pump, take_turns
from reenact.engine.order import Token
from reenact.engine.recorder import Opened
from reenact.engine.waiter import Waiter
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["stream_async", "stream_sync"]


def stream_sync(session: Session, call: Call, live: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The pieces of ``call``. The decision is made now, not when the first one is asked for."""
    if session.mode == "off" or session.is_late():
        return _outside(outside(), live)
    decision, opened = session.decide(call, blocks=True)
    if isinstance(decision, Serve):
        return _Replayed(session, opened, decision.entry).pieces()
    if isinstance(decision, GoLive):
        return _Recorded(session, opened).pieces(live)
    if isinstance(decision, Pass):
        return _outside(outside(), live)
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
    if isinstance(decision, Serve):
        return _Replayed(session, opened, decision.entry).pieces_async()
    if isinstance(decision, GoLive):
        return _Recorded(session, opened).pieces_async(live)
    if isinstance(decision, Pass):
        return live()
    assert isinstance(decision, Refuse)
    result: AsyncIterator[Any] = session.gateway.refuse(opened, decision)
    return result


def _outside(context: Context, live: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    pieces = context.run(live)
    while (piece := context.run(next, pieces, END)) is not END:
        yield piece


def _name(position: int, number: int) -> str:
    return f"chunk:{position}:{number}"


class _Recorded:
    """A live stream, written down as it is consumed."""

    def __init__(self, session: Session, opened: Opened) -> None:
        self._session = session
        self._opened = opened
        self._seen: list[Any] = []
        session.begin(opened, self._abandoned)

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        context = outside()
        pieces: Any = None
        try:
            pieces = context.run(lambda: iter(live()))
            while (piece := context.run(next, pieces, END)) is not END:
                self._deliver(self._note)
                yield self._saw(piece)
        except GeneratorExit:
            self._session.defer(self._abandoned)
            if hasattr(pieces, "close"):
                context.run(pieces.close)
            raise
        except BaseException as error:
            failed = self._data("failed", error)
            self._deliver(lambda: self._complete(failed))
            raise
        data = self._data("done")
        self._deliver(lambda: self._complete(data))

    def _deliver(self, act: Callable[[], Any]) -> None:
        session = self._session
        if session.paces:
            session.conductor.hand_over(session.runner(), act)
        else:
            act()

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        pump = Pump(self._session.running_desk(), live, paced=self._session.paces)
        try:
            while (piece := await pump.next(self._arrived, self._cancelled)) is not END:
                yield piece
        except GeneratorExit:
            self._session.defer(self._abandoned)
            raise
        finally:
            await pump.close()

    def _arrived(self, answer: Future[Any]) -> Any:
        """In our turn: write what the next piece came to, and return or raise it."""
        try:
            piece = answer.result()
        except BaseException as error:
            self._complete(self._data("failed", error))
            raise
        if piece is END:
            self._complete(self._data("done"))
            return END
        self._note()
        return self._saw(piece)

    def _cancelled(self, turns: int) -> None:
        self._complete({**self._data("cancelled"), "timing": {"turns": turns}})

    def _saw(self, piece: Any) -> Any:
        """By value, as a replay will give it."""
        self._seen.append(owned(piece))
        return owned(piece)

    def _note(self) -> None:
        lane, position = self._opened.lane.name, self._opened.position
        self._session.record_delivery(lane, _name(position, len(self._seen)))

    def _data(self, ended: str, error: BaseException | None = None) -> Data:
        fields: Data = {"response": {"chunks": self._seen}, "ended": ended}
        if error is not None:
            fields["error"] = PLAIN.dump_error(self._opened.call, error)
        return self._session.recorder.completing(self._opened, fields)

    def _complete(self, data: Data) -> None:
        self._session.complete(self._opened, data)

    def _abandoned(self) -> None:
        self._complete(self._data("abandoned"))


class _Replayed:
    """A recorded stream, piece by piece, each in its turn."""

    def __init__(self, session: Session, opened: Opened, entry: Entry) -> None:
        self._session = session
        self._opened = opened
        self._entry = entry
        self._end, data = session.claim(opened, entry)
        self._data = data or {}
        response = self._data.get("response")
        chunks = response.get("chunks") if isinstance(response, dict) else None
        self._chunks: list[Any] = chunks if isinstance(chunks, list) else []
        self._number = 0

    def pieces(self) -> Iterator[Any]:
        try:
            for piece in self._chunks:
                self._wait(self._next_token())
                yield piece
            self._check_end()
            self._wait(self._end)
        except GeneratorExit:
            self._session.defer(self._left)
            raise
        self._raise_recorded()

    async def pieces_async(self) -> AsyncIterator[Any]:
        try:
            for piece in self._chunks:
                await self._wait_async(self._next_token())
                yield piece
            self._check_end()
            cancelled = self._data.get("ended") == "cancelled"
            await self._wait_async(None if cancelled else self._end)
        except GeneratorExit:
            self._session.defer(self._left)
            raise
        except CancelledError:
            timing = self._data.get("timing")
            turns = timing.get("turns") if isinstance(timing, dict) else 0
            await take_turns(turns if isinstance(turns, int) else 0)
            self._left()
            raise
        self._raise_recorded()

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
        if session.paces and not session.is_now(token):
            session.conductor.wait(self._waiter(token))

    async def _wait_async(self, token: Token | None) -> None:
        if self._session.paces:
            await self._session.running_desk().wait(self._waiter(token))

    def _check_end(self) -> None:
        """The recorded consumer stopped here; this one wants more than there is."""
        if self._data.get("ended") == "abandoned":
            raise self._session.wants_more(self._opened, self._entry)

    def _left(self) -> None:
        """The consumer stopped: was that so in the recording, too?"""
        stopped = self._data.get("ended") in ("abandoned", "cancelled")
        if stopped and self._number == len(self._chunks):
            return
        tokens: list[Token] = [self._next_token() for _ in self._chunks[self._number :]]
        self._session.left_early(self._opened, self._entry, tokens)

    def _raise_recorded(self) -> None:
        error = self._data.get("error")
        if error is not None:
            raise PLAIN.load_error(self._opened.call, error)
