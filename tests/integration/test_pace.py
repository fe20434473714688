"""The recorded pace: nothing is handed over earlier than it came, and nothing else changes.

No test looks at a clock: what a pace waits for is told by the clock and the sleep that it is given,
or by the order in which two streams are read where no order is re-enacted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import Session, UsageError
from reenact.boundaries.http.api import Head, Request, ask, ask_async
from reenact.engine.execution.pace import RecordedPace
from reenact.format.event import Draft
from reenact.store.sinks.memory import MemorySource
from reenact.testing import memory_session, memory_source

HEAD = Head(status=200)


class Time:
    """A clock that only sleeping moves on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


def _pace(session: Session, time: Time, *offsets: Any) -> RecordedPace:
    data = {"timing": {"offsets": list(offsets)}}
    return RecordedPace(session, data, clock=time.clock, sleep=time.sleep)


def _replay(**options: Any) -> Session:
    return memory_session(memory_source(), unused="allow", **options)


def test_each_piece_waits_for_its_time_since_the_call_began() -> None:
    time = Time()
    with _replay(pace="recorded") as session:
        pace = _pace(session, time, 10, 10, 250, 300)
        for number in range(4):
            pace.wait(number)
    assert time.slept == [0.01, 0.24, 0.05]


def test_time_that_has_gone_by_is_not_waited_for() -> None:
    time = Time()
    with _replay(pace="recorded") as session:
        pace = _pace(session, time, 200)
        time.now += 0.15
        pace.wait(0)
        time.now += 5
        pace.wait(0)
    assert time.slept == [0.05]


def test_a_long_wait_is_taken_in_steps_so_that_it_is_no_standstill() -> None:
    time = Time()
    with _replay(pace="recorded") as session:
        pace = _pace(session, time, 2_500)
        before = session.scheduler.progress().activity
        pace.wait(0)
        assert session.scheduler.progress().activity >= before + 3
    assert time.slept == [1.0, 1.0, 0.5]


@pytest.mark.parametrize("options", [{}, {"pace": "instant"}], ids=["default", "instant"])
def test_without_it_nothing_waits(options: dict[str, Any]) -> None:
    time = Time()
    with _replay(**options) as session:
        _pace(session, time, 1_000).wait(0)
    assert time.slept == []


@pytest.mark.parametrize(
    "offsets",
    [(), ("soon",), (None,), (True,), (-5,)],
    ids=["none", "text", "null", "bool", "past"],
)
def test_a_piece_without_a_recorded_time_comes_at_once(offsets: Any) -> None:
    time = Time()
    with _replay(pace="recorded") as session:
        _pace(session, time, *offsets).wait(0)
    assert time.slept == []


@pytest.mark.parametrize("mode", ["record", "record_missing"])
def test_only_a_replay_has_a_pace(mode: str) -> None:
    time = Time()
    with memory_session(mode=mode, pace="recorded") as session:
        _pace(session, time, 1_000).wait(0)
    assert time.slept == []


def test_an_unknown_pace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no pace 'slow'"):
        reenact.session(capture=tmp_path / "run", mode="replay", pace="slow")  # type: ignore[arg-type]


# Recorded and replayed


def _request(name: str) -> Request:
    return Request(method="GET", url=f"http://example.test/{name}")


def _live(*pieces: bytes) -> Callable[[], Iterator[Any]]:
    def live() -> Iterator[Any]:
        yield HEAD
        yield from pieces

    return live


def _alive(*pieces: bytes) -> Callable[[], AsyncIterator[Any]]:
    async def live() -> AsyncIterator[Any]:
        yield HEAD
        for piece in pieces:
            yield piece

    return live


def _offsets(source: MemorySource) -> list[Any]:
    return [event.data["timing"]["offsets"] for event in source if "request" in event.data]


@pytest.mark.parametrize("whole, count", [(False, 3), (True, 1)], ids=["pieces", "whole"])
def test_it_is_recorded_when_each_piece_and_each_answer_came(whole: bool, count: int) -> None:
    with memory_session(mode="record") as session:
        list(ask(session, _request("a"), _live(b"x", b"y"), whole=whole))
    [offsets] = _offsets(session.recorded())
    assert len(offsets) == count
    assert offsets == sorted(offsets)
    assert all(type(one) is int for one in offsets)


def _with_offsets(source: MemorySource, offsets: dict[str, list[int]]) -> MemorySource:
    """The same recording, in which the answers took other times."""
    drafts = []
    for event in source:
        data = event.data
        if "request" in data:
            data = {**data, "timing": {"offsets": offsets[data["request"]["url"][-1]]}}
        drafts.append(Draft(type=event.type, data=data, ts=event.ts, lane=event.lane))
    return memory_source(*drafts)


SLOW, AT_ONCE = [0, 250, 250, 250], [0, 0, 0, 0]


def test_two_tasks_get_their_pieces_in_the_order_of_their_times() -> None:
    seen: list[str] = []

    async def read(session: Session, name: str) -> None:
        pieces = [f"{name}{number}".encode() for number in range(3)]
        async for piece in await ask_async(session, _request(name), _alive(*pieces)):
            seen.append(piece.decode())

    async def both(session: Session) -> None:
        await asyncio.gather(read(session, "a"), read(session, "b"))

    with memory_session(mode="record", match="lookup") as recording:
        asyncio.run(both(recording))
    source = _with_offsets(recording.recorded(), {"a": SLOW, "b": AT_ONCE})
    seen.clear()
    with memory_session(source, match="lookup") as session:
        asyncio.run(both(session))
    assert seen[0] == "a0"
    seen.clear()
    with memory_session(source, match="lookup", pace="recorded") as session:
        asyncio.run(both(session))
    assert seen == ["b0", "b1", "b2", "a0", "a1", "a2"]


def test_the_recorded_order_holds_whatever_the_times_say() -> None:
    async def read(session: Session, name: str, seen: list[str]) -> None:
        pieces = [f"{name}{number}".encode() for number in range(3)]
        async for piece in await ask_async(session, _request(name), _alive(*pieces)):
            seen.append(piece.decode())

    async def both(session: Session) -> list[str]:
        seen: list[str] = []
        await asyncio.gather(read(session, "a", seen), read(session, "b", seen))
        return seen

    with memory_session(mode="record") as recording:
        story = asyncio.run(both(recording))
    source = _with_offsets(recording.recorded(), {"a": [0, 9, 9, 9], "b": [0, 3, 20, 21]})
    with memory_session(source, pace="recorded") as session:
        assert asyncio.run(both(session)) == story


@pytest.mark.parametrize("match", ["lane", "lookup"])
def test_whole_answers_wait_as_well(match: Any) -> None:
    seen: list[str] = []

    async def read(session: Session, name: str) -> None:
        reply = await ask_async(session, _request(name), _alive(name.encode()), whole=True)
        seen.extend([piece.decode() async for piece in reply])

    async def both(session: Session) -> None:
        await asyncio.gather(read(session, "a"), read(session, "b"))

    with memory_session(mode="record", match=match) as recording:
        asyncio.run(both(recording))
    recorded_order = list(seen)
    seen.clear()
    source = _with_offsets(recording.recorded(), {"a": [250], "b": [0]})
    with memory_session(source, match=match, pace="recorded") as session:
        asyncio.run(both(session))
    assert seen == (["b", "a"] if match == "lookup" else recorded_order)


def test_a_wait_that_is_longer_than_the_patience_is_no_stall() -> None:
    seen: list[str] = []

    def read(session: Session, name: str) -> None:
        for piece in ask(session, _request(name), _live(f"{name}0".encode())):
            seen.append(piece.decode())

    def both(session: Session) -> None:
        threads = [threading.Thread(target=read, args=(session, name)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with memory_session(mode="record") as recording:
        both(recording)
    source = _with_offsets(recording.recorded(), {"a": [0, 1_200], "b": [0, 0]})
    story = list(seen)
    seen.clear()
    with memory_session(source, pace="recorded", patience=0.5) as session:
        both(session)
    assert seen == story


def test_a_task_that_is_cancelled_while_it_waits_ends() -> None:
    async def program(session: Session) -> str:
        reply = await ask_async(session, _request("a"), _alive(b"a0", b"a1"))
        first = await anext(reply)
        task = asyncio.ensure_future(anext(reply))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return first.decode()

    with memory_session(mode="record") as recording:
        asyncio.run(_all(recording))
    source = _with_offsets(recording.recorded(), {"a": [0, 0, 3_600_000]})
    with memory_session(source, pace="recorded", strict=False, unused="allow") as session:
        assert asyncio.run(program(session)) == "a0"


async def _all(session: Session) -> list[bytes]:
    return [piece async for piece in await ask_async(session, _request("a"), _alive(b"a0", b"a1"))]
