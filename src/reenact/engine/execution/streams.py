"""Streamed responses: iterate over chunks, or fetch a response as a whole.

Each chunk is a delivery of its own; a response that the program receives at once is one delivery.
The recording states which it was, so a program that reads in a different way is still served. The
chunks that a consumer has received are recorded however it stops: at the end, with an error, by
stopping early, or by dropping the iterator. If the process is killed, they are on disk as well.
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
from reenact.engine.execution.gateway import preset_stream, preset_stream_async
from reenact.engine.execution.stream_chunks import END, LiveIterator
from reenact.engine.execution.stream_record_replay import (
    RecordedPace,
    RecordedStream,
    ReplayedStream,
    UpdatedStream,
)
from reenact.engine.recording.recorder import InFlightCall
from reenact.format.event import Data

if TYPE_CHECKING:
    import asyncio

    from reenact.engine.execution import live_tasks
    from reenact.engine.execution import tool_streams as inside
    from reenact.engine.execution.gateway import GatewaySession
    from reenact.engine.scheduling.scheduler import Scheduler
else:
    asyncio, live_tasks = lazy_module("asyncio"), lazy_module("reenact.engine.execution.live_tasks")
    inside = lazy_module("reenact.engine.execution.tool_streams")

__all__ = [
    "fetch_response",
    "fetch_response_async",
    "follow_stream",
    "follow_stream_async",
    "outside_stream",
    "outside_stream_async",
    "recall_response",
    "recall_response_async",
    "stream_async",
    "stream_sync",
]


LiveStream = Callable[[], Iterator[Any]]
AsyncLiveStream = Callable[[], AsyncIterator[Any]]


def stream_sync(
    session: GatewaySession, call: Call, live: Callable[[], Iterator[Any]]
) -> Iterator[Any]:
    """The pieces of ``call``. The decision is made now, not when the first one is asked for."""
    if session.mode == "off" or session.is_late():
        return outside_stream(live)
    decision, opened = session.decisions.decide(call, blocks=False)
    return follow_stream(session, decision, opened, live, PLAIN_STREAM_CODEC)


def follow_stream(
    session: GatewaySession,
    decision: Decision,
    opened: InFlightCall,
    live: LiveStream,
    codec: StreamCodec,
) -> Iterator[Any]:
    """Return the chunks of a call about which ``decision`` was made."""
    if isinstance(decision, Pass):
        return live() if decision.inside else outside_stream(live, session.scheduler)
    if isinstance(decision, Refuse):
        refused: Iterator[Any] = session.gateway.refuse(opened, decision)
        return refused
    follow, _ = _followers(session, decision, opened, codec)
    return follow(live)


def follow_stream_async(
    session: GatewaySession,
    decision: Decision,
    opened: InFlightCall,
    live: AsyncLiveStream,
    codec: StreamCodec,
) -> AsyncIterator[Any]:
    """Async variant of :func:`follow_stream`."""
    if isinstance(decision, Pass):
        return live() if decision.inside else outside_stream_async(session, live, session.scheduler)
    if isinstance(decision, Refuse):
        refused: AsyncIterator[Any] = session.gateway.refuse(opened, decision)
        return refused
    _, follow = _followers(session, decision, opened, codec)
    return follow(live)


def _followers(
    session: GatewaySession,
    decision: Serve | GoLive | Reexecute,
    opened: InFlightCall,
    codec: StreamCodec,
) -> tuple[Callable[[LiveStream], Iterator[Any]], Callable[[AsyncLiveStream], AsyncIterator[Any]]]:
    """Begin the stream; return the functions that iterate over it, for threads and for tasks."""
    kept = opened.entry
    if isinstance(decision, Serve):
        if kept is None:
            replayed = ReplayedStream(session, opened, codec, decision.entry)
            return lambda live: replayed.pieces(), lambda live: replayed.pieces_async()
        updated = UpdatedStream(session, opened, codec, kept)
        return (
            lambda live: updated.pieces(updated.again),
            lambda live: updated.pieces_async(updated.again_async),
        )
    if isinstance(decision, Reexecute):
        if kept is None:
            again = inside.ReexecutedToolStream(session, opened, codec, decision.entry)
            return again.again, again.again_async
        stream: RecordedStream = inside.UpdatedToolStream(session, opened, codec, kept)
    elif decision.answer is not None:
        call, data = opened.call, decision.answer
        preset = RecordedStream(session, opened, codec)
        return (
            lambda live: preset.pieces(preset_stream(call, data, codec)),
            lambda live: preset.pieces_async(preset_stream_async(call, data, codec)),
        )
    elif opened.inner is not None:
        stream = inside.RecordedToolStream(session, opened, codec)
    else:
        stream = RecordedStream(session, opened, codec)
    return stream.pieces, stream.pieces_async


def stream_async(
    session: GatewaySession, call: Call, live: Callable[[], AsyncIterator[Any]]
) -> AsyncIterator[Any]:
    """Async variant of :func:`stream_sync`."""
    if session.mode == "off" or session.is_late():
        return live()
    decision, opened = session.decisions.decide(call, blocks=False)
    return follow_stream_async(session, decision, opened, live, PLAIN_STREAM_CODEC)


def outside_stream(
    live: Callable[[], Iterator[Any]], scheduler: Scheduler | None = None
) -> Generator[Any, Any, Any]:
    """Yield the chunks of ``live`` outside every session.

    With ``scheduler``, a slow chunk does not count as a stall.
    """
    source = LiveIterator(live)
    try:
        while (piece := _drawn(source, scheduler)) is not END:
            yield piece
    finally:
        source.close()
    return source.returned


def _drawn(source: LiveIterator, scheduler: Scheduler | None) -> Any:
    with nullcontext() if scheduler is None else scheduler.going_outside():
        return source.next()


async def outside_stream_async(
    session: GatewaySession,
    live: Callable[[], AsyncIterator[Any]],
    scheduler: Scheduler | None = None,
) -> AsyncIterator[Any]:
    """Async variant of :func:`outside_stream`, in a task of its own."""
    pump = live_tasks.AsyncPump(session.running_loop_scheduler(), live, paced=False)
    try:
        while (piece := await _pumped(pump, scheduler)) is not END:
            yield piece
            if isinstance(piece, BufferedResponse):
                break
    finally:
        await pump.close()


async def _pumped(pump: live_tasks.AsyncPump, scheduler: Scheduler | None) -> Any:
    with nullcontext() if scheduler is None else scheduler.going_outside():
        return await pump.next(asyncio.Future.result, _nothing)


def _nothing(turns: int) -> None:
    """Ignore the number of turns."""


def recall_response(
    session: GatewaySession, call: Call, codec: StreamCodec
) -> BufferedResponse | None:
    """Return the recorded response if its turn has come, or None.

    ``call`` can be a sketch. After None nothing has changed, and the complete call decides.
    """
    if session.settings.pace == "recorded":
        return None
    entry = session.decisions.serve_now(call)
    return None if entry is None else _load(codec, call, entry)


async def recall_response_async(
    session: GatewaySession, call: Call, codec: StreamCodec
) -> BufferedResponse | None:
    """Async variant of :func:`recall_response`."""
    if session.settings.pace == "recorded":
        return None
    entry = await session.running_loop_scheduler().serve_now(call)
    return None if entry is None else _load(codec, call, entry)


def fetch_response(
    session: GatewaySession, call: Call, live: LiveStream, codec: StreamCodec, *, whole: bool
) -> Iterator[Any] | BufferedResponse:
    """Return the chunks of the response, as a :class:`BufferedResponse` if they come at once.

    Raises the error of a call without a response. An error that breaks off a response is raised
    after its last chunk. With ``whole`` the program continues only after the complete response.
    """
    if session.mode == "off" or session.is_late():
        return outside_stream(live)
    paced = session.settings.pace == "recorded"
    decision, opened = session.decisions.decide(call, blocks=whole, serves_now=not paced)
    if isinstance(decision, Serve) and decision.delivered:
        return _load(codec, call, decision.entry)
    recorded = _recorded(session, decision)
    if _is_stream(decision, recorded, whole=whole):
        return follow_stream(session, decision, opened, live, codec)
    if recorded is not None and paced:
        RecordedPace(session, recorded).wait()
    collected: BufferedResponse = session.gateway.carry_out(
        decision, opened, lambda: _collect(live), BufferedResponseCodec(codec)
    )
    return collected


async def fetch_response_async(
    session: GatewaySession, call: Call, live: AsyncLiveStream, codec: StreamCodec, *, whole: bool
) -> AsyncIterator[Any] | BufferedResponse:
    """Async variant of :func:`fetch_response`.

    The iterator can also yield a single :class:`BufferedResponse`.
    """
    if session.mode == "off" or session.is_late():
        return live()
    answer = await recall_response_async(session, call, codec)
    if answer is not None:
        return answer
    decision, opened = session.decisions.decide(call, blocks=False)
    recorded = _recorded(session, decision)
    if _is_stream(decision, recorded, whole=whole):
        return follow_stream_async(session, decision, opened, live, codec)
    if recorded is not None and session.settings.pace == "recorded":
        await RecordedPace(session, recorded).wait_async()
    collected: BufferedResponse = await session.gateway.carry_out_async(
        decision, opened, lambda: _collect_async(live), BufferedResponseCodec(codec)
    )
    return collected


def _load(codec: StreamCodec, call: Call, entry: Entry) -> BufferedResponse:
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


def _collect(live: LiveStream) -> BufferedResponse:
    answer = BufferedResponse()
    try:
        answer.pieces.extend(live())
    except Exception as error:
        if not answer.pieces:
            raise
        answer.error = error
    return answer


async def _collect_async(live: AsyncLiveStream) -> BufferedResponse:
    answer = BufferedResponse()
    try:
        async for piece in live():
            if isinstance(piece, BufferedResponse):
                return piece
            answer.pieces.append(piece)
    except Exception as error:
        if not answer.pieces:
            raise
        answer.error = error
    return answer
