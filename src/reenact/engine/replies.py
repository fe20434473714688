"""Calls whose answer is a stream that the caller may want piece by piece, or all at once.

An answer that the program only gets whole is one delivery; one that it reads piece by piece is a
delivery per piece. Which it was is in the recording, so a program that reads differently than the
recorded one is served all the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reenact.engine.answers import StreamCodec
from reenact.engine.call import Call, Decision, GoLive, Pass, Serve
from reenact.engine.streams import follow, follow_async, outside_stream
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["fetch", "fetch_async"]

Live = Callable[[], Iterator[Any]]
AsyncLive = Callable[[], AsyncIterator[Any]]


def fetch(
    session: Session, call: Call, live: Live, codec: StreamCodec, *, whole: bool
) -> Iterator[Any]:
    """The pieces of the answer to ``call``. Raises at once what a call that has no answer raises;
    what breaks off an answer is raised after its last piece.

    With ``whole`` the program does not go on before it has all of it.
    """
    if session.mode == "off" or session.is_late():
        return outside_stream(live)
    decision, opened = session.decide(call, blocks=whole)
    if _is_stream(session, decision, whole=whole):
        return follow(session, decision, opened, live, codec)
    answer: _Answer = session.gateway.carry_out(
        decision, opened, lambda: _collect(live), _Whole(codec)
    )
    return answer.again()


async def fetch_async(
    session: Session, call: Call, live: AsyncLive, codec: StreamCodec, *, whole: bool
) -> AsyncIterator[Any]:
    """The same for a coroutine."""
    if session.mode == "off" or session.is_late():
        return live()
    decision, opened = session.decide(call, blocks=False)
    if _is_stream(session, decision, whole=whole):
        return follow_async(session, decision, opened, live, codec)
    answer: _Answer = await session.gateway.carry_out_async(
        decision, opened, lambda: _collect_async(live), _Whole(codec)
    )
    return answer.again_async()


def _is_stream(session: Session, decision: Decision, *, whole: bool) -> bool:
    if isinstance(decision, Serve):
        script = session.machine.script
        assert script is not None
        with session.lock:
            closing = script.complete(decision.entry)
        return closing is not None and "ended" in closing.data
    return isinstance(decision, (GoLive, Pass)) and not whole


@dataclass(slots=True)
class _Answer:
    """All of an answer, and what broke it off."""

    pieces: list[Any] = field(default_factory=list)
    error: BaseException | None = None

    def again(self) -> Iterator[Any]:
        yield from self.pieces
        if self.error is not None:
            raise self.error

    async def again_async(self) -> AsyncIterator[Any]:
        for piece in self.pieces:
            yield piece
        if self.error is not None:
            raise self.error


def _collect(live: Live) -> _Answer:
    answer = _Answer()
    try:
        answer.pieces.extend(live())
    except Exception as error:
        if not answer.pieces:
            raise
        answer.error = error
    return answer


async def _collect_async(live: AsyncLive) -> _Answer:
    answer = _Answer()
    try:
        async for piece in live():
            answer.pieces.append(piece)
    except Exception as error:
        if not answer.pieces:
            raise
        answer.error = error
    return answer


class _Whole:
    """Keeps an answer as one value: the response, and under ``broken`` what broke it off."""

    def __init__(self, codec: StreamCodec) -> None:
        self._codec = codec

    def dump(self, call: Call, result: _Answer) -> Data:
        pieces = [self._codec.admit(piece) for piece in result.pieces]
        data: Data = {"response": self._codec.dump(pieces, None)}
        if result.error is not None:
            data["broken"] = self._codec.dump_error(call, result.error)
        return data

    def load(self, call: Call, data: Data) -> _Answer:
        broken = data.get("broken")
        error = None if broken is None else self._codec.load_error(call, broken)
        return _Answer(self._codec.load(data.get("response")), error)

    def returned(self, call: Call, result: _Answer, data: Data) -> _Answer:
        return result

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return self._codec.dump_error(call, error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return self._codec.load_error(call, data)
