"""Answers that are read whole or piece by piece, by programs that read them either way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from reenact import DivergenceError, Session, ValueRefused
from reenact.engine.call import Call
from reenact.engine.codecs import PLAIN_STREAM_CODEC, BufferedResponse
from reenact.engine.execution.streams import response_steps
from reenact.store.sinks.memory import MemorySource
from reenact.testing import memory_session

CALL = Call(
    type="nondeterministic",
    capability="net.fetch",
    source="network",
    operation="GET",
    request={"url": "http://example.test/"},
)
PIECES_OF_IT = ["head", "a", "b"]


def fetch(session: Session, call: Call, live: Callable[[], Any], *, whole: bool) -> Any:
    """Return the response in a thread."""
    return session.gateway.run(
        response_steps(session, call, live, PLAIN_STREAM_CODEC, whole=whole, blocks=True)
    )


async def fetch_async(session: Session, live: Callable[[], Any], *, whole: bool) -> Any:
    """Return the response in a task."""
    return await session.gateway.run_async(
        response_steps(session, CALL, live, PLAIN_STREAM_CODEC, whole=whole, blocks=False)
    )


class World:
    """The live side: what it gives, and how often it was asked."""

    def __init__(self, *pieces: Any, error: BaseException | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.asked = 0
        self.closed = 0

    def live(self) -> Iterator[Any]:
        self.asked += 1
        try:
            yield from self.pieces
            if self.error is not None:
                raise self.error
        finally:
            self.closed += 1

    async def alive(self) -> AsyncIterator[Any]:
        for piece in self.live():
            await asyncio.sleep(0)
            yield piece


Read = Callable[[Session, World], Any]
"""Reads an answer to its end: the pieces, and the error that came instead of more."""


def _whole(session: Session, world: World, *, whole: bool = True) -> Any:
    seen: list[Any] = []
    try:
        seen.extend(fetch(session, CALL, world.live, whole=whole))
    except OSError as error:
        return seen, repr(error)
    return seen, None


def _pieces(session: Session, world: World) -> Any:
    return _whole(session, world, whole=False)


async def _read(session: Session, world: World, *, whole: bool) -> Any:
    seen: list[Any] = []
    try:
        answer = await fetch_async(session, world.alive, whole=whole)
        if not isinstance(answer, BufferedResponse):
            async for piece in answer:
                seen.extend(piece if isinstance(piece, BufferedResponse) else [piece])
        else:
            seen.extend(answer)
    except OSError as error:
        return seen, repr(error)
    return seen, None


def _whole_async(session: Session, world: World) -> Any:
    return asyncio.run(_read(session, world, whole=True))


def _pieces_async(session: Session, world: World) -> Any:
    return asyncio.run(_read(session, world, whole=False))


READERS = {
    "whole": _whole,
    "pieces": _pieces,
    "whole in a task": _whole_async,
    "pieces in a task": _pieces_async,
}
ENDS = {
    "done": World(*PIECES_OF_IT),
    "broken off": World("head", "a", error=OSError("reset")),
    "only a head": World("head"),
    "unreachable": World(error=OSError("refused")),
}


def _record(read: Read, world: World) -> tuple[Any, MemorySource]:
    with memory_session(mode="record") as session:
        story = read(session, world)
    return story, session.recorded()


def _data(source: MemorySource) -> dict[str, Any]:
    [data] = [event.data for event in source if "request" in event.data]
    return data


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("replayed", READERS)
@pytest.mark.parametrize("recorded", READERS)
def test_every_reader_gets_the_same_from_every_recording(
    recorded: str, replayed: str, end: str
) -> None:
    world = ENDS[end]
    made, source = _record(READERS[recorded], world)
    asked = world.asked
    with memory_session(source) as session:
        assert READERS[replayed](session, world) == made
    assert world.asked == asked
    expected = None if world.error is None else repr(world.error)
    assert made == (list(world.pieces), expected)


@pytest.mark.parametrize("read", [_whole, _whole_async])
def test_a_whole_answer_is_one_delivery(read: Read) -> None:
    _, source = _record(read, World(*PIECES_OF_IT))
    assert len(source) == 1
    assert _data(source)["response"] == {"chunks": PIECES_OF_IT}
    assert "ended" not in _data(source)


@pytest.mark.parametrize("read", [_pieces, _pieces_async])
def test_one_that_is_read_in_pieces_is_a_delivery_for_each(read: Read) -> None:
    _, source = _record(read, World(*PIECES_OF_IT))
    run = [event.data for event in source if event.data["source"] == "schedule"]
    assert [(data["key"], data["count"]) for data in run] == [("chunk:0:0", 3)]
    assert _data(source)["ended"] == "done"


def test_what_breaks_off_a_whole_answer_is_kept_beside_what_came() -> None:
    _, source = _record(_whole, World("head", "a", error=OSError("reset")))
    data = _data(source)
    assert data["response"] == {"chunks": ["head", "a"]}
    assert data["broken"]["message"] == "reset"
    assert "error" not in data


@pytest.mark.parametrize("read", [_whole, _whole_async, _pieces, _pieces_async])
def test_an_answer_that_never_came_is_an_error_of_the_call(read: Read) -> None:
    made, source = _record(read, World(error=OSError("refused")))
    assert made == ([], repr(OSError("refused")))
    assert _data(source)["error"]["message"] == "refused"


# Leaving


def test_a_reader_that_stops_is_recorded_as_far_as_it_read() -> None:
    world = World(*PIECES_OF_IT)

    def program(session: Session) -> list[Any]:
        pieces: Any = fetch(session, CALL, world.live, whole=False)
        seen = [next(pieces), next(pieces)]
        pieces.close()
        return seen

    with memory_session(mode="record") as session:
        assert program(session) == ["head", "a"]
    assert world.closed == 1
    source = session.recorded()
    assert _data(source)["ended"] == "abandoned"
    with memory_session(source) as replay:
        assert program(replay) == ["head", "a"]
    refused = pytest.raises(DivergenceError, match="ends before its answer")
    with refused, memory_session(source) as replay:
        list(fetch(replay, CALL, world.live, whole=False))


def test_a_call_that_is_cancelled_is_never_answered() -> None:
    async def never() -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield "head"

    async def program(session: Session, whole: bool) -> str:
        async def ask() -> Any:
            answer = await fetch_async(session, never, whole=whole)
            assert not isinstance(answer, BufferedResponse)
            return await anext(answer)

        task = asyncio.ensure_future(ask())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        try:
            return str(await task)
        except asyncio.CancelledError:
            return "cancelled"

    for whole in (True, False):
        with memory_session(mode="record") as session:
            assert asyncio.run(program(session, whole)) == "cancelled"
        with memory_session(session.recorded()) as replay:
            assert asyncio.run(program(replay, whole)) == "cancelled"


def test_an_answer_that_is_unfinished_at_the_end_says_so() -> None:
    kept: list[Any] = []
    with memory_session(mode="record") as session:
        pieces: Any = fetch(session, CALL, World(*PIECES_OF_IT).live, whole=False)
        kept.append(pieces)
        assert next(pieces) == "head"
    data = _data(session.recorded())
    assert (data["ended"], data["response"]) == ("abandoned", {"chunks": ["head"]})
    pieces.close()


@pytest.mark.parametrize("read", [_whole, _pieces, _whole_async, _pieces_async])
def test_what_cannot_be_recorded_is_refused_and_the_refusal_is_recorded(read: Read) -> None:
    world = World("head", object())
    with memory_session(mode="record") as session, pytest.raises(ValueRefused):
        read(session, world)
    assert "error" in _data(session.recorded())


# Other modes


@pytest.mark.parametrize("read", [_whole, _pieces, _whole_async, _pieces_async])
@pytest.mark.parametrize("recorded", [_whole, _pieces])
def test_what_is_recorded_is_kept_where_a_recording_is_added_to(recorded: Read, read: Read) -> None:
    made, source = _record(recorded, World(*PIECES_OF_IT))
    before = _data(source)
    world = World("other")
    other = Call(
        type="nondeterministic",
        capability="net.fetch",
        source="network",
        operation="GET",
        request={"url": "http://example.test/new"},
    )
    with memory_session(source, mode="record_missing") as session:
        assert read(session, world) == made
        assert list(fetch(session, other, world.live, whole=True)) == ["other"]
    assert world.asked == 1
    calls = [event.data for event in session.recorded() if "request" in event.data]
    assert calls[0] == before
    assert calls[1]["response"] == {"chunks": ["other"]}


def test_an_answer_that_was_cut_off_is_asked_for_again_where_it_is_missing() -> None:
    with memory_session(mode="record") as session:
        pieces: Any = fetch(session, CALL, World(*PIECES_OF_IT).live, whole=False)
        next(pieces)
        pieces.close()
    world = World(*PIECES_OF_IT)
    with memory_session(session.recorded(), mode="record_missing") as again:
        assert _pieces(again, world) == (PIECES_OF_IT, None)
    assert world.asked == 1
    assert _data(again.recorded())["ended"] == "done"


@pytest.mark.parametrize("read", [_whole, _pieces, _whole_async, _pieces_async])
def test_a_session_that_is_off_lets_it_through(read: Read) -> None:
    world = World(*PIECES_OF_IT)
    with memory_session(mode="off") as session:
        assert read(session, world) == (PIECES_OF_IT, None)
    assert (world.asked, world.closed) == (1, 1)


def test_an_unrecorded_call_is_refused_in_a_replay() -> None:
    _, source = _record(_whole, World("head"))
    other = Call(
        type="nondeterministic",
        capability="net.fetch",
        source="network",
        operation="PUT",
        request={},
    )
    world = World("head")
    with pytest.raises(DivergenceError), memory_session(source, unused="allow") as session:
        list(fetch(session, other, world.live, whole=True))
    assert world.asked == 0


# All at once, by the live side's own word


async def _at_once() -> AsyncIterator[Any]:
    yield BufferedResponse(list(PIECES_OF_IT))


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "pieces"])
def test_a_live_side_may_say_that_all_is_there(whole: bool) -> None:
    async def program(session: Session) -> list[Any]:
        answer = await fetch_async(session, _at_once, whole=whole)
        if not isinstance(answer, BufferedResponse):
            [answer] = [piece async for piece in answer]
        return list(answer)

    with memory_session(mode="record") as session:
        assert asyncio.run(program(session)) == PIECES_OF_IT
    source = session.recorded()
    assert len(source) == 1
    with memory_session(source) as replay:
        assert asyncio.run(program(replay)) == PIECES_OF_IT
