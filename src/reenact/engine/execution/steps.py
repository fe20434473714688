"""Steps of a call that have to wait: a closed set, performed by threads and by tasks.

The core of the gateway is written once, as generators that yield these steps. It does everything
else itself. A *shell* performs each step and sends back the reply: :meth:`.Gateway.run` blocks its
thread, and :meth:`.Gateway.run_async` awaits in its task.

Invariants:

- An exception of the program is a value, :class:`Outcome`. It is raised only by the shell, because
  a generator cannot raise ``StopIteration``, which a recorded call can.
- An error of a step itself (a stall, a cancellation) is raised by the shell. It ends the
  generator, so nothing that must happen afterwards is written below a ``yield``.
- No lock is held while a step is performed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, Protocol

import msgspec

from reenact.engine.call import Call, Entry
from reenact.engine.codecs import ResultCodec
from reenact.engine.execution.pace import RecordedPace
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.format.event import Data

__all__ = [
    "END",
    "Delay",
    "HandOver",
    "LiveCall",
    "OpenStream",
    "Outcome",
    "PassThrough",
    "RunTool",
    "ServeNow",
    "Step",
    "Steps",
    "Stream",
    "WaitForTurn",
]

END = object()
"""Marker after the last chunk of a stream."""

Live = Callable[[], Any]
"""Function that makes a call live: it returns the result, or in a task an awaitable of it."""


class Outcome(msgspec.Struct):
    """Result of a call, or the exception that it raised.

    ``cancelled`` is set if the task was cancelled or closed while it ran the call.
    """

    value: Any = None
    error: BaseException | None = None
    cancelled: bool = False


class Stream(Protocol):
    """A stream about which was decided. One of the two methods is called, once."""

    def pieces(self, live: Callable[[], Iterator[Any]]) -> Iterator[Any]: ...
    def pieces_async(self, live: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]: ...


class ServeNow(msgspec.Struct):
    """Take the recorded call that answers ``call`` if its turn is now. The reply can be None."""

    call: Call


class WaitForTurn(msgspec.Struct):
    """Wait for delivery ``token`` of ``entry``. None is a delivery that never comes."""

    opened: InFlightCall
    entry: Entry
    token: DeliveryToken | None


class LiveCall(msgspec.Struct):
    """Make a call outside the session and complete it in its turn.

    The reply is the completing event and the outcome for the program. A task creates both in the
    turn. A thread creates them before the turn, because it would hold the lock while it encodes.
    With ``collects``, ``live`` returns an iterator, and the result is all its chunks.
    """

    opened: InFlightCall
    live: Live
    codec: ResultCodec
    collects: bool


class RunTool(msgspec.Struct):
    """Run the code of a tool in this thread or task, in lane ``inner``. The reply is an outcome."""

    inner: str
    live: Live


class HandOver(msgspec.Struct):
    """Complete ``opened`` with ``data`` in its turn, or as cancelled if the task is cancelled."""

    opened: InFlightCall
    data: Data


class PassThrough(msgspec.Struct):
    """Make a call without recording it, ``inside`` the session or outside of it.

    The reply is an outcome. ``collects`` is as in :class:`LiveCall`.
    """

    live: Live
    inside: bool
    collects: bool


class Delay(msgspec.Struct):
    """Wait until the recorded ``pace`` allows the result."""

    pace: RecordedPace


class OpenStream(msgspec.Struct):
    """Open ``stream``. The reply is an outcome with the iterator over its chunks."""

    stream: Stream
    live: Live


Step = ServeNow | WaitForTurn | LiveCall | RunTool | HandOver | PassThrough | Delay | OpenStream

Steps = Generator[Step, Any, Outcome]
"""Core of one call. Its result is the outcome that the program receives."""
