"""Chunks of a stream: live source, delivery name of each chunk, return value and recorded error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reenact.engine.call import CHUNK, Call
from reenact.engine.codecs import StreamCodec, result_field
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.context import context_outside_sessions
from reenact.errors import UsageError
from reenact.format.event import Data

__all__ = ["END", "LiveIterator", "chunk_name", "raise_recorded", "refuse_sent_value", "returned"]

END = object()
"""Marker after the last chunk."""


def chunk_name(position: int, number: int) -> str:
    """The delivery of piece ``number`` of the stream at ``position``."""
    return f"{CHUNK}:{position}:{number}"


class LiveIterator:
    """A live iterator, drawn from in no session."""

    def __init__(self, live: Callable[[], Iterator[Any]]) -> None:
        self.returned: Any = None
        """Return value of a generator that has ended."""
        self._context = context_outside_sessions()
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
        """Close the iterator, because no more chunks are read."""
        if hasattr(self._pieces, "close"):
            self._context.run(self._pieces.close)


def returned(call: Call, data: Data) -> Any:
    """Return the return value of a recorded generator."""
    response = data.get(result_field(call))
    return response.get("returned") if isinstance(response, dict) else None


def raise_recorded(codec: StreamCodec, call: Call, data: Data) -> None:
    """Raise what the stream ended with, if that was an error."""
    error = data.get("error")
    if error is not None:
        raise codec.load_error(call, error)


def refuse_sent_value(sent: Any, opened: InFlightCall) -> None:
    """A consumer only takes. Raises :class:`UsageError` for one that gives."""
    if sent is not None:
        raise UsageError(
            f"a value was sent into the stream {opened.call.operation}, which is recorded one way",
            hint="iterate over it; make what is sent an argument of the call",
        )
