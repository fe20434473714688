"""Adding to recordings of every shape: afterwards a replay is exact, and what was there stayed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, Policy
from reenact.policy.model import BoundaryRule
from tests.integration.sessions import Studio, outcome


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


def _added(studio: Studio, body: Callable[[], Any], **arguments: Any) -> Any:
    """What a session that adds to the recording gives; the next one adds nothing, a replay gives
    the same."""
    made = studio.record(body, mode="record_missing", **arguments)
    asked, before = studio.asked, studio.everything()
    assert studio.replay(body, **arguments) == made
    studio.record(body, mode="record_missing", **arguments)
    assert studio.everything() == before
    assert studio.asked == asked
    return made


def _added_each_time(studio: Studio, body: Callable[[], Any]) -> Any:
    """The same for what has no answer in the recording however often it is recorded."""
    for _ in range(2):
        made = studio.record(body, mode="record_missing")
        assert studio.replay(body) == made
    return made


def test_a_new_call_in_the_middle_of_a_recorded_stream(studio: Studio) -> None:
    def plain() -> Any:
        return [[word, studio.get(word[:2])] for word in studio.words(3)]

    def longer() -> Any:
        return [[word, studio.get(0), studio.get(word[:2])] for word in studio.words(3)]

    made = studio.record(plain)
    assert [[a, c] for a, _, c in _added(studio, longer)] == made


def test_a_new_stream_around_recorded_calls(studio: Studio) -> None:
    made = studio.record(lambda: [studio.get(1), studio.get(2)])

    def body() -> Any:
        return [(word, studio.get(number)) for number, word in enumerate(studio.words(2), 1)]

    assert [answer for _, answer in _added(studio, body)] == made


def test_a_recorded_stream_that_is_read_less_far_is_recorded_as_it_is_read_now(
    studio: Studio,
) -> None:
    [first, *_] = studio.record(lambda: list(studio.words(3)))
    assert studio.record(lambda: next(studio.words(3)), mode="record_missing") == first
    assert studio.replay(lambda: next(studio.words(3))) == first


def test_a_stream_of_which_only_a_part_was_recorded_is_asked_for_again(studio: Studio) -> None:
    [first] = studio.record(lambda: [next(studio.words(3))])
    words = _added(studio, lambda: list(studio.words(3)))
    assert len(words) == 3
    assert words[0] != first


def test_a_recorded_stream_that_failed_fails_again(studio: Studio) -> None:
    def broken() -> Iterator[int]:
        yield studio.answer()
        raise OSError(5, "no more")

    def read() -> Any:
        seen: list[Any] = []
        try:
            for piece in reenact.current().stream("broken", {}, broken):  # type: ignore[union-attr]
                seen.append(piece)
        except OSError as error:
            seen.append(str(error))
        return seen

    made = studio.record(read)
    assert _added(studio, lambda: [read(), studio.get(1)])[0] == made


def test_a_call_that_was_never_answered_is_made_again(studio: Studio) -> None:
    async def patient() -> Any:
        return await studio.aget(1)

    async def impatient() -> Any:
        call = asyncio.create_task(patient())
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    async def body() -> Any:
        return await asyncio.create_task(patient())

    studio.record(lambda: asyncio.run(impatient()))
    assert _added(studio, lambda: asyncio.run(body()))["x"] == 1


def test_a_recorded_call_that_is_cancelled_now_is_recorded_as_cancelled(studio: Studio) -> None:
    async def body(cancels: bool) -> Any:
        call = asyncio.create_task(studio.aget(1))
        await asyncio.sleep(0)
        if cancels:
            call.cancel()
        result = (await asyncio.gather(call, return_exceptions=True))[0]
        return repr(result), await studio.aget(2)

    studio.record(lambda: asyncio.run(body(False)))
    made = _added_each_time(studio, lambda: asyncio.run(body(True)))
    assert made[0].startswith("CancelledError")


def test_timers_and_time_outs_around_new_calls(studio: Studio) -> None:
    async def slow() -> Any:
        await asyncio.Event().wait()

    async def body(more: bool) -> Any:
        seen: list[Any] = []
        session = reenact.current()
        assert session is not None
        for number in range(2):
            await asyncio.sleep(0.001)
            seen.append(await studio.aget(number))
            if more:
                seen.append(await studio.aget("new"))
            try:
                async with asyncio.timeout(0.005):
                    await session.aio.call("slow", {}, slow, capability="net.fetch")
            except TimeoutError:
                seen.append("time out")
        return seen

    made = studio.record(lambda: asyncio.run(body(False)))
    again = _added_each_time(studio, lambda: asyncio.run(body(True)))
    assert [one for one in again if one == "time out" or one["x"] != "new"] == made


def test_many_tasks_and_threads_with_new_calls_between(studio: Studio) -> None:
    """Adding is a recording: its order of deliveries is the one that is re-enacted afterwards."""

    async def worker(name: int, count: int, seen: list[Any]) -> None:
        for number in range(count):
            seen.append(await studio.aget([name, number]))
            seen.append(await asyncio.to_thread(studio.get, [name, number, "thread"]))

    async def body(count: int) -> Any:
        seen: list[Any] = []
        await asyncio.gather(*(worker(name, count, seen) for name in range(4)))
        return seen

    made = studio.record(lambda: asyncio.run(body(2)))
    again = _added(studio, lambda: asyncio.run(body(3)))
    old = {str(one["x"]): one["n"] for one in made}
    assert {str(one["x"]): one["n"] for one in again if one["x"][1] < 2} == old


def test_what_is_added_twice_keeps_its_place(studio: Studio) -> None:
    def body(*numbers: int) -> Callable[[], Any]:
        return lambda: [studio.get(number) for number in numbers]

    one, three = studio.record(body(1, 3))
    _, two, _ = _added(studio, body(1, 2, 3))
    made = studio.record(body(2, 9, 1, 3), mode="record_missing")
    assert [made[0], made[2], made[3]] == [two, one, three]
    assert studio.replay(body(2, 9, 1, 3)) == made


def test_tools_keep_what_they_did_inside(studio: Studio) -> None:
    def tool(number: int) -> Any:
        session = reenact.current()
        assert session is not None
        return session.call("tool", {"n": number}, lambda: [studio.get(number), studio.get(0)])

    made = studio.record(lambda: [tool(1), tool(2)])
    again = _added(studio, lambda: [tool(1), studio.get(5), tool(3), tool(2)])
    assert [again[0], again[3]] == made
    inside = [event for event in studio.events() if event.lane != "0"]
    assert len(inside) == 6


def test_a_tool_that_runs_again_is_recorded_again_only_if_it_gives_something_else(
    studio: Studio,
) -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(operation="tool", action="re-execute"),))
    extra = {"says": 1}

    def body() -> Any:
        session = reenact.current()
        assert session is not None
        return session.call("tool", {}, lambda: [studio.get(1)["n"], extra["says"]])

    made = studio.record(body, policy=policy)
    assert _added(studio, body, policy=policy) == made
    extra["says"] = 2
    assert _added(studio, body, policy=policy) == [made[0], 2]


def test_starts_ends_and_events_by_hand_are_kept(studio: Studio) -> None:
    def body(result: str, *numbers: int) -> Any:
        session = reenact.current()
        assert session is not None
        session.record_event("run_start", {"input": "q", "argv": ["prog"]})
        session.record_event("llm_request", {"provider": "p", "model": "m", "inputHash": "h"})
        answer = {"provider": "p", "model": "m", "stopReason": "end", "usage": None}
        session.record_event("llm_response", answer)
        session.record_nondeterministic("clock", "now", 5)
        session.record_event("state_mutation", {"type": "file_write", "details": {"path": "a"}})
        made = [studio.get(number) for number in numbers]
        session.record_event("run_end", {"status": "ok", "output": result})
        return made

    made = studio.record(lambda: body("one", 1))
    assert _added(studio, lambda: body("one", 1)) == made
    assert _added(studio, lambda: body("two", 1, 2))[:1] == made
    kinds = [event.type for event in studio.events()]
    assert kinds.count("run_start") == kinds.count("run_end") == kinds.count("llm_response") == 1


def test_refusals_are_kept(studio: Studio) -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(operation="tool", action="block"),))

    def body(*numbers: int) -> Any:
        session = reenact.current()
        assert session is not None
        refused = outcome(lambda: session.call("tool", {}, lambda: 1))
        return [refused, *(studio.get(number) for number in numbers)]

    made = studio.record(lambda: body(1), policy=policy)
    assert _added(studio, lambda: body(1), policy=policy) == made
    assert _added(studio, lambda: body(1, 2), policy=policy)[:2] == made
    assert len([event for event in studio.events() if event.type == "tool_call"]) == 1


def test_async_streams_are_kept(studio: Studio) -> None:
    async def body(more: bool) -> Any:
        seen: list[Any] = []
        async for word in studio.awords(3):
            seen.append(word)
            if more:
                seen.append(await studio.aget(1))
        return seen

    made = studio.record(lambda: asyncio.run(body(False)))
    again = _added(studio, lambda: asyncio.run(body(True)))
    assert [one for one in again if isinstance(one, str)] == made


def test_an_async_stream_that_fails_is_kept(studio: Studio) -> None:
    async def broken() -> AsyncIterator[int]:
        yield studio.answer()
        raise KeyError("gone")

    async def body(*numbers: int) -> Any:
        session = reenact.current()
        assert session is not None
        seen: list[Any] = []
        with pytest.raises(KeyError, match="gone"):
            async for piece in session.aio.stream("broken", {}, broken):
                seen.append(piece)
        return [*seen, *[await studio.aget(number) for number in numbers]]

    made = studio.record(lambda: asyncio.run(body()))
    assert _added(studio, lambda: asyncio.run(body(1)))[:1] == made


@pytest.mark.parametrize("match", ["lookup", "transcript"])
def test_by_look_up_and_by_transcript(studio: Studio, match: str) -> None:
    made = studio.record(lambda: [studio.get(1), studio.get(2)], match=match)
    body = lambda: [studio.get(1), studio.get(7), studio.get(2)]  # noqa: E731
    again = _added(studio, body, match=match)
    assert [again[0], again[2]] == made


def test_threads_that_add_at_the_same_time_lose_nothing(studio: Studio) -> None:
    def body(count: int) -> Any:
        seen: dict[int, Any] = {}

        def run(name: int) -> None:
            seen[name] = [studio.get([name, number]) for number in range(count)]

        threads = [threading.Thread(target=run, args=(name,)) for name in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [seen[name] for name in range(5)]

    made = studio.record(lambda: body(5))
    again = _added(studio, lambda: body(8))
    assert [lane[:5] for lane in again] == made


def test_a_strict_replay_complains_about_what_stayed_and_is_not_used(studio: Studio) -> None:
    studio.record(lambda: studio.get(1))
    studio.record(lambda: studio.get(2), mode="record_missing")
    with pytest.raises(DivergenceError) as caught:
        studio.replay(lambda: studio.get(2))
    assert caught.value.to_json()["code"] == "event_missing"
