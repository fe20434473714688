"""Tools that give their result piece by piece: left early, cancelled, and what they return."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from reenact import DivergenceError, UsageError, ValueRefused
from reenact.policy.model import DEFAULT
from reenact.testing import memory_session
from reenact.tools.tool import tool
from tests.unit.tools.stage import (
    AGAIN,
    WORLD,
    again,
    ask,
    ask_later,
    async_generator,
    events,
    generator,
    record,
    replay,
)


@dataclass
class Step:
    number: int


@tool
def closing(what: str) -> Iterator[int]:
    try:
        while True:
            yield ask(what)
    finally:
        CLOSED.append(ask("closed"))


@tool
async def closing_later(what: str) -> AsyncIterator[int]:
    try:
        while True:
            yield await ask_later(what)
    finally:
        CLOSED.append(ask("closed"))


CLOSED: list[int] = []


def _takes_two() -> list[int]:
    pieces = closing("x")
    taken = [next(pieces), next(pieces)]
    pieces.close()  # type: ignore[attr-defined]
    return [*taken, ask("after")]


async def _takes_two_later() -> list[int]:
    pieces = closing_later("x")
    taken = [await anext(pieces), await anext(pieces)]
    await pieces.aclose()  # type: ignore[attr-defined]
    return [*taken, ask("after")]


LEFT: dict[str, Callable[[], list[int]]] = {
    "generator": _takes_two,
    "async_generator": lambda: asyncio.run(_takes_two_later()),
}
left = pytest.mark.parametrize("kind", sorted(LEFT))


@left
def test_one_that_is_left_early_is_left_at_the_same_place(kind: str) -> None:
    CLOSED.clear()
    made, source = record(LEFT[kind])
    (result,) = events(source, "tool_result")
    assert (result["ended"], result["result"]) == ("abandoned", {"chunks": made[:2]})
    then = list(CLOSED)
    assert replay(source, LEFT[kind]) == made
    assert then == CLOSED, "a stub has nothing to close"
    assert again(source, LEFT[kind]) == made
    assert then * 2 == CLOSED, "what it does when it is closed is served from its lane"


@left
def test_reading_on_where_the_recorded_program_stopped_is_a_divergence(kind: str) -> None:
    async def all_later() -> list[int]:
        return [item async for item in closing_later("x")]

    reads: dict[str, Callable[[], Any]] = {
        "generator": lambda: list(closing("x")),
        "async_generator": lambda: asyncio.run(all_later()),
    }
    _, source = record(LEFT[kind])
    for policy in (DEFAULT, AGAIN):
        with pytest.raises(DivergenceError) as caught, memory_session(source, policy=policy):
            reads[kind]()
        assert caught.value.to_json()["code"] == "event_missing"


@left
def test_stopping_where_the_recorded_program_read_on_is_a_divergence(kind: str) -> None:
    async def all_later() -> list[int]:
        return [item async for item in async_generator("x")]

    async def first_later() -> None:
        pieces = async_generator("x")
        await anext(pieces)
        await pieces.aclose()  # type: ignore[attr-defined]

    def first() -> None:
        pieces = generator("x")
        next(pieces)
        pieces.close()  # type: ignore[attr-defined]

    both: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "generator": (lambda: list(generator("x")), first),
        "async_generator": (
            lambda: asyncio.run(all_later()),
            lambda: asyncio.run(first_later()),
        ),
    }
    reads, stops = both[kind]
    _, source = record(reads)
    for policy in (DEFAULT, AGAIN):
        with pytest.raises(DivergenceError), memory_session(source, policy=policy):
            stops()


def test_forgotten_it_is_written_as_far_as_it_was_read() -> None:
    def body() -> int:
        return next(generator("x"))

    made, source = record(body)
    (result,) = events(source, "tool_result")
    assert result["result"] == {"chunks": [made]}
    assert replay(source, body) == made


# What it does while others go on


def test_each_step_is_in_its_own_lane_and_the_consumer_is_not() -> None:
    def body() -> list[Any]:
        return [(ask("mine"), item, ask("mine")) for item in generator("x")]

    made, source = record(body)
    lanes = [event.lane for event in source if event.data.get("op") == "ask"]
    assert lanes == ["0.1", "0", "0"] * 3
    assert replay(source, body) == made
    assert again(source, body) == made


def test_two_that_are_read_in_turns() -> None:
    def body() -> list[Any]:
        return list(zip(generator("x"), generator("x"), strict=True))

    made, source = record(body)
    assert replay(source, body) == made
    assert again(source, body) == made


def test_many_at_the_same_time_with_the_same_arguments() -> None:
    async def one() -> list[int]:
        return [item async for item in async_generator("x")]

    async def body() -> list[Any]:
        return await asyncio.gather(*(one() for _ in range(5)))

    made, source = record(lambda: asyncio.run(body()))
    assert replay(source, lambda: asyncio.run(body())) == made
    assert again(source, lambda: asyncio.run(body())) == made


def test_one_inside_of_another() -> None:
    @tool
    def relays(what: str) -> Iterator[int]:
        for item in generator(what):
            yield item + ask("add")

    made, source = record(lambda: list(relays("x")))
    assert replay(source, lambda: list(relays("x"))) == made
    assert again(source, lambda: list(relays("x"))) == made


# Cancelled


@tool
async def waits(what: str) -> AsyncIterator[int]:
    yield await ask_later(what)
    await asyncio.Event().wait()


@tool
async def waits_whole(what: str) -> int:
    await ask_later(what)
    await asyncio.Event().wait()
    return 1


async def _cancelled(start: Callable[[list[int], asyncio.Event], Any]) -> list[int]:
    seen: list[int] = []
    ready = asyncio.Event()
    task = asyncio.create_task(start(seen, ready))
    await ready.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return [*seen, await ask_later("after")]


async def _reads(seen: list[int], ready: asyncio.Event) -> None:
    async for item in waits("x"):
        seen.append(item)
        ready.set()


async def _calls(seen: list[int], ready: asyncio.Event) -> None:
    ready.set()
    seen.append(await waits_whole("x"))


@pytest.mark.parametrize("start", [_reads, _calls], ids=["generator", "coroutine"])
def test_one_that_was_cancelled_is_cancelled_again(start: Any) -> None:
    made, source = record(lambda: asyncio.run(_cancelled(start)))
    (result,) = events(source, "tool_result")
    assert result["ok"] is False
    assert result.get("ended", "cancelled") == "cancelled"
    assert replay(source, lambda: asyncio.run(_cancelled(start))) == made
    assert again(source, lambda: asyncio.run(_cancelled(start))) == made


# When something else comes of it


def test_other_pieces_when_it_runs_again_are_a_divergence() -> None:
    @tool
    def unsteady() -> Iterator[int]:
        yield 1
        yield WORLD.next()

    _, source = record(lambda: list(unsteady()))
    with pytest.raises(DivergenceError) as caught, memory_session(source, policy=AGAIN):
        list(unsteady())
    assert caught.value.to_json()["jsonPath"] == "$['result']['chunks'][1]"


@pytest.mark.parametrize("number", [1, 5])
def test_more_or_fewer_pieces_when_it_runs_again_are_a_divergence(number: int) -> None:
    pieces = [3]

    @tool
    def counts() -> Iterator[int]:
        yield from range(pieces[0])

    def body() -> Any:
        return [*counts(), ask("after")]

    _, source = record(body)
    pieces[0] = number
    with pytest.raises(DivergenceError) as caught, memory_session(source, policy=AGAIN):
        body()
    assert "'chunks'" in caught.value.to_json()["jsonPath"]


def test_a_lenient_rerun_goes_on_with_what_comes() -> None:
    pieces = [3]

    @tool
    def counts() -> Iterator[int]:
        yield from range(pieces[0])

    def body() -> Any:
        return [list(counts()), ask("after")]

    made, source = record(body)
    pieces[0] = 1
    with memory_session(source, policy=AGAIN, strict=False) as session:
        assert body() == [[0], made[1]]
    assert [one.code for one in session.divergences()] == ["event_payload_mismatch"]


# Values


@tool
def steps(count: int) -> Generator[Step, None, Step]:
    for number in range(count):
        yield Step(number + ask("step"))
    return Step(-1)


def test_pieces_and_what_is_returned_come_back_as_the_annotation_says() -> None:
    def body() -> list[Any]:
        seen: list[Any] = []

        def relays() -> Iterator[Any]:
            seen.append((yield from steps(2)))

        return [list(relays()), seen]

    made, source = record(body)
    assert isinstance(made[0][0], Step)
    assert made[1] == [Step(-1)]
    assert replay(source, body) == made
    assert again(source, body) == made


def test_a_piece_that_cannot_be_recorded_ends_the_tool() -> None:
    @tool
    def odd() -> Iterator[Any]:
        yield 1
        yield object()

    def body() -> list[Any]:
        seen: list[Any] = []
        with pytest.raises(ValueRefused, match="a object is not plain data"):
            seen.extend(item for item in odd())
        return seen

    _, source = record(body)
    (result,) = events(source, "tool_result")
    assert (result["ok"], result["ended"], result["result"]) == (False, "failed", {"chunks": [1]})
    replay(source, body)


def test_a_recording_that_is_added_to_keeps_what_runs_again() -> None:
    made, source = record(lambda: list(generator("x")))
    for policy in (DEFAULT, AGAIN):
        with memory_session(source, mode="record_missing", policy=policy) as session:
            assert list(generator("x")) == made
            more = list(generator("y"))
        found = events(session.recorded(), "tool_result")
        assert [one["result"]["chunks"] for one in found] == [made, more]


def test_a_consumer_only_takes() -> None:
    def body() -> None:
        pieces: Any = generator("x")
        next(pieces)
        with pytest.raises(UsageError, match="a value was sent into the stream generator"):
            pieces.send(3)

    _, source = record(body)
    replay(source, body)


def test_one_that_is_forgotten_is_closed_in_its_lane() -> None:
    async def body() -> list[int]:
        before = len(CLOSED)
        async for item in closing_later("x"):
            taken = item
            break
        gc.collect()
        while len(CLOSED) == before:
            await asyncio.sleep(0)
        return [taken, ask("after"), CLOSED[-1]]

    made, source = record(lambda: asyncio.run(body()))
    assert ("0.1", {"what": "closed"}) in [
        (event.lane, event.data.get("request")) for event in source
    ]
    assert again(source, lambda: asyncio.run(body())) == made
