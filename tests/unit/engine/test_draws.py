"""Draws of clock and chance: runs of them, what differs, and what libraries draw."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.session.session import Session
from reenact.errors import DivergenceError, PolicyRefused, RecordingDamaged
from reenact.format.draw_runs import LONGEST_RUN, load_run
from reenact.format.event import NO_VALUE
from reenact.policy.model import BoundaryRule, CapabilityRule, Policy
from reenact.testing import MemorySource, memory_session

CLOCK, OTHER, CHANCE = "clock time.time", "clock time.monotonic", "rng random.random"


class World:
    """Counts on; nothing in it comes twice."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.asked = 0

    def now(self) -> float:
        self.asked += 1
        return 1e9 + next(self._numbers) / 8


Program = Callable[[Session, World], Any]


def record(program: Program, **settings: Any) -> tuple[Any, MemorySource]:
    with memory_session(mode="record", **settings) as session:
        result = program(session, World())
    return result, session.recorded()


def sources(recording: MemorySource) -> list[tuple[str, int]]:
    return [(event.data["key"], event.data.get("count", 1)) for event in recording]


def draws(count: int, *names: str) -> Program:
    def program(session: Session, world: World) -> list[Any]:
        names_ = itertools.islice(itertools.cycle(names or (CLOCK,)), count)
        return [session.draws.draw(name, world.now) for name in names_]

    return program


def fetch(session: Session, world: World) -> Any:
    return session.call("GET", {"url": "x"}, world.now, capability="net.fetch")


def then(*programs: Program) -> Program:
    return lambda session, world: [program(session, world) for program in programs]


# Runs


@pytest.mark.parametrize(
    "program, events",
    [
        (draws(1), [("time.time", 1)]),
        (draws(3), [("time.time", 3)]),
        (draws(4, CLOCK, CHANCE), [("time.time", 4)]),
        (draws(LONGEST_RUN + 1), [("time.time", LONGEST_RUN), ("time.time", 1)]),
        (draws(40, *(f"clock c{n}" for n in range(40))), [("c0", 36), ("c36", 4)]),
    ],
    ids=["one", "three", "mixed", "long", "many names"],
)
def test_draws_that_come_one_after_the_other_are_one_event(
    program: Program, events: list[tuple[str, int]]
) -> None:
    result, recording = record(program)
    assert sources(recording) == events
    world = World()
    with memory_session(recording) as session:
        assert program(session, world) == result
    assert world.asked == 0


def test_a_call_in_between_ends_a_run() -> None:
    program = then(draws(2), fetch, draws(2), fetch)
    result, recording = record(program)
    assert [count for _, count in sources(recording)] == [2, 1, 2, 1]
    with memory_session(recording) as session:
        assert program(session, World()) == result


def test_a_tool_has_draws_of_its_own() -> None:
    def program(session: Session, world: World) -> Any:
        inside = session.call("tool", {}, lambda: draws(2)(session, world))
        return [draws(1)(session, world), inside, draws(1)(session, world)]

    result, recording = record(program)
    with memory_session(recording) as session:
        assert program(session, World()) == result


def test_each_thread_has_draws_of_its_own() -> None:
    def program(session: Session, world: World) -> Any:
        found: dict[int, Any] = {}

        def work(number: int) -> None:
            found[number] = draws(50, CLOCK, CHANCE)(session, world)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[number] for number in range(4)]

    result, recording = record(program)
    with memory_session(recording) as session:
        assert program(session, World()) == result


def test_each_of_many_tasks_has_draws_of_its_own() -> None:
    def program(session: Session, world: World) -> Any:
        async def work(number: int) -> Any:
            before = draws(2)(session, world)
            await asyncio.sleep(0)
            return before + draws(number % 3)(session, world)

        async def main() -> Any:
            return await asyncio.gather(*map(work, range(200)))

        return asyncio.run(main())

    result, recording = record(program)
    with memory_session(recording) as session:
        assert program(session, World()) == result


def test_many_tasks_draw_and_so_do_the_libraries_that_they_use() -> None:
    def program(session: Session, world: World) -> Any:
        async def work() -> Any:
            own = draws(1)(session, world)
            await asyncio.sleep(0)
            theirs = session.draws.draw_aside(CLOCK, world.now)
            await asyncio.sleep(0)
            return own, theirs, draws(1)(session, world)

        async def main() -> Any:
            return await asyncio.gather(*(work() for _ in range(64)))

        return asyncio.run(main())

    result, recording = record(program)
    with memory_session(recording) as session:
        assert program(session, World()) == result


def test_a_signal_in_the_middle_of_a_draw_leaves_a_run_that_can_be_read() -> None:
    """It may come between any two steps: after the value was drawn, and before it is returned."""

    def interrupted(session: Session, world: World, at: int) -> Any:
        steps = 0

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal steps
            if frame.f_code.co_qualname != "_Growing.draw":
                return None
            frame.f_trace_opcodes = True
            steps += 1
            if steps > at:
                raise KeyboardInterrupt
            return trace

        draws(2)(session, world)
        sys.settrace(trace)
        try:
            session.draws.draw(CLOCK, world.now)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        return draws(2)(session, world)

    before = sys.gettrace()
    for at in range(60):
        _, recording = record(partial(interrupted, at=at))
        [event] = recording
        assert load_run(event.data).turns == [0] * event.data["count"]


def test_what_fails_is_not_drawn() -> None:
    def broken() -> float:
        raise OSError("no clock")

    def program(session: Session, world: World) -> Any:
        with pytest.raises(OSError, match="no clock"):
            session.draws.draw(OTHER, broken)
        return draws(2)(session, world)

    with memory_session(mode="record") as session:
        program(session, World())
    assert sources(session.recorded()) == [("time.time", 2)]


def test_a_forked_child_does_not_write_what_its_parent_drew(tmp_path: Path) -> None:
    world = World()
    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        draws(3)(session, world)
        child = os.fork()
        if child == 0:
            draws(2)(session, world)
            session.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        draws(1)(session, world)
    with reenact.open_recording(tmp_path / "c") as source:
        drawn = [event for event in source if "aside" not in event.data]
        found = [(event.lane, event.data.get("count", 1)) for event in drawn]
    assert sorted(found) == [("0", 1), ("0", 3), ("0.1", 2)]


# What differs


def replay(recording: MemorySource, program: Program, *, strict: bool = True) -> list[str]:
    """The codes of what differed."""
    session = memory_session(recording, strict=strict, unused="error")
    try:
        with session:
            program(session, World())
    except DivergenceError:
        pass
    return [divergence.code for divergence in session.divergences()]


@pytest.mark.parametrize(
    "then_, now, code",
    [
        (draws(2), draws(3), "nondeterministic_underflow"),
        (draws(2), draws(3, CLOCK, CLOCK, CHANCE), "nondeterministic_underflow"),
        (draws(3), draws(2), "event_missing"),
        (draws(2), draws(0), "event_missing"),
        (draws(2, CLOCK, OTHER), draws(2), "event_payload_mismatch"),
        (draws(2, CLOCK, CHANCE), draws(2), "event_type_mismatch"),
        (then(draws(2), fetch), then(draws(1), fetch), "event_type_mismatch"),
        (then(draws(2), fetch), then(draws(3), fetch), "event_type_mismatch"),
        (then(fetch, draws(1)), then(draws(1), fetch), "event_type_mismatch"),
    ],
    ids=["more", "another one", "fewer", "none", "clock", "source", "too soon", "late", "turned"],
)
def test_a_difference_is_told(then_: Program, now: Program, code: str) -> None:
    _, recording = record(then_)
    assert replay(recording, now)[0] == code


def test_a_lenient_replay_makes_up_what_is_missing() -> None:
    _, recording = record(draws(2))
    with memory_session(recording, strict=False) as session:
        first, second, third, fourth = draws(4)(session, World())
    assert first < second < third < fourth < second + 1


@pytest.mark.parametrize("left", [1, 2])
def test_a_lenient_call_skips_draws_and_they_stay_usable(left: int) -> None:
    result, recording = record(then(draws(1 + left), fetch))
    with memory_session(recording, strict=False, unused="allow") as session:
        begun = draws(1)(session, World())
        fetched = fetch(session, World())
        rest = draws(left)(session, World())
    assert [begun + rest, fetched] == result


def test_a_damaged_run_is_damage() -> None:
    data = {"source": "clock", "key": "time.time", "valueHash": NO_VALUE}
    with memory_session(mode="record") as session:
        session.record_event("nondeterministic", {**data, "count": 3, "first": 1.0, "steps": [1]})
    replayed = memory_session(session.recorded(), unused="allow")
    with replayed, pytest.raises(RecordingDamaged, match="event 1"):
        draws(1)(replayed, World())


# Adding to a recording


def test_what_is_recorded_is_served_and_written_again_where_a_recording_is_added_to() -> None:
    result, recording = record(then(draws(3), fetch))
    world = World()
    with memory_session(recording, mode="record_missing") as session:
        again = then(draws(3), fetch, draws(2))(session, world)
    assert again[:2] == result
    assert world.asked == 2
    with memory_session(session.recorded()) as replayed:
        assert then(draws(3), fetch, draws(2))(replayed, World()) == again


# The policy


def test_what_the_policy_passes_by_is_not_recorded() -> None:
    _, recording = record(draws(2, CLOCK, CHANCE), policy=Policy(id="p", clock="pass"))
    assert sources(recording) == [("random.random", 1)]
    world = World()
    with memory_session(recording, policy=Policy(id="p", clock="pass")) as session:
        draws(2, CLOCK, CHANCE)(session, world)
    assert world.asked == 1


def test_what_the_policy_denies_is_not_drawn() -> None:
    rule = BoundaryRule(capability="time.now", action="block")
    world = World()
    with memory_session(mode="record", policy=Policy(id="p", boundaries=(rule,))) as session:
        for _ in range(2):
            with pytest.raises(PolicyRefused):
                session.draws.draw(CLOCK, world.now)
    assert world.asked == 0


def test_a_budget_of_calls_holds_for_draws() -> None:
    policy = Policy(id="p", capabilities={"time.now": CapabilityRule(calls=2)})
    world = World()
    with memory_session(mode="record", policy=policy) as session:
        draws(2)(session, world)
        with pytest.raises(PolicyRefused):
            session.draws.draw(CLOCK, world.now)
    assert world.asked == 2


def test_after_the_end_the_clock_is_the_real_one() -> None:
    world = World()
    with memory_session(mode="record") as session:
        draws(2)(session, world)
    draws(1)(session, world)
    session.draws.draw_aside(CLOCK, world.now)
    assert world.asked == 4
    with memory_session(session.recorded()) as replayed:
        draws(2)(replayed, world)
    draws(1)(replayed, world)
    replayed.draws.draw_aside(CLOCK, world.now)
    assert world.asked == 6


# What libraries draw


def aside(count: int, name: str = CLOCK) -> Program:
    return lambda session, world: [session.draws.draw_aside(name, world.now) for _ in range(count)]


def test_what_libraries_draw_is_served_while_it_lasts() -> None:
    result, recording = record(then(aside(2), draws(1), fetch, aside(1)))
    world = World()
    with memory_session(recording) as session:
        assert then(aside(2), draws(1), fetch, aside(1))(session, world) == result
        assert world.asked == 0
        aside(3)(session, world)
    assert world.asked == 3


@pytest.mark.parametrize(
    "now",
    [then(draws(1), fetch), then(aside(5), draws(1), aside(1, CHANCE), fetch)],
    ids=["fewer", "more"],
)
def test_what_libraries_draw_is_never_a_divergence(now: Program) -> None:
    _, recording = record(then(aside(2), draws(1), fetch))
    assert replay(recording, now) == []
