"""Answers that come piece by piece: each piece is a delivery of its own.

What a consumer has seen is recorded whichever way it leaves: to the end, with an error, by
stopping early, or by being forgotten. What it has seen when it is killed is on disk as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from reenact.engine.answers import PIECES, StreamCodec, Whole
from reenact.engine.call import Call, Decision, GoLive, Pass, Reexecute, Refuse, Serve
from reenact.engine.canned import canned_pieces, canned_pieces_async
from reenact.engine.late import late_module
from reenact.engine.pieces import END, Source
from reenact.engine.recorder import Opened
from reenact.engine.streams_recorded import Kept, Recorded
from reenact.engine.streams_replayed import Replayed

if TYPE_CHECKING:
    import asyncio

    from reenact.engine import living
    from reenact.engine import streams_inside as inside
    from reenact.engine.conductor import Conductor
    from reenact.engine.session import Session
else:
    asyncio, living = late_module("asyncio"), late_module("reenact.engine.living")
    inside = late_module("reenact.engine.streams_inside")

__all__ = [
    "follow",
    "follow_async",
    "outside_stream",
    "outside_stream_async",
    "stream_async",
    "stream_sync",
]


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
        kept = Kept(session, opened, codec, opened.entry)
        return kept.pieces(kept.again)
    if isinstance(decision, Serve):
        return Replayed(session, opened, codec, decision.entry).pieces()
    if isinstance(decision, Reexecute):
        if opened.entry is not None:
            return inside.KeptInside(session, opened, codec, opened.entry).pieces(live)
        return inside.Reexecuted(session, opened, codec, decision.entry).again(live)
    if isinstance(decision, GoLive) and decision.answer is not None:
        canned = canned_pieces(opened.call, decision.answer, codec)
        return Recorded(session, opened, codec).pieces(canned)
    if isinstance(decision, GoLive) and opened.inner is not None:
        return inside.RecordedInside(session, opened, codec).pieces(live)
    if isinstance(decision, GoLive):
        return Recorded(session, opened, codec).pieces(live)
    if isinstance(decision, Pass):
        return live() if decision.inside else outside_stream(live, session.conductor)
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
        kept = Kept(session, opened, codec, opened.entry)
        return kept.pieces_async(kept.again_async)
    if isinstance(decision, Serve):
        return Replayed(session, opened, codec, decision.entry).pieces_async()
    if isinstance(decision, Reexecute):
        if opened.entry is not None:
            return inside.KeptInside(session, opened, codec, opened.entry).pieces_async(live)
        return inside.Reexecuted(session, opened, codec, decision.entry).again_async(live)
    if isinstance(decision, GoLive) and decision.answer is not None:
        canned = canned_pieces_async(opened.call, decision.answer, codec)
        return Recorded(session, opened, codec).pieces_async(canned)
    if isinstance(decision, GoLive) and opened.inner is not None:
        return inside.RecordedInside(session, opened, codec).pieces_async(live)
    if isinstance(decision, GoLive):
        return Recorded(session, opened, codec).pieces_async(live)
    if isinstance(decision, Pass):
        if decision.inside:
            return live()
        return outside_stream_async(session, live, session.conductor)
    assert isinstance(decision, Refuse)
    result: AsyncIterator[Any] = session.gateway.refuse(opened, decision)
    return result


def outside_stream(
    live: Callable[[], Iterator[Any]], conductor: Conductor | None = None
) -> Generator[Any, Any, Any]:
    """What ``live`` gives, in no session. ``conductor`` knows that it is asked outside of the
    program, too."""
    source = Source(live)
    try:
        while (piece := _drawn(source, conductor)) is not END:
            yield piece
    finally:
        source.close()
    return source.returned


def _drawn(source: Source, conductor: Conductor | None) -> Any:
    with nullcontext() if conductor is None else conductor.going_outside():
        return source.next()


async def outside_stream_async(
    session: Session, live: Callable[[], AsyncIterator[Any]], conductor: Conductor | None = None
) -> AsyncIterator[Any]:
    """The same, in a task of its own."""
    pump = living.Pump(session.running_desk(), live, paced=False)
    try:
        while (piece := await _pumped(pump, conductor)) is not END:
            yield piece
            if isinstance(piece, Whole):
                break
    finally:
        await pump.close()


async def _pumped(pump: living.Pump, conductor: Conductor | None) -> Any:
    with nullcontext() if conductor is None else conductor.going_outside():
        return await pump.next(asyncio.Future.result, _nothing)


def _nothing(turns: int) -> None:
    """Nobody asks how long it took to unwind."""
