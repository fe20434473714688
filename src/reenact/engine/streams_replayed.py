"""A recorded stream, handed over piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, Any

from reenact.engine.answers import StreamCodec, answer_field
from reenact.engine.call import CUT_OFF, Entry
from reenact.engine.late import late_module
from reenact.engine.order import Token
from reenact.engine.pace import Pace
from reenact.engine.pieces import check_sent, chunk_name, raise_recorded, returned
from reenact.engine.recorder import Opened
from reenact.engine.waiter import Waiter

if TYPE_CHECKING:
    import asyncio

    from reenact.engine import living
    from reenact.engine.session import Session
else:
    asyncio, living = late_module("asyncio"), late_module("reenact.engine.living")

__all__ = ["Replayed"]


class Replayed:
    """A recorded stream, piece by piece, each in its turn."""

    _stubs = True
    """What was recorded inside of it is not asked for."""

    def __init__(self, session: Session, opened: Opened, codec: StreamCodec, entry: Entry) -> None:
        self._session = session
        self._opened = opened
        self._codec = codec
        self._entry = entry
        self._end, data = session.claim(opened, entry, stub=self._stubs)
        self._data = data or {}
        if opened.spans:
            opened.entry, opened.answer = entry, self._data
        self._chunks = codec.load(self._data.get(answer_field(opened.call)))
        self._number = 0
        self._pace = Pace(session, self._data)
        session.begin(opened, self._left)

    def pieces(self) -> Generator[Any, Any, Any]:
        try:
            for piece in self._chunks:
                self._pace.wait(self._number)
                self._wait(self._next_token())
                check_sent((yield piece), self._opened)
            self._check_end()
            self._wait(self._end)
        except BaseException:
            self._session.defer(self._left)
            raise
        return self._finish()

    async def pieces_async(self) -> AsyncIterator[Any]:
        try:
            for piece in self._chunks:
                await self._pace.wait_async(self._number)
                await self._wait_async(self._next_token())
                check_sent((yield piece), self._opened)
            self._check_end()
            cancelled = self._data.get("ended") == "cancelled"
            await self._wait_async(None if cancelled else self._end)
        except asyncio.CancelledError:
            timing = self._data.get("timing")
            turns = timing.get("turns") if isinstance(timing, dict) else 0
            await living.take_turns(turns if isinstance(turns, int) else 0)
            self._left()
            raise
        except BaseException:
            self._session.defer(self._left)
            raise
        self._finish()

    def _next_token(self) -> Token:
        token = (self._entry.lane, chunk_name(self._entry.position, self._number))
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
        if not self._is_paced(token):
            return
        if not self._is_live():
            if session.is_now(token):
                return
            waiter = self._waiter(token)
            session.conductor.wait(waiter)
            if not waiter.live:
                return
        session.conductor.hand_over(session.runner(), lambda: self._note(token))

    async def _wait_async(self, token: Token | None) -> None:
        self._session.check_open()
        if not self._is_paced(token):
            return
        desk = self._session.running_desk()
        if not self._is_live():
            waiter = self._waiter(token)
            await desk.wait(waiter)
            if not waiter.live:
                return
        await desk.hand_over(lambda: self._note(token))

    def _is_live(self) -> bool:
        """Has the run been forked in the middle of this stream? What comes now is written."""
        return self._opened.spans and self._session.writes

    def _note(self, token: Token | None) -> None:
        """In our turn, after the point: write that a piece was handed over, or that it ended."""
        if isinstance(token, tuple):
            opened = self._opened
            name = chunk_name(opened.position, self._number - 1)
            self._session.record_delivery(opened.lane.name, name)
        else:
            self._session.complete(self._opened, self._data)

    def _is_paced(self, token: Token | None) -> bool:
        """The order has gone past what a lenient run went past."""
        return self._session.paces and (token is None or not self._entry.passed)

    def _check_end(self) -> None:
        """The recorded consumer stopped here, or was killed; this one wants more than there is."""
        self._session.check_open()
        if self._data.get("ended") in ("abandoned", "unfinished"):
            raise self._session.wants_more(self._opened, self._entry)

    def _left(self) -> None:
        """The consumer stopped: was that so in the recording, too?"""
        if not self._session.is_open(self._opened):
            return
        if self._is_live() and self._number < len(self._chunks):
            seen = self._codec.dump(self._chunks[: self._number], None)
            field = answer_field(self._opened.call)
            self._session.complete(self._opened, {**self._data, field: seen, "ended": "abandoned"})
            return
        self._session.complete(self._opened, self._data)
        if self._data.get("ended") in CUT_OFF and self._number == len(self._chunks):
            return
        tokens: list[Token] = [self._next_token() for _ in self._chunks[self._number :]]
        self._session.left_early(self._opened, self._entry, tokens)

    def _finish(self) -> Any:
        self._session.complete(self._opened, self._data)
        raise_recorded(self._codec, self._opened.call, self._data)
        return returned(self._opened.call, self._data)
