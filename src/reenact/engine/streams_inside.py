"""Tools that give their result piece by piece: what they do inside is in a lane of its own.

Their code runs in the thread or task of whoever takes the pieces, and enters its lane for each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reenact.engine.answers import answer_field, error_fields
from reenact.engine.call import CUT_OFF
from reenact.engine.late import late_module
from reenact.engine.order import Token
from reenact.engine.pieces import END, check_sent
from reenact.engine.steps import Steps
from reenact.engine.streams_recorded import Kept, Recorded
from reenact.engine.streams_replayed import Replayed
from reenact.errors import DivergenceError
from reenact.format.event import Data

if TYPE_CHECKING:
    import asyncio

    from reenact.engine import living
    from reenact.engine.desk import Desk
else:
    asyncio, living = late_module("asyncio"), late_module("reenact.engine.living")

__all__ = ["KeptInside", "RecordedInside", "Reexecuted"]


class RecordedInside(Recorded):
    """A tool that runs, and is written down."""

    _waits = False

    def _source(self, live: Callable[[], Iterator[Any]]) -> Any:
        return Steps(self._session, self._opened, live)

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        steps = Steps(self._session, self._opened, live)
        desk = self._session.running_desk()
        try:
            while (piece := await self._next_async(steps, desk)) is not END:
                check_sent((yield piece), self._opened)
        except BaseException:  # the consumer's, or written already
            self._session.defer(self._abandoned)
            raise
        finally:
            await steps.aclose()

    async def _next_async(self, steps: Steps, desk: Desk) -> Any:
        self._session.is_late()
        try:
            piece = self._admitted(await steps.anext())
            if piece is not END:
                await self._hand_over(desk, lambda: self._note(piece))
                return self._codec.admit(piece)
            done = self._data("done")
            await self._hand_over(desk, lambda: self._complete(done))
            return END
        except BaseException as error:
            await self._fail(desk, error)
            raise

    async def _fail(self, desk: Desk, error: BaseException) -> None:
        if living.is_cancelled(error):
            self._cancelled(0)
            return
        failed = self._data("failed", error)
        try:
            await self._hand_over(desk, lambda: self._complete(failed))
        except asyncio.CancelledError:
            self._cancelled(0)
            raise

    async def _hand_over(self, desk: Desk, act: Callable[[], None]) -> None:
        if self._session.paces:
            await desk.hand_over(act)
        else:
            act()


class KeptInside(RecordedInside, Kept):
    """A recorded tool in a recording that is added to, which is run again."""

    _stubs = False


class Reexecuted(Replayed):
    """A recorded tool that runs again; what it calls is served, what it gives is compared."""

    _stubs = False

    def again(self, live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
        """What ``live`` gives, each piece in its turn."""
        steps = Steps(self._session, self._opened, live)
        error: Exception | None = None
        self._seen: list[Any] = []
        try:
            while True:
                self._check_more()
                try:
                    piece = self._taken(steps.next())
                except Exception as failure:  # noqa: BLE001 - compared below, then raised
                    error = failure
                    break
                if piece is END:
                    break
                self._wait(self._turn())
                check_sent((yield piece), self._opened)
            self._wait(self._last_turn())
        except BaseException:
            self._session.defer(self._left)
            raise
        finally:
            steps.close()
        self._compare(error, steps.returned)
        return steps.returned

    async def again_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """The same for tasks."""
        steps = Steps(self._session, self._opened, live)
        error: Exception | None = None
        self._seen = []
        try:
            while True:
                self._check_more()
                try:
                    piece = self._taken(await steps.anext())
                except Exception as failure:  # noqa: BLE001 - compared below, then raised
                    error = failure
                    break
                if piece is END:
                    break
                await self._wait_async(self._turn())
                check_sent((yield piece), self._opened)
            await self._wait_async(self._last_turn())
        except asyncio.CancelledError:
            self._left()
            raise
        except BaseException:
            self._session.defer(self._left)
            raise
        finally:
            await steps.aclose()
        self._compare(error, None)

    def _check_more(self) -> None:
        if self._number >= len(self._chunks):
            self._check_end()

    def _taken(self, piece: Any) -> Any:
        if piece is END:
            return END
        self._seen.append(piece)
        return self._codec.admit(piece)

    def _turn(self) -> Token | None:
        """When the piece is handed over; None for one that the recording does not have."""
        return self._next_token() if self._number < len(self._chunks) else None

    def _last_turn(self) -> Token | None:
        """The same for the end. Pieces that do not come this time are not waited for."""
        left = [self._next_token() for _ in self._chunks[self._number :]]
        with self._session.lock:
            self._session.conductor.skip(*left)
        return None if self._data.get("ended") in CUT_OFF else self._end

    def _is_paced(self, token: Token | None) -> bool:
        return token is not None and super()._is_paced(token)

    def _compare(self, error: Exception | None, returned: Any) -> None:
        """Raises ``error`` where it is the recorded one."""
        call = self._opened.call
        fields: Data = {"ok": True, "ended": "done"}
        fields[answer_field(call)] = self._codec.dump(self._seen, returned)
        if error is not None:
            fields |= error_fields(call, self._codec.dump_error(call, error))
            fields["ended"] = "failed"
        self._session.complete(self._opened, self._data)
        self._session.compare_result(self._opened, self._entry, fields, self._data)
        if error is not None:
            raise error

    def _left(self) -> None:
        if not self._session.is_open(self._opened):
            return
        super()._left()
        field = answer_field(self._opened.call)
        fields = {field: self._codec.dump(self._seen, None)}
        with suppress(DivergenceError):  # the next call of the program raises it
            self._session.compare_result(self._opened, self._entry, fields, self._data)
