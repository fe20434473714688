"""Streamed responses: iterate over chunks, or receive a response as a whole.

Each chunk is a delivery of its own; a response that the program receives at once is one delivery.
The recording states which it was, so a program that reads in a different way is still served.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from reenact.engine._lazy import lazy_module
from reenact.engine.call import Call, Decision, Entry, GoLive, Pass, Reexecute, Refuse, Serve
from reenact.engine.codecs import (
    PLAIN_STREAM_CODEC,
    BufferedResponse,
    BufferedResponseCodec,
    StreamCodec,
)
from reenact.engine.execution.pace import RecordedPace
from reenact.engine.execution.steps import END, Delay, OpenStream, Outcome, ServeNow, Steps, Stream
from reenact.engine.execution.stream_chunks import LiveIterator
from reenact.engine.execution.stream_recording import (
    PresetStream,
    RecordedStream,
    RecordedToolStream,
    UpdatedStream,
    UpdatedToolStream,
)
from reenact.engine.execution.stream_replay import ReexecutedToolStream, ReplayedStream
from reenact.engine.recording.recorder import InFlightCall
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.execution import live_tasks
    from reenact.engine.execution.gateway import GatewaySession
else:
    live_tasks = lazy_module("reenact.engine.execution.live_tasks")

__all__ = [
    "PassedStream",
    "load_response",
    "open_stream",
    "response_steps",
    "stream_async",
    "stream_sync",
]


LiveStream = Callable[[], Iterator[Any]]
AsyncLiveStream = Callable[[], AsyncIterator[Any]]


def stream_sync(session: GatewaySession, call: Call, live: LiveStream) -> Iterator[Any]:
    """Return the chunks of ``call``. The decision is made now, not at the first chunk."""
    if session.mode == "off" or session.is_late():
        return PassedStream(session).pieces(live)
    decision, opened = session.decisions.decide(call, blocks=False)
    return open_stream(session, decision, opened, PLAIN_STREAM_CODEC).pieces(live)


def stream_async(session: GatewaySession, call: Call, live: AsyncLiveStream) -> AsyncIterator[Any]:
    """Async variant of :func:`stream_sync`."""
    if session.mode == "off" or session.is_late():
        return live()
    decision, opened = session.decisions.decide(call, blocks=False)
    return open_stream(session, decision, opened, PLAIN_STREAM_CODEC).pieces_async(live)


def open_stream(
    session: GatewaySession, decision: Decision, opened: InFlightCall, codec: StreamCodec
) -> Stream:
    """Begin the stream of a call about which ``decision`` was made. Raises a refusal."""
    kept = opened.entry
    if isinstance(decision, Pass):
        return PassedStream(session, inside=decision.inside, counts=True)
    if isinstance(decision, Refuse):
        refused: Stream = session.gateway.refuse(opened, decision)
        return refused
    if isinstance(decision, Serve):
        if kept is None:
            return ReplayedStream(session, opened, codec, decision.entry)
        updated = UpdatedStream(session, opened, codec, kept)
        return PresetStream(updated, opened, codec, updated.recorded)
    if isinstance(decision, Reexecute):
        if kept is None:
            return ReexecutedToolStream(session, opened, codec, decision.entry)
        return UpdatedToolStream(session, opened, codec, kept)
    if decision.answer is not None:
        return PresetStream(RecordedStream(session, opened, codec), opened, codec, decision.answer)
    if opened.inner is not None:
        return RecordedToolStream(session, opened, codec)
    return RecordedStream(session, opened, codec)


class PassedStream:
    """A stream that is not recorded. It runs outside every session, or ``inside`` this one.

    With ``counts``, a slow chunk is activity, so that it is not a stall of the replay.
    """

    def __init__(
        self, session: GatewaySession, *, inside: bool = False, counts: bool = False
    ) -> None:
        self._session = session
        self._inside = inside
        self._counts = counts

    def pieces(self, live: LiveStream) -> Iterator[Any]:
        """Return an iterator over the chunks of ``live``."""
        return live() if self._inside else self._outside(live)

    def pieces_async(self, live: AsyncLiveStream) -> AsyncIterator[Any]:
        """Async variant of :meth:`pieces`."""
        return live() if self._inside else self._outside_async(live)

    def _outside(self, live: LiveStream) -> Generator[Any, Any, Any]:
        going_outside = self._session.scheduler.going_outside if self._counts else nullcontext
        source = LiveIterator(live)
        try:
            while True:
                with going_outside():
                    outcome = source.next()
                if outcome.error is not None:
                    raise outcome.error
                if outcome.value is END:
                    return source.returned
                yield outcome.value
        finally:
            source.close()

    async def _outside_async(self, live: AsyncLiveStream) -> AsyncIterator[Any]:
        going_outside = self._session.scheduler.going_outside if self._counts else nullcontext
        loop_scheduler = self._session.running_loop_scheduler()
        pump = live_tasks.AsyncPump(loop_scheduler, live, paced=False)
        try:
            while True:
                with going_outside():
                    outcome = await pump.next(live_tasks.outcome_of, lambda turns: None)
                if outcome.error is not None:
                    raise outcome.error
                if outcome.value is END:
                    return
                yield outcome.value
                if isinstance(outcome.value, BufferedResponse):
                    return
        finally:
            await pump.close_async()


def response_steps(
    session: GatewaySession,
    call: Call,
    live: Callable[[], Any],
    codec: StreamCodec,
    *,
    whole: bool,
    blocks: bool,
) -> Steps:
    """Steps of a response, for the shells of :class:`.Gateway`.

    The outcome is a :class:`BufferedResponse` if the chunks come at once, else an iterator over
    them. The iterator of a task can also yield a single :class:`BufferedResponse`. The error of a
    call without a response is the outcome. An error that breaks off a response is raised after its
    last chunk. With ``whole`` the program continues only after the complete response. ``blocks``:
    for a thread.
    """
    if session.mode == "off" or session.is_late():
        outcome: Outcome = yield OpenStream(PassedStream(session, inside=not blocks), live)
        return outcome
    entry = yield ServeNow(call)
    if entry is not None:
        return Outcome(load_response(codec, call, entry))
    decision, opened = session.decisions.decide(call, blocks=blocks and whole)
    recorded = _recorded(session, decision)
    if _is_stream(decision, recorded, whole=whole):
        outcome = yield OpenStream(open_stream(session, decision, opened, codec), live)
        return outcome
    if recorded is not None and session.settings.pace == "recorded":
        yield Delay(RecordedPace(session, recorded))
    return (
        yield from session.gateway.steps(
            decision, opened, live, BufferedResponseCodec(codec), collects=True
        )
    )


def load_response(codec: StreamCodec, call: Call, entry: Entry) -> BufferedResponse:
    """Return the recorded response of ``entry``, which was served at once."""
    assert entry.closing is not None
    if entry.answer:
        return BufferedResponse(codec.load(entry.closing.part(entry.answer)))
    return BufferedResponseCodec(codec).load(call, entry.closing.data)


def _recorded(session: GatewaySession, decision: Decision) -> Data | None:
    """Return the recorded result that will be served, or None."""
    if not isinstance(decision, Serve):
        return None
    closing = decision.entry.closing
    if closing is None:
        script = session.machine.script
        assert script is not None
        with session.lock:
            closing = script.complete(decision.entry)
    return None if closing is None else closing.data


def _is_stream(decision: Decision, recorded: Data | None, *, whole: bool) -> bool:
    if isinstance(decision, Serve):
        return recorded is not None and "ended" in recorded
    return isinstance(decision, (GoLive, Pass)) and not whole
