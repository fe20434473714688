"""Chunks of streams: their delivery names, their live sources, and their recorded ends.

A source returns the chunks of one live iterator one by one, then ``END``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reenact.engine._lazy import lazy_module
from reenact.engine.call import CHUNK, Call
from reenact.engine.codecs import StreamCodec, result_field
from reenact.engine.execution.steps import END, Outcome
from reenact.engine.lanes import Lane
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.context import (
    context_outside_sessions,
    enter_session,
    leave_session,
)
from reenact.errors import UsageError
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.execution import live_tasks
    from reenact.engine.execution.ports import ExecutingSession
else:
    live_tasks = lazy_module("reenact.engine.execution.live_tasks")

__all__ = [
    "LiveIterator",
    "ToolIterator",
    "chunk_name",
    "raise_recorded",
    "recorded_chunks",
    "refuse_sent_value",
    "returned_value",
]


def chunk_name(position: int, number: int) -> str:
    """Return the delivery name of chunk ``number`` of the stream at ``position``."""
    return f"{CHUNK}:{position}:{number}"


class LiveIterator:
    """Source of a live iterator, which runs in no session."""

    def __init__(self, live: Callable[[], Iterator[Any]]) -> None:
        self.returned: Any = None
        """Return value of a generator that has ended."""
        self._context = context_outside_sessions()
        self._live = live
        self._chunks: Any = None

    def next(self) -> Outcome:
        """Return the next chunk, or ``END``, or the exception that the iterator raised."""
        try:
            return Outcome(self._context.run(self._next))
        except BaseException as error:  # noqa: BLE001 - raised where the consumer waits
            return Outcome(error=error)

    def _next(self) -> Any:
        if self._chunks is None:
            self._chunks = iter(self._live())
        try:
            return next(self._chunks)
        except StopIteration as stop:
            self.returned = stop.value
            return END

    def close(self) -> None:
        """Close the iterator, because no more chunks are read."""
        if hasattr(self._chunks, "close"):
            self._context.run(self._chunks.close)


class ToolIterator:
    """Source of the iterator of a tool.

    It runs in the session and in the lane of the tool, in the thread or task of the consumer.
    Between two chunks the consumer runs in its own lane.
    """

    def __init__(
        self, session: ExecutingSession, opened: InFlightCall, live: Callable[[], Any]
    ) -> None:
        assert opened.inner is not None
        self.returned: Any = None
        """Return value of a generator that has ended."""
        self._session = session
        self._lane = Lane(opened.inner)
        self._live = live
        self._chunks: Any = None

    def next(self) -> Outcome:
        """Return the next chunk, or ``END``, or the exception that the iterator raised."""
        with self._inside():
            try:
                if self._chunks is None:
                    self._chunks = iter(self._live())
                try:
                    return Outcome(next(self._chunks))
                except StopIteration as stop:
                    self.returned = stop.value
                    return Outcome(END)
            except BaseException as error:  # noqa: BLE001 - raised where the consumer waits
                return Outcome(error=error)

    async def next_async(self) -> Outcome:
        """Async variant of :meth:`next`, for an asynchronous iterator."""
        with self._inside():
            try:
                if self._chunks is None:
                    self._chunks = aiter(self._live())
                return Outcome(await anext(self._chunks, END))
            except GeneratorExit:
                raise  # the consumer is not run any more
            except BaseException as error:  # noqa: BLE001 - raised where the consumer waits
                return Outcome(error=error, cancelled=live_tasks.is_cancelled(error))

    def close(self) -> None:
        """Close the iterator, because no more chunks are read."""
        if hasattr(self._chunks, "close"):
            with self._inside():
                self._chunks.close()

    async def close_async(self) -> None:
        """Async variant of :meth:`close`."""
        if hasattr(self._chunks, "aclose"):
            with self._inside():
                await self._chunks.aclose()

    @contextmanager
    def _inside(self) -> Iterator[None]:
        # Also enters the session: a forgotten iterator can be closed from anywhere.
        token = enter_session(self._session)
        try:
            with self._session.lanes.inside(self._lane):
                yield
        finally:
            leave_session(token)


def recorded_chunks(codec: StreamCodec, call: Call, data: Data) -> Generator[Any, Any, Any]:
    """Yield the chunks in ``data``, a completing event. Raise and return what the stream did."""
    yield from codec.load(data.get(result_field(call)))
    raise_recorded(codec, call, data)
    return returned_value(call, data)


def returned_value(call: Call, data: Data) -> Any:
    """Return the return value of a recorded generator."""
    response = data.get(result_field(call))
    return response.get("returned") if isinstance(response, dict) else None


def raise_recorded(codec: StreamCodec, call: Call, data: Data) -> None:
    """Raise the error that the recorded stream ended with, if there was one."""
    error = data.get("error")
    if error is not None:
        raise codec.load_error(call, error)


def refuse_sent_value(sent: Any, opened: InFlightCall) -> None:
    """Raise :class:`UsageError` for a consumer that sends a value into a stream."""
    if sent is not None:
        raise UsageError(
            f"a value was sent into the stream {opened.call.operation}, which is recorded one way",
            hint="iterate over it; make what is sent an argument of the call",
        )
