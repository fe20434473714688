"""Calls whose answer is a stream that the caller may want piece by piece, or all at once.

An answer that the program only gets whole is one delivery; one that it reads piece by piece is a
delivery per piece. Which it was is in the recording, so a program that reads differently than the
recorded one is served all the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from reenact.engine.answers import StreamCodec, Whole
from reenact.engine.call import Call, Decision, Entry, GoLive, Pass, Serve
from reenact.engine.pace import Pace
from reenact.engine.streams import follow, follow_async, outside_stream
from reenact.engine.wholes import WholeCodec
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["fetch", "fetch_async", "recall", "recall_async"]

Live = Callable[[], Iterator[Any]]
AsyncLive = Callable[[], AsyncIterator[Any]]


def recall(session: Session, call: Call, codec: StreamCodec) -> Whole | None:
    """The answer to ``call``, which may be a sketch, if it is here, whole, and it is its turn. Else
    None, and nothing has happened: the call itself says what is to be done."""
    if session.settings.pace == "recorded":
        return None
    entry = session.at_once(call)
    return None if entry is None else _load(codec, call, entry)


async def recall_async(session: Session, call: Call, codec: StreamCodec) -> Whole | None:
    """The same for a coroutine."""
    if session.settings.pace == "recorded":
        return None
    entry = await session.running_desk().at_once(call)
    return None if entry is None else _load(codec, call, entry)


def fetch(
    session: Session, call: Call, live: Live, codec: StreamCodec, *, whole: bool
) -> Iterator[Any] | Whole:
    """The pieces of the answer to ``call``, as a :class:`Whole` if they come at once. Raises at once
    what a call that has no answer raises; what breaks off an answer is raised after its last piece.

    With ``whole`` the program does not go on before it has all of it.
    """
    if session.mode == "off" or session.is_late():
        return outside_stream(live)
    answer = recall(session, call, codec)
    if answer is not None:
        return answer
    decision, opened = session.decide(call, blocks=whole)
    recorded = _recorded(session, decision)
    if _is_stream(decision, recorded, whole=whole):
        return follow(session, decision, opened, live, codec)
    if recorded is not None and session.settings.pace == "recorded":
        Pace(session, recorded).wait()
    collected: Whole = session.gateway.carry_out(
        decision, opened, lambda: _collect(live), WholeCodec(codec)
    )
    return collected


async def fetch_async(
    session: Session, call: Call, live: AsyncLive, codec: StreamCodec, *, whole: bool
) -> AsyncIterator[Any] | Whole:
    """The same for a coroutine. A :class:`Whole` may also be the only thing that the iterator
    gives."""
    if session.mode == "off" or session.is_late():
        return live()
    answer = await recall_async(session, call, codec)
    if answer is not None:
        return answer
    decision, opened = session.decide(call, blocks=False)
    recorded = _recorded(session, decision)
    if _is_stream(decision, recorded, whole=whole):
        return follow_async(session, decision, opened, live, codec)
    if recorded is not None and session.settings.pace == "recorded":
        await Pace(session, recorded).wait_async()
    collected: Whole = await session.gateway.carry_out_async(
        decision, opened, lambda: _collect_async(live), WholeCodec(codec)
    )
    return collected


def _load(codec: StreamCodec, call: Call, entry: Entry) -> Whole:
    assert entry.closing is not None
    if entry.answer:
        return Whole(codec.load(entry.closing.part(entry.answer)))
    return WholeCodec(codec).load(call, entry.closing.data)


def _recorded(session: Session, decision: Decision) -> Data | None:
    """What was recorded of an answer that is to be served; None where there is none."""
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


def _collect(live: Live) -> Whole:
    answer = Whole()
    try:
        answer.pieces.extend(live())
    except Exception as error:
        if not answer.pieces:
            raise
        answer.error = error
    return answer


async def _collect_async(live: AsyncLive) -> Whole:
    answer = Whole()
    try:
        async for piece in live():
            if isinstance(piece, Whole):
                return piece
            answer.pieces.append(piece)
    except Exception as error:
        if not answer.pieces:
            raise
        answer.error = error
    return answer
