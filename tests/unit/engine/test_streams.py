"""Streams, and the ways in which a consumer can leave one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from reenact import DivergenceError, Session, SessionClosed, UsageError, ValueRefused
from tests.unit.engine.stage import Stage


class Tap:
    """A live stream: what it gave, and whether it was closed."""

    def __init__(self, count: int = 5, fails: BaseException | None = None) -> None:
        self.given = 0
        self.closed = 0
        self._count = count
        self._fails = fails

    def pour(self) -> Iterator[int]:
        try:
            for number in range(self._count):
                self.given += 1
                yield number
            if self._fails is not None:
                raise self._fails
        finally:
            self.closed += 1

    async def apour(self) -> AsyncIterator[int]:
        try:
            for number in range(self._count):
                self.given += 1
                await asyncio.sleep(0)
                yield number
            if self._fails is not None:
                raise self._fails
        finally:
            self.closed += 1


def _ended(stage: Stage) -> list[Any]:
    """How each stream ended, and what was seen of it."""
    streams = [data for data in stage.data() if "ended" in data]
    return [(data["ended"], data["response"]["chunks"]) for data in streams]


# Leaving early


def _to_the_end(stream: Any) -> Any:
    return list(stream)


def _break(stream: Any) -> Any:
    seen = []
    for piece in stream:
        seen.append(piece)
        if piece == 1:
            break
    return seen


def _forget(stream: Any) -> Any:
    seen = [next(stream), next(stream)]
    del stream
    gc.collect()
    return seen


def _close(stream: Any) -> Any:
    seen = [next(stream), next(stream)]
    stream.close()
    return seen


def _fail(stream: Any) -> Any:
    seen = []
    with pytest.raises(KeyError):
        for piece in stream:
            seen.append(piece)
            if piece == 1:
                raise KeyError(piece)
    return seen


def _throw(stream: Any) -> Any:
    seen = [next(stream), next(stream)]
    with pytest.raises(KeyError):
        stream.throw(KeyError("mine"))
    return seen


LEAVING = [_break, _forget, _close, _fail, _throw]


@pytest.mark.parametrize("leave", LEAVING)
def test_a_consumer_that_leaves_early_records_what_it_saw(
    leave: Callable[[Any], Any],
) -> None:
    stage, tap = Stage(), Tap()

    def body(session: Session) -> Any:
        seen = leave(session.stream("tap", {}, tap.pour))
        return seen, session.call("then", {}, lambda: "then")

    assert stage.both(body) == ([0, 1], "then")
    assert _ended(stage) == [("abandoned", [0, 1])]
    assert (tap.given, tap.closed) == (2, 1)


def test_a_stream_that_is_read_to_its_end() -> None:
    stage, tap = Stage(), Tap(3)
    assert stage.both(lambda session: list(session.stream("tap", {}, tap.pour))) == [0, 1, 2]
    assert _ended(stage) == [("done", [0, 1, 2])]
    assert (tap.given, tap.closed) == (3, 1)


def test_a_stream_that_fails() -> None:
    stage, tap = Stage(), Tap(2, OSError(5, "broken", "pipe"))

    def body(session: Session) -> Any:
        seen: list[Any] = []
        with pytest.raises(OSError, match=r"\[Errno 5\] broken: 'pipe'"):
            for piece in session.stream("tap", {}, tap.pour):
                seen.append(piece)
        return seen

    assert stage.both(body) == [0, 1]
    assert _ended(stage) == [("failed", [0, 1])]


def test_a_stream_that_cannot_even_begin() -> None:
    stage = Stage()

    def refuse() -> Iterator[int]:
        raise ConnectionRefusedError(111, "refused")

    def body(session: Session) -> Any:
        stream = session.stream("tap", {}, refuse)
        with pytest.raises(ConnectionRefusedError):
            next(stream)

    stage.both(body)
    assert _ended(stage) == [("failed", [])]


def test_a_stream_that_nobody_reads() -> None:
    stage, tap = Stage(), Tap()

    def body(session: Session) -> Any:
        session.stream("tap", {}, tap.pour)
        return session.call("then", {}, lambda: 1)

    assert stage.both(body) == 1
    assert tap.given == 0
    assert _ended(stage) == [("abandoned", [])]


def test_a_stream_that_is_still_open_at_the_end_of_the_session() -> None:
    stage, tap = Stage(), Tap()
    kept: list[Iterator[Any]] = []

    def body(session: Session) -> Any:
        kept.append(session.stream("tap", {}, tap.pour))
        return next(kept[-1])

    assert stage.both(body) == 0
    assert _ended(stage) == [("abandoned", [0])]
    recorded, replayed = kept
    assert list(recorded) == [1, 2, 3, 4]  # it is the program's own, and nobody records it
    assert [text for text in stage.warnings if "after the end" in text] == stage.warnings
    assert len(stage.warnings) == 1
    with pytest.raises(SessionClosed):
        next(replayed)


def test_what_a_generator_returns_is_recorded() -> None:
    stage = Stage()

    def live() -> Any:
        yield 1
        return {"total": 1}

    def outer(session: Session) -> Any:
        result = yield from session.stream("tap", {}, live)  # type: ignore[func-returns-value]
        yield result

    assert stage.both(lambda session: list(outer(session))) == [1, {"total": 1}]


def test_sending_into_a_stream_is_refused_and_not_ignored() -> None:
    stage, tap = Stage(), Tap()

    def body(session: Session) -> Any:
        stream: Any = session.stream("tap", {}, tap.pour)
        next(stream)
        with pytest.raises(UsageError, match="sent into the stream tap"):
            stream.send("value")

    stage.both(body)
    assert tap.closed == 1


def test_a_piece_that_cannot_be_recorded_ends_the_stream() -> None:
    stage = Stage()

    def body(session: Session) -> Any:
        seen: list[Any] = []
        with pytest.raises(ValueRefused, match=r"\$\.x"):
            for piece in session.stream("tap", {}, lambda: iter([1, {"x": {2}}, 3])):
                seen.append(piece)
        return seen, session.call("then", {}, lambda: 1)

    assert stage.both(body) == ([1], 1)
    assert _ended(stage) == [("failed", [1])]


def test_pieces_are_passed_by_value() -> None:
    stage = Stage()
    shared = {"list": [1]}

    def body(session: Session) -> Any:
        for piece in session.stream("tap", {}, lambda: iter([shared])):
            piece["list"].append("changed")
        return None

    stage.record(body)
    assert shared == {"list": [1]}
    assert _ended(stage) == [("done", [{"list": [1]}])]


def test_calls_inside_a_loop_over_a_stream_keep_their_places() -> None:
    stage, tap = Stage(), Tap(3)

    def body(session: Session) -> Any:
        outer = session.stream("tap", {"n": 1}, tap.pour)
        inner = session.stream("tap", {"n": 2}, Tap(3).pour)
        return [
            (piece, next(inner), session.call("f", {"x": piece}, lambda: tap.given))
            for piece in outer
        ]

    assert stage.both(body) == [(0, 0, 1), (1, 1, 2), (2, 2, 3)]


# A replay in which the consumer does something else


def _recorded(read: Callable[[Any], Any]) -> Stage:
    stage = Stage()
    stage.record(lambda session: read(session.stream("tap", {}, Tap().pour)))
    return stage


@pytest.mark.parametrize("leave", [*LEAVING, next, lambda stream: None])
def test_reading_less_is_a_divergence(leave: Callable[[Any], Any]) -> None:
    stage = _recorded(_to_the_end)
    with pytest.raises(DivergenceError) as caught, stage.replaying() as session:
        leave(session.stream("tap", {}, Tap().pour))
    assert caught.value.to_json()["code"] == "event_missing"


def test_reading_less_is_said_by_a_lenient_session() -> None:
    stage = _recorded(_to_the_end)
    with stage.replaying(strict=False) as session:
        assert next(session.stream("tap", {}, Tap().pour)) == 0
    assert [one.code for one in session.divergences()] == ["event_missing"]


@pytest.mark.parametrize("leave", LEAVING)
def test_reading_more_is_a_divergence(leave: Callable[[Any], Any]) -> None:
    stage = _recorded(leave)
    seen: list[Any] = []
    with pytest.raises(DivergenceError), stage.replaying() as session:
        for piece in session.stream("tap", {}, Tap().pour):
            seen.append(piece)
    assert seen == [0, 1]


# Asynchronous streams


async def _abreak(stream: Any) -> Any:
    seen = []
    async for piece in stream:
        seen.append(piece)
        if piece == 1:
            break
    return seen


async def _aclose(stream: Any) -> Any:
    seen = [await anext(stream), await anext(stream)]
    await stream.aclose()
    return seen


async def _athrow(stream: Any) -> Any:
    seen = [await anext(stream), await anext(stream)]
    with pytest.raises(KeyError):
        await stream.athrow(KeyError("mine"))
    return seen


@pytest.mark.parametrize("leave", [_abreak, _aclose, _athrow])
def test_an_async_consumer_that_leaves_early_records_what_it_saw(
    leave: Callable[[Any], Any],
) -> None:
    stage, tap = Stage(), Tap()

    async def read(session: Session) -> Any:
        seen = await leave(session.aio.stream("tap", {}, tap.apour))
        await asyncio.sleep(0)
        return seen

    assert stage.both(lambda session: asyncio.run(read(session))) == [0, 1]
    assert _ended(stage) == [("abandoned", [0, 1])]
    assert tap.given == 2
    assert tap.closed == 1


def test_an_async_stream_to_its_end_and_to_its_failure() -> None:
    stage = Stage()

    async def read(session: Session) -> Any:
        seen = [piece async for piece in session.aio.stream("one", {}, Tap(3).apour)]
        with pytest.raises(KeyError, match="broken"):
            async for piece in session.aio.stream("two", {}, Tap(2, KeyError("broken")).apour):
                seen.append(piece)
        return seen

    assert stage.both(lambda session: asyncio.run(read(session))) == [0, 1, 2, 0, 1]
    assert _ended(stage) == [("done", [0, 1, 2]), ("failed", [0, 1])]


@pytest.mark.parametrize("how", ["time-out", "cancel"])
def test_an_async_stream_that_is_cancelled(how: str) -> None:
    stage = Stage()

    async def slow() -> AsyncIterator[int]:
        yield 0
        await asyncio.Event().wait()

    async def consume(
        session: Session, seen: list[Any], limit: asyncio.Timeout | None = None
    ) -> None:
        async for piece in session.aio.stream("slow", {}, slow):
            seen.append(piece)
            if limit is not None:
                limit.reschedule(asyncio.get_running_loop().time() + 0.005)

    async def read(session: Session) -> Any:
        seen: list[Any] = []
        if how == "time-out":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit:
                    await consume(session, seen, limit)
        else:
            task = asyncio.create_task(consume(session, seen))
            while not seen:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return seen

    assert stage.both(lambda session: asyncio.run(read(session))) == [0]
    assert _ended(stage) == [("cancelled", [0])]


def test_an_async_stream_that_is_still_open_at_the_end() -> None:
    stage = Stage()
    assert asyncio.run(_open_late(stage, Tap())) == [0, 1]
    assert _ended(stage) == [("abandoned", [0])]


async def _open_late(stage: Stage, tap: Tap) -> list[Any]:
    seen: list[Any] = []
    async with stage.recording() as session:
        stream: Any = session.aio.stream("tap", {}, tap.apour)
        seen.append(await anext(stream))
    seen.append(await anext(stream))  # live, and not recorded
    await stream.aclose()
    async with stage.replaying() as session:
        again: Any = session.aio.stream("tap", {}, tap.apour)
        assert await anext(again) == 0
    with pytest.raises(SessionClosed):
        await anext(again)
    return seen


def test_reading_less_of_an_async_stream_is_a_divergence() -> None:
    stage = Stage()

    async def all_of(session: Session) -> Any:
        return [piece async for piece in session.aio.stream("tap", {}, Tap().apour)]

    async def some_of(session: Session) -> Any:
        return await _abreak(session.aio.stream("tap", {}, Tap().apour))

    stage.record(lambda session: asyncio.run(all_of(session)))
    with pytest.raises(DivergenceError):
        stage.replay(lambda session: asyncio.run(some_of(session)))
