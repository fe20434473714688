"""Timers and turns: what fires, what never does, and what happens when a loop does not rest."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.scheduling.loop_scheduler import MAX_TURNS
from reenact.format.manifest import Flag
from tests.integration.racing import World, record, replay, schedule

FOREVER = 3_600
"""Seconds that no test waits: what ends in time does not go by the clock."""


def test_a_timer_fires_in_its_turn_and_not_by_the_clock(tmp_path: Path) -> None:
    """A replay whose clock is slow: an hour between two answers takes no time."""
    delay = 0.01

    async def main(world: World) -> Any:
        seen = [await world.aget(1)]
        await asyncio.sleep(delay)
        return [*seen, await world.aget(2)]

    expected = record(lambda world: asyncio.run(main(world)), tmp_path / "c")
    delay = FOREVER
    assert replay(lambda world: asyncio.run(main(world)), tmp_path / "c") == expected
    assert schedule(tmp_path / "c") == [("0", "timer:1")]


def test_a_timer_that_never_fired_is_inert(tmp_path: Path) -> None:
    """In the recording it was cancelled in time; now its time is up at once."""
    timeout: float = FOREVER

    async def main(world: World) -> Any:
        seen: list[Any] = []
        for i in range(3):
            timer = asyncio.get_running_loop().call_later(timeout, seen.append, "time is up")
            seen.append(await world.aget(i))
            timer.cancel()
        return seen

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    expected = record(program, tmp_path / "c")
    timeout = 0
    assert replay(program, tmp_path / "c") == expected
    assert schedule(tmp_path / "c") == []


def test_at_the_end_of_the_recording_timers_go_by_the_clock(tmp_path: Path) -> None:
    """The recorded program went away before its last timer fired."""

    async def main(world: World, more: bool) -> Any:
        seen: list[Any] = []
        loop = asyncio.get_running_loop()
        rings = [loop.create_future() for _ in range(2)]
        for delay, ring in zip((0.002, 0.001), rings, strict=True):
            loop.call_later(delay if more else FOREVER, ring.set_result, delay)
            ring.add_done_callback(lambda ring: seen.append(ring.result()))
        seen.append(await world.aget())
        if more:
            await asyncio.wait(rings)
            await asyncio.sleep(0.001)
        return seen

    expected = record(lambda world: asyncio.run(main(world, more=False)), tmp_path / "c")
    seen = replay(lambda world: asyncio.run(main(world, more=True)), tmp_path / "c")
    assert seen == [*expected, 0.001, 0.002]


def test_timed_waits_of_threads_go_by_the_clock_at_the_end(tmp_path: Path) -> None:
    def program(world: World, more: bool) -> Any:
        seen = [world.get()]
        if more:
            seen += [threading.Event().wait(0.001), threading.Event().wait(0.001)]
        return seen

    expected = record(lambda world: program(world, more=False), tmp_path / "c")
    assert replay(lambda world: program(world, more=True), tmp_path / "c") == [
        *expected,
        False,
        False,
    ]


def test_a_wait_that_was_ended_by_the_program_does_not_time_out_in_a_replay(tmp_path: Path) -> None:
    """However little time it gives it now."""
    timeout: float = FOREVER

    def program(world: World) -> Any:
        event = threading.Event()

        def work() -> None:
            world.get()
            event.set()

        thread = threading.Thread(target=work)
        thread.start()
        seen = [event.wait(timeout), world.get("after")]
        thread.join()
        return seen

    expected = record(program, tmp_path / "c")
    timeout = 1e-6
    assert expected[0] is True
    assert replay(program, tmp_path / "c") == expected
    assert schedule(tmp_path / "c") == []


def test_a_wait_that_was_in_vain_does_not_take_its_time_in_a_replay(tmp_path: Path) -> None:
    timeout: float = 0.001

    def program(world: World) -> Any:
        return [threading.Event().wait(timeout), world.get(), threading.Event().wait(timeout)]

    expected = record(program, tmp_path / "c")
    timeout = FOREVER
    assert replay(program, tmp_path / "c") == expected
    assert schedule(tmp_path / "c") == [("0", "wait:1"), ("0", "wait:2")]


def test_the_clock_of_a_loop_is_ahead_and_never_goes_back(tmp_path: Path) -> None:
    delay: float = 0.001

    async def main(world: World) -> tuple[bool, list[float]]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        for i in range(3):
            await asyncio.sleep(delay)
            times.append(loop.time())
            await world.aget(i)
            times.append(loop.time())
        return True, times

    def program(world: World) -> Any:
        done, times = asyncio.run(main(world))
        assert times == sorted(times)
        assert times[-1] - times[0] >= 3 * delay
        return done

    record(program, tmp_path / "c")
    delay = FOREVER
    assert replay(program, tmp_path / "c") is True


def test_cancelled_calls_are_never_answered(tmp_path: Path) -> None:
    """Three of four were cancelled; which of them, the program decides again."""

    async def main(world: World) -> Any:
        tasks = [asyncio.create_task(world.aget(i)) for i in range(4)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return [result if isinstance(result, list) else "cancelled" for result in results]

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    for number in range(5):
        expected = record(program, tmp_path / str(number), seed=number)
        assert expected.count("cancelled") == 3
        assert replay(program, tmp_path / str(number)) == expected
        with reenact.open_recording(tmp_path / str(number)) as source:
            assert sum(event.data.get("cancelled", False) for event in source) == 3


def test_a_loop_that_never_rests_gets_its_answer_and_is_flagged(tmp_path: Path) -> None:
    turns = 0

    async def spin(until: asyncio.Task[Any]) -> None:
        nonlocal turns
        while not until.done():
            turns += 1
            await asyncio.sleep(0)

    async def main(world: World) -> Any:
        call = asyncio.create_task(world.aget())
        await spin(call)
        return call.result()

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    said: list[str] = []
    expected = record(program, tmp_path / "c", warn=said.append)
    assert turns >= MAX_TURNS
    assert len(said) == 1
    assert "did not come to rest in 1,000 turns" in said[0]
    with reenact.open_recording(tmp_path / "c") as source:
        assert Flag.APPROXIMATE in source.manifest().flags
    assert replay(program, tmp_path / "c", warn=said.append) == expected


def test_a_cancelled_call_that_takes_long_to_end_does_not_spin(tmp_path: Path) -> None:
    """Its live half has to wait for somebody else; no other answer comes before that."""

    async def stubborn(hold: asyncio.Event) -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            await hold.wait()

    async def main(world: _Later) -> Any:
        loop = asyncio.get_running_loop()
        hold, turns = asyncio.Event(), 0
        seen: list[str] = []

        def live() -> Any:
            return stubborn(hold)

        call = world.session.aio.call("stubborn", {}, live, capability="net.fetch")
        task = asyncio.create_task(call)
        other = asyncio.create_task(world.aget("other"))
        await asyncio.sleep(0)
        run_once = loop._run_once  # type: ignore[attr-defined]

        def count() -> None:
            nonlocal turns
            turns += 1
            run_once()

        loop._run_once = count  # type: ignore[attr-defined]
        task.cancel()
        world.later(0.1, hold.set)
        other.add_done_callback(lambda _: seen.append("other"))
        task.add_done_callback(lambda _: seen.append("stubborn"))
        await asyncio.wait([task, other])
        assert turns < MAX_TURNS
        return seen

    said: list[str] = []
    with reenact.session(capture=tmp_path / "c", mode="record", warn=said.append) as session:
        assert asyncio.run(main(_Later(session))) == ["stubborn", "other"]
    assert said == []


class _Later(World):
    def later(self, seconds: float, act: Any) -> None:
        """By the clock, in no session: the far end of a connection."""
        loop = asyncio.get_running_loop()

        def wait() -> None:
            threading.Event().wait(seconds)
            loop.call_soon_threadsafe(act)

        self.session.gateway.outside(threading.Thread(target=wait).start)


@pytest.mark.parametrize("pending", [0, 3])
def test_handles_that_are_cancelled_do_not_keep_a_loop_busy(pending: int, tmp_path: Path) -> None:
    async def main(world: World) -> Any:
        loop = asyncio.get_running_loop()
        for _ in range(pending):
            loop.call_soon(int).cancel()
            loop.call_later(FOREVER, int).cancel()
        return await world.aget()

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    expected = record(program, tmp_path / "c")
    assert replay(program, tmp_path / "c") == expected


@pytest.mark.parametrize("early", [True, False])
def test_posts_to_a_loop_that_does_not_run_yet(early: bool, tmp_path: Path) -> None:
    """Whether the thread is there before the loop or after it does not matter."""

    def program(world: World) -> Any:
        loop = asyncio.new_event_loop()
        seen: list[Any] = []

        def work() -> None:
            for i in range(3):
                loop.call_soon_threadsafe(seen.append, world.get(i))
            loop.call_soon_threadsafe(loop.stop)

        thread = threading.Thread(target=work)
        thread.start()
        if early:
            thread.join()
        loop.run_forever()
        thread.join()
        loop.close()
        return seen

    for number in range(5):
        expected = record(program, tmp_path / str(number), seed=number)
        assert replay(program, tmp_path / str(number)) == expected
        assert len(schedule(tmp_path / str(number))) == 4


def test_a_timer_and_a_post_that_were_cancelled_do_nothing(tmp_path: Path) -> None:
    async def main(world: World) -> Any:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []

        def work() -> None:
            loop.call_soon_threadsafe(seen.append, "never").cancel()
            loop.call_soon_threadsafe(seen.append, "posted")

        handle = loop.call_later(0.0001, seen.append, "never")
        assert not handle.cancelled()
        handle.cancel()
        assert handle.cancelled()
        await asyncio.to_thread(work)
        seen.append(await world.aget())
        return seen

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    expected = record(program, tmp_path / "c")
    assert "never" not in expected
    assert replay(program, tmp_path / "c") == expected
