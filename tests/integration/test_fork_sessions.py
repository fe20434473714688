"""Forking a run in a session: the same up to a call, then live, and a recording of its own."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, PolicyRefused, RecordingExists, UsageError
from reenact.engine.fork.plan import At, ForkPoint, fork_points
from tests.integration.sessions import Studio

Program = Callable[[Studio], Any]


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


def _session() -> reenact.Session:
    session = reenact.current()
    assert session is not None
    return session


# Programs: no two answers of the world are the same


def sequential(studio: Studio) -> Any:
    """Calls, draws, a tool that asks in turn, a stream, and a failure."""
    session = _session()
    session.record_event("run_start", {"input": "q"})
    made: list[Any] = []
    for number in range(3):
        made += [studio.get(number), time.time(), random.random()]
    made.append(session.call("slow", {}, lambda: [studio.get("in"), studio.get("in, too")]))
    made.append(list(studio.words(3)))
    with pytest.raises(ZeroDivisionError):
        session.call("fails", {}, lambda: 1 // 0)
    made.append(studio.get("last"))
    session.record_event("run_end", {"status": "ok"})
    return made


def tasks(studio: Studio) -> Any:
    """Tasks that answers, pieces, timers and a cancelled call race in."""

    @reenact.boundary
    async def never() -> None:
        await asyncio.Event().wait()

    @reenact.boundary
    async def pieces(name: int) -> AsyncIterator[str]:
        for number in range(3):
            for _ in range(name):
                await asyncio.sleep(0)
            yield f"{name}.{number}-{studio.answer()}"

    async def worker(name: int) -> None:
        for number in range(3):
            made.append(await studio.aget(f"{name}.{number}"))
            made.append(random.random())
            if name == 1:
                made.extend([piece async for piece in pieces(name)])
            if name == 2:
                made.append(await _session().aio.call("tool", {"n": number}, inside))
            await asyncio.sleep(0.001 * name)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await never()
        made.append("timeout")

    async def inside() -> Any:
        return await studio.aget("inside")

    async def everybody() -> None:
        await asyncio.gather(*map(worker, range(3)))

    made: list[Any] = []
    asyncio.run(everybody())
    return made


def threads(studio: Studio) -> Any:
    """Threads that wait for each other, and one for nobody."""
    made: list[Any] = []
    ready = [threading.Event() for _ in range(4)]

    def run(name: int) -> None:
        try:
            for number in range(3):
                made.append((name, studio.get(f"{name}.{number}"), time.time()))
        finally:
            ready[name].set()
        made.append((name, threading.Event().wait(0.001)))

    running = [threading.Thread(target=run, args=(name,)) for name in range(3)]
    for thread in running:
        thread.start()
    for name in range(3):
        ready[name].wait()
        made.append(studio.get(f"main {name}"))
    for thread in running:
        thread.join()
    return made


def _points(studio: Studio, place: str = "a") -> list[ForkPoint]:
    with reenact.open_recording(studio.root / place) as source:
        return fork_points(source, "call")


def _record(studio: Studio, program: Program) -> Any:
    with studio.session(capture=studio.root / "a", mode="record"):
        return program(studio)


def _fork(studio: Studio, program: Program, fork: At | str | int, into: str = "b") -> Any:
    with studio.session(capture=studio.root / "a", fork=fork, into=studio.root / into):
        return program(studio)


def _replay(studio: Studio, program: Program, place: str = "b") -> Any:
    return studio.replay(lambda: program(studio), capture=studio.root / place)


@pytest.mark.parametrize("program", [sequential, tasks, threads])
def test_a_fork_at_any_call_begins_the_same_and_replays_by_itself(
    studio: Studio, program: Program
) -> None:
    recorded = _record(studio, program)
    points = _points(studio)
    assert len(points) > 6
    for point in points:
        before = studio.asked
        place = f"fork-{point.seq}"
        forked = _fork(studio, program, point.seq, place)
        assert studio.asked > before or point is points[-1] or "never" in point.operation
        assert _replay(studio, program, place) == forked, point
        assert len(forked) == len(recorded)
        _check_prefix(studio, place, point)


def _check_prefix(studio: Studio, place: str, point: ForkPoint) -> None:
    old = reenact.open_recording(studio.root / "a")
    new = reenact.open_recording(studio.root / place)
    with old, new:
        for seq in range(1, point.cut):
            then, now = old.at(seq), new.at(seq)
            assert (then.type, then.lane, then.ts, then.payload) == (
                now.type,
                now.lane,
                now.ts,
                now.payload,
            )
        parent = new.manifest().parent
        assert parent is not None
        assert (parent.capture_id, parent.seq) == (old.manifest().capture_id, point.seq)


def test_what_comes_before_the_point_is_what_it_was(studio: Studio) -> None:
    recorded = _record(studio, sequential)
    forked = _fork(studio, sequential, "network:3")
    assert forked[:6] == recorded[:6]
    assert all(then != now for then, now in zip(recorded[6:], forked[6:], strict=True))


def test_a_tool_before_the_point_does_not_run_again(studio: Studio) -> None:
    recorded = _record(studio, sequential)
    before = studio.asked
    forked = _fork(studio, sequential, "tool:2")
    assert studio.asked == before + 1  # the last call alone
    assert forked[:-1] == recorded[:-1]


def test_a_tool_around_the_point_is_entered_again(studio: Studio) -> None:
    recorded = _record(studio, sequential)
    inside = next(point for point in _points(studio) if point.lane != "0")
    forked = _fork(studio, sequential, inside.seq + 1)
    then, now = recorded[9], forked[9]
    assert then[0] == now[0]
    assert then[1] != now[1]
    assert _replay(studio, sequential) == forked


def test_another_answer_is_served_and_marked_and_then_calls_are_made(studio: Studio) -> None:
    recorded = _record(studio, sequential)
    before = studio.asked
    forked = _fork(studio, sequential, At("network:2", set={"$.response.n": "other"}))
    assert forked[3] == {**recorded[3], "n": "other"}
    assert studio.asked == before + 7
    assert _replay(studio, sequential) == forked
    (changed,) = [event for event in studio.events(studio.root / "b") if "changed" in event.data]
    assert changed.data["changed"] == ["$.response.n"]


def test_another_result_of_a_tool(studio: Studio) -> None:
    _record(studio, sequential)
    forked = _fork(studio, sequential, At("tool:1", set={"$.result": [1, 2]}))
    assert forked[9] == [1, 2]
    assert _replay(studio, sequential) == forked


def test_another_piece_of_a_stream(studio: Studio) -> None:
    recorded = _record(studio, sequential)
    stream = next(point for point in _points(studio) if "words" in point.operation)
    forked = _fork(studio, sequential, At(stream.seq, set={"$.response.chunks[1]": "other"}))
    assert forked[10] == [recorded[10][0], "other", recorded[10][2]]
    assert _replay(studio, sequential) == forked


def test_a_function_is_called_with_another_argument(studio: Studio) -> None:
    _record(studio, sequential)
    forked = _fork(studio, sequential, At("network:2", set={"$.request.x": "other"}))
    assert forked[3]["x"] == "other"
    assert _replay(studio, sequential) == forked
    (changed,) = [event for event in studio.events(studio.root / "b") if "changed" in event.data]
    assert changed.data["request"] == {"x": 1}
    assert changed.data["sent"] == {"x": "other"}


def test_what_cannot_be_asked_otherwise_says_so(studio: Studio) -> None:
    def program(studio: Studio) -> Any:
        return _session().call("search", {"q": 1}, studio.answer)

    _record(studio, program)
    with pytest.raises(UsageError, match="cannot be made with another request"):
        _fork(studio, program, At("tool:1", set={"$.args.q": 2}))
    assert not (studio.root / "b").exists()


def test_only_some_kinds_go_live(studio: Studio) -> None:
    def program(studio: Studio) -> Any:
        session = _session()
        model = session.call("ask", {}, studio.answer, capability="llm.call")
        return [
            model,
            session.call("search", {"q": 1}, studio.answer),
            session.call("ask", {"then": 2}, studio.answer, capability="llm.call"),
            studio.get("page"),
        ]

    recorded = _record(studio, program)
    forked = _fork(studio, program, At("llm:1", live=("llm",)))
    assert [forked[1], forked[3]] == [recorded[1], recorded[3]]
    assert [forked[0], forked[2]] != [recorded[0], recorded[2]]
    assert _replay(studio, program) == forked


def test_what_is_not_live_and_was_not_recorded_is_refused(studio: Studio) -> None:
    _record(studio, lambda _: [studio.get(1), studio.get(2)])
    with pytest.raises(PolicyRefused, match="nothing like this call was recorded") as raised:
        _fork(studio, lambda _: [studio.get(1), studio.get(9)], At("call:1", live=("llm",)))
    assert "add network to --live" in raised.value.hint


def test_a_difference_before_the_point_leaves_nothing_behind(studio: Studio) -> None:
    _record(studio, lambda _: [studio.get(1), studio.get(2)])
    before = studio.asked
    with pytest.raises(DivergenceError):
        _fork(studio, lambda _: [studio.get(9), studio.get(2)], "call:2")
    assert studio.asked == before
    assert not (studio.root / "b").exists()


def test_a_program_that_ends_before_the_point(studio: Studio) -> None:
    _record(studio, lambda _: [studio.get(1), studio.get(2)])
    with pytest.raises(DivergenceError, match="the run was to be forked here"):
        _fork(studio, lambda _: [studio.get(1)], "call:2")
    assert not (studio.root / "b").exists()


def test_threads_that_stand_still_before_the_point_diverge(studio: Studio) -> None:
    """One waits for an answer that comes after the point, and the other for that one."""
    answered = threading.Event()

    @reenact.boundary
    def slow() -> None:
        answered.wait()

    def program(*, patiently: bool) -> None:
        thread = threading.Thread(target=slow)
        thread.start()
        if patiently:
            thread.join()
        studio.get("quick")
        answered.set()
        thread.join()

    _record(studio, lambda _: program(patiently=False))
    with pytest.raises(DivergenceError), _impatient(studio, "call:1"):
        program(patiently=True)
    assert not (studio.root / "b").exists()


def test_tasks_that_stand_still_before_the_point_diverge(studio: Studio) -> None:
    answered = asyncio.Event()

    @reenact.boundary
    async def slow() -> None:
        await answered.wait()

    async def program(*, patiently: bool) -> None:
        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        if patiently:
            await task
        await studio.aget("quick")
        answered.set()
        await task

    _record(studio, lambda _: asyncio.run(program(patiently=False)))
    with pytest.raises(DivergenceError), _impatient(studio, "call:1"):
        asyncio.run(program(patiently=True))
    assert not (studio.root / "b").exists()


def _impatient(studio: Studio, fork: str) -> reenact.Session:
    return studio.session(
        capture=studio.root / "a", fork=fork, into=studio.root / "b", patience=0.2
    )


def test_a_fork_can_be_forked(studio: Studio) -> None:
    first = _record(studio, sequential)
    second = _fork(studio, sequential, "network:3")
    with studio.session(capture=studio.root / "b", fork="call:9", into=studio.root / "c"):
        third = sequential(studio)
    assert third[:6] == first[:6]
    assert third[:9] == second[:9] != first[:9]
    assert _replay(studio, sequential, "c") == third


def test_a_tape_is_forked_into_a_tape(studio: Studio) -> None:
    with studio.session(tape=studio.root / "a.jsonl", mode="record"):
        sequential(studio)
    tape = studio.root / "b.jsonl"
    with studio.session(tape=studio.root / "a.jsonl", fork="call:3", into=tape):
        forked = sequential(studio)
    assert studio.replay(lambda: sequential(studio), tape=tape) == forked


@pytest.mark.parametrize("match", ["transcript", "lookup"])
def test_a_run_is_forked_however_calls_are_matched(studio: Studio, match: Any) -> None:
    def program(studio: Studio) -> Any:
        return [studio.get(number) for number in range(4)]

    recorded = _record(studio, program)
    place = studio.root / "a"
    with studio.session(capture=place, fork="call:3", into=studio.root / "b", match=match):
        forked = program(studio)
    assert forked[:2] == recorded[:2]
    assert [one["x"] for one in forked] == [0, 1, 2, 3]
    assert forked[2:] != recorded[2:]
    assert _replay(studio, program) == forked


def test_a_place_that_is_taken_is_refused(studio: Studio) -> None:
    _record(studio, sequential)
    _fork(studio, sequential, "call:2")
    with pytest.raises(RecordingExists):
        _fork(studio, sequential, "call:2")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"fork": "call:1"}, "there is no place for it"),
        ({"fork": "call:1", "into": "b", "mode": "record"}, "not in the mode record"),
    ],
)
def test_a_fork_needs_a_replay_and_a_place(
    studio: Studio, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        studio.session(capture=studio.root / "a", **arguments)


def test_either_what_is_asked_is_changed_or_the_answer(studio: Studio) -> None:
    _record(studio, sequential)
    both = At("call:1", set={"$.request.x": 1, "$.response.n": 2})
    with pytest.raises(UsageError, match="either what is asked is changed, or the answer"):
        _fork(studio, sequential, both)
    assert not (studio.root / "b").exists()
