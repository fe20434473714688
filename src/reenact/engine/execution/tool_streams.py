"""Streams of tools: generators whose own calls are recorded in a lane of their own.

The tool's code runs in the thread or task of the consumer and enters the tool's lane for each
step. Between two steps the consumer continues in its own lane.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from reenact.engine._lazy import lazy_module
from reenact.engine.call import CUT_OFF
from reenact.engine.codecs import error_fields, result_field
from reenact.engine.execution.stream_chunks import END, refuse_sent_value
from reenact.engine.execution.stream_record_replay import (
    RecordedStream,
    ReplayedStream,
    UpdatedStream,
)
from reenact.engine.lanes import Lane
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.engine.session.context import enter_session, leave_session
from reenact.errors import DivergenceError
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.execution.ports import ExecutingSession

__all__ = [
    "ToolIterator",
]


class ToolIterator:
    """Iterator of a tool. Between two steps the consumer runs, which is in a different lane."""

    def __init__(
        self, session: ExecutingSession, opened: InFlightCall, live: Callable[[], Any]
    ) -> None:
        assert opened.inner is not None
        self.returned: Any = None
        """Return value of a generator that has ended."""
        self._session = session
        self._lane = Lane(opened.inner)
        self._live = live
        self._pieces: Any = None

    def next(self) -> Any:
        """The next piece, or ``END``. Raises what the iterator raises."""
        with self._inside():
            if self._pieces is None:
                self._pieces = iter(self._live())
            try:
                return next(self._pieces)
            except StopIteration as stop:
                self.returned = stop.value
                return END

    def close(self) -> None:
        """Close the iterator, because no more chunks are read."""
        if hasattr(self._pieces, "close"):
            with self._inside():
                self._pieces.close()

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """In the session, too: one that was forgotten may be closed from anywhere."""
        token = enter_session(self._session)
        try:
            with self._session.lanes.inside(self._lane):
                yield
        finally:
            leave_session(token)

    async def anext(self) -> Any:
        """:meth:`next` of an asynchronous iterator."""
        with self._inside():
            if self._pieces is None:
                self._pieces = aiter(self._live())
            return await anext(self._pieces, END)

    async def aclose(self) -> None:
        """:meth:`close` of an asynchronous iterator."""
        if hasattr(self._pieces, "aclose"):
            with self._inside():
                await self._pieces.aclose()


if TYPE_CHECKING:
    import asyncio

    from reenact.engine.execution import live_tasks
    from reenact.engine.scheduling.loop_scheduler import LoopScheduler
else:
    asyncio, live_tasks = lazy_module("asyncio"), lazy_module("reenact.engine.execution.live_tasks")

__all__ = ["RecordedToolStream", "ReexecutedToolStream", "UpdatedToolStream"]


class RecordedToolStream(RecordedStream):
    """A tool that runs, and is written down."""

    _waits = False

    def _source(self, live: Callable[[], Iterator[Any]]) -> Any:
        return ToolIterator(self._session, self._opened, live)

    async def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        steps = ToolIterator(self._session, self._opened, live)
        loop_scheduler = self._session.running_loop_scheduler()
        try:
            while (piece := await self._next_async(steps, loop_scheduler)) is not END:
                refuse_sent_value((yield piece), self._opened)
        except BaseException:  # the consumer's, or written already
            self._session.in_flight.defer(self._abandoned)
            raise
        finally:
            await steps.aclose()

    async def _next_async(self, steps: ToolIterator, loop_scheduler: LoopScheduler) -> Any:
        self._session.is_late()
        try:
            piece = self._admitted(await steps.anext())
            if piece is not END:
                await self._hand_over(loop_scheduler, lambda: self._note(piece))
                return self._codec.admit(piece)
            done = self._data("done")
            await self._hand_over(loop_scheduler, lambda: self._complete(done))
            return END
        except BaseException as error:
            await self._fail(loop_scheduler, error)
            raise

    async def _fail(self, loop_scheduler: LoopScheduler, error: BaseException) -> None:
        if live_tasks.is_cancelled(error):
            self._cancelled(0)
            return
        failed = self._data("failed", error)
        try:
            await self._hand_over(loop_scheduler, lambda: self._complete(failed))
        except asyncio.CancelledError:
            self._cancelled(0)
            raise

    async def _hand_over(self, loop_scheduler: LoopScheduler, act: Callable[[], None]) -> None:
        if self._session.tracks_order:
            await loop_scheduler.hand_over(act)
        else:
            act()


class UpdatedToolStream(RecordedToolStream, UpdatedStream):
    """A recorded tool in a recording that is added to, which is run again."""

    _stubs = False


class ReexecutedToolStream(ReplayedStream):
    """A recorded tool that runs again; what it calls is served, what it gives is compared."""

    _stubs = False

    def again(self, live: Callable[[], Iterator[Any]]) -> Generator[Any, Any, Any]:
        """Yield the chunks of ``live``, each in its turn."""
        steps = ToolIterator(self._session, self._opened, live)
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
                refuse_sent_value((yield piece), self._opened)
            self._wait(self._last_turn())
        except BaseException:
            self._session.in_flight.defer(self._left)
            raise
        finally:
            steps.close()
        self._compare(error, steps.returned)
        return steps.returned

    async def again_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Async variant of :meth:`again`."""
        steps = ToolIterator(self._session, self._opened, live)
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
                refuse_sent_value((yield piece), self._opened)
            await self._wait_async(self._last_turn())
        except asyncio.CancelledError:
            self._left()
            raise
        except BaseException:
            self._session.in_flight.defer(self._left)
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

    def _turn(self) -> DeliveryToken | None:
        """When the piece is handed over; None for one that the recording does not have."""
        return self._next_token() if self._number < len(self._chunks) else None

    def _last_turn(self) -> DeliveryToken | None:
        """Return the token of the end, and skip chunks that do not come this time."""
        left = [self._next_token() for _ in self._chunks[self._number :]]
        with self._session.lock:
            self._session.scheduler.skip(*left)
        return None if self._data.get("ended") in CUT_OFF else self._end

    def _is_paced(self, token: DeliveryToken | None) -> bool:
        return token is not None and super()._is_paced(token)

    def _compare(self, error: Exception | None, returned: Any) -> None:
        """Raises ``error`` where it is the recorded one."""
        call = self._opened.call
        fields: Data = {"ok": True, "ended": "done"}
        fields[result_field(call)] = self._codec.dump(self._seen, returned)
        if error is not None:
            fields |= error_fields(call, self._codec.dump_error(call, error))
            fields["ended"] = "failed"
        self._session.in_flight.complete(self._opened, self._data)
        self._session.reporter.compare_result(self._opened, self._entry, fields, self._data)
        if error is not None:
            raise error

    def _left(self) -> None:
        if not self._session.in_flight.is_open(self._opened):
            return
        super()._left()
        field = result_field(self._opened.call)
        fields = {field: self._codec.dump(self._seen, None)}
        with suppress(DivergenceError):  # the next call of the program raises it
            self._session.reporter.compare_result(self._opened, self._entry, fields, self._data)
