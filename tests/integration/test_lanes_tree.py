"""Which lane a call is in: the exact names, for every way of spawning."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import reenact
from tests.integration.racing import Program, World, lane_tree, record, replay


def _lanes(program: Program, tmp_path: Path) -> list[str]:
    """The lanes of ``program``, which must replay."""
    path = tmp_path / "recording"
    expected = record(program, path)
    assert replay(program, path) == expected
    return lane_tree(path)


def _running(main: Callable[[World], Any]) -> Program:
    return lambda world: asyncio.run(main(world))


def test_a_program_without_spawns_is_one_lane(tmp_path: Path) -> None:
    assert _lanes(lambda world: [world.get(i) for i in range(3)], tmp_path) == ["0"]


def test_the_main_task_stays_in_its_callers_lane(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        return [world.get(), asyncio.run(world.aget()), asyncio.run(world.aget())]

    assert _lanes(program, tmp_path) == ["0"]


def test_so_does_the_main_task_of_a_runner_that_was_there_before(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        runner.run(asyncio.sleep(0))
        assert _lanes(lambda world: runner.run(world.aget()), tmp_path) == ["0"]


def test_a_runner_is_in_no_session_after_it(tmp_path: Path) -> None:
    async def where() -> Any:
        return reenact.current()

    with asyncio.Runner() as runner:
        with reenact.session(capture=tmp_path / "c", mode="record") as session:
            assert runner.run(where()) is session
        assert runner.run(where()) is None


def test_tasks_are_numbered_as_they_are_spawned(tmp_path: Path) -> None:
    async def main(world: World) -> Any:
        first = asyncio.create_task(world.aget())
        second = asyncio.ensure_future(world.aget())
        async with asyncio.TaskGroup() as group:
            third = group.create_task(world.aget())
        return [await first, await second, third.result(), await world.aget()]

    assert _lanes(_running(main), tmp_path) == ["0", "0.1", "0.2", "0.3"]


def test_a_time_out_does_not_move_a_call(tmp_path: Path) -> None:
    async def main(world: World) -> Any:
        async with asyncio.timeout(60):
            first = await world.aget()
        with anyio.fail_after(60):
            second = await world.aget()
        return [first, second, await asyncio.wait_for(world.aget(), 60)]

    assert _lanes(_running(main), tmp_path) == ["0"]


def test_what_a_task_spawns_is_below_it(tmp_path: Path) -> None:
    async def branch(world: World) -> Any:
        return await asyncio.gather(world.aget(), world.aget())

    async def main(world: World) -> Any:
        return await asyncio.gather(branch(world), branch(world))

    assert _lanes(_running(main), tmp_path) == ["0.1.1", "0.1.2", "0.2.1", "0.2.2"]


def test_a_task_that_was_cancelled_before_it_ran_keeps_its_number(tmp_path: Path) -> None:
    async def main(world: World) -> Any:
        asyncio.create_task(world.aget()).cancel()
        return await asyncio.create_task(world.aget())

    assert _lanes(_running(main), tmp_path) == ["0.2"]


def test_a_task_with_a_context_of_its_own_is_in_the_session(tmp_path: Path) -> None:
    async def main(world: World) -> Any:
        empty = contextvars.Context()
        return await asyncio.create_task(world.aget(), context=empty)

    assert _lanes(_running(main), tmp_path) == ["0.1"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_are_in_their_lane_from_their_first_line(tmp_path: Path) -> None:
    async def branch(world: World) -> Any:
        return [await world.aget(), await asyncio.create_task(world.aget())]

    async def main(world: World) -> Any:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
        return await asyncio.gather(branch(world), branch(world))

    assert _lanes(_running(main), tmp_path) == ["0.1", "0.1.1", "0.2", "0.2.1"]


def test_threads_and_what_they_start(tmp_path: Path) -> None:
    def start(target: Callable[[], Any]) -> None:
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()

    def program(world: World) -> Any:
        seen: list[Any] = []
        start(lambda: start(lambda: seen.append(world.get())))
        start(lambda: seen.append(asyncio.run(world.aget())))
        return seen

    assert _lanes(program, tmp_path) == ["0.1.1", "0.2"]


def test_a_thread_that_runs_a_function_of_ours_has_a_lane(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        session = reenact.current()
        assert session is not None
        for number in range(3):
            thread = threading.Thread(target=session.call, args=("ask", {"n": number}, list))
            thread.start()
            thread.join()
        return world.get()

    assert _lanes(program, tmp_path) == ["0", "0.1", "0.2", "0.3"]


def test_a_timer_thread_has_a_lane(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        seen: list[Any] = []
        timer = threading.Timer(0.001, lambda: seen.append(world.get()))
        timer.start()
        timer.join()
        return seen

    assert _lanes(program, tmp_path) == ["0.1"]


def test_jobs_are_numbered_and_workers_are_not(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        with ThreadPoolExecutor(4) as pool:
            seen = [pool.submit(world.get).result() for _ in range(3)]
            seen += pool.map(world.get, range(2))
        thread = threading.Thread(target=lambda: seen.append(world.get()))
        thread.start()
        thread.join()
        return seen

    assert _lanes(program, tmp_path) == ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]


def test_jobs_of_a_loop_are_the_tasks_children(tmp_path: Path) -> None:
    async def one(world: World) -> Any:
        loop = asyncio.get_running_loop()
        return [
            await asyncio.to_thread(world.get),
            await loop.run_in_executor(None, world.get),
            await anyio.to_thread.run_sync(world.get),
        ]

    async def main(world: World) -> Any:
        return await asyncio.gather(one(world), one(world))

    assert _lanes(_running(main), tmp_path) == [f"0.{i}.{j}" for i in (1, 2) for j in (1, 2, 3)]


def test_jobs_of_a_thread_pool_are_numbered_by_item(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        with ThreadPool(2) as pool:
            seen = [pool.apply(world.get), *pool.map(world.get, range(2))]
            seen += pool.starmap(world.get, [(1,)])
            seen += pool.imap(world.get, range(2))
            return [*seen, pool.apply(world.get)]

    lanes = ["0.1", "0.2", "0.3", "0.4", "0.5.1", "0.5.2", "0.6"]
    assert _lanes(program, tmp_path) == lanes


def test_a_callback_of_a_thread_pool_belongs_to_the_job(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        seen: list[Any] = []
        done = threading.Event()

        def tell(answer: Any) -> None:
            seen.extend([answer, world.get("told")])
            done.set()

        with ThreadPool(1) as pool:
            pool.apply_async(world.get, callback=tell)
            done.wait()
            done.clear()
            pool.map_async(world.get, [1], callback=tell)
            done.wait()
        return seen

    assert _lanes(program, tmp_path) == ["0.1", "0.2", "0.3"]


@pytest.mark.parametrize("late", [False, True])
def test_a_callback_of_a_future_is_in_the_jobs_lane(late: bool, tmp_path: Path) -> None:
    def program(world: World) -> Any:
        seen: list[Any] = []
        told = threading.Event()

        def tell(future: Any) -> None:
            seen.append((future.result(), world.get("told")))
            told.set()

        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(world.get)
            if late:
                future.result()
            future.add_done_callback(tell)
            told.wait()
        return seen

    assert _lanes(program, tmp_path) == ["0.1"]


def test_coroutines_from_another_thread_are_spawned_by_the_loops_thread(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        with anyio.from_thread.start_blocking_portal() as portal:
            return [portal.call(world.aget), portal.call(world.get), world.get()]

    lanes = _lanes(program, tmp_path)
    assert lanes[0] == "0"
    assert all(lane.startswith("0.1") for lane in lanes[1:])


def test_a_tool_has_a_lane_and_its_inside_is_below_it(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        def tool() -> Any:
            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(world.get, range(2)))

        return [world.session.call("tool", {}, tool), world.get()]

    assert _lanes(program, tmp_path) == ["0", "0.1.1", "0.1.2"]


def test_live_halves_take_no_numbers(tmp_path: Path) -> None:
    """Whatever a client library spawns while recording, a replay does not."""

    async def alive(world: World) -> Any:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(3)))
        await loop.run_in_executor(None, _spawn_a_thread)
        await anyio.to_thread.run_sync(_spawn_a_thread)
        return await world.alive("client")

    async def main(world: World) -> Any:
        live = partial(alive, world)
        first = await world.session.aio.call("client", {}, live, capability="net.fetch")
        return [first, await asyncio.create_task(world.aget()), await asyncio.to_thread(world.get)]

    assert _lanes(_running(main), tmp_path) == ["0", "0.1", "0.2"]


def _spawn_a_thread() -> None:
    thread = threading.Thread(target=len, args=("",))
    thread.start()
    thread.join()


def test_calls_inside_a_live_half_are_not_recorded(tmp_path: Path) -> None:
    @reenact.boundary(capability="net.fetch")
    def inner() -> int:
        return 1

    @reenact.boundary(capability="net.fetch")
    async def outer() -> int:
        return inner() + await asyncio.to_thread(inner)

    assert _lanes(lambda _: asyncio.run(outer()), tmp_path) == ["0"]
    with reenact.open_recording(tmp_path / "recording") as source:
        assert len(source) == 1


def test_a_session_that_a_task_opens_has_that_task_as_its_root(tmp_path: Path) -> None:
    async def main(mode: str) -> Any:
        async with reenact.session(capture=tmp_path / "c", mode=mode, seal=False) as session:
            world = World(session)
            before = await world.aget()
            return [before, *await asyncio.gather(world.aget(), asyncio.to_thread(world.get))]

    assert asyncio.run(main("record")) == asyncio.run(main("replay"))
    assert lane_tree(tmp_path / "c") == ["0", "0.1", "0.2.1"]


def test_two_sessions_in_two_threads_have_their_own_lanes(tmp_path: Path) -> None:
    results: dict[tuple[str, int], Any] = {}

    async def main(world: World) -> Any:
        return await asyncio.gather(
            *(world.aget(i) for i in range(4)), asyncio.to_thread(world.get)
        )

    def work(mode: str, number: int) -> None:
        path = tmp_path / str(number)
        with reenact.session(capture=path, mode=mode, strict=True, seal=False) as session:
            results[mode, number] = asyncio.run(main(World(session, number)))

    for mode in ("record", "replay"):
        threads = [threading.Thread(target=work, args=(mode, number)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(results["record", number] == results["replay", number] for number in range(3))
    assert {str(lane_tree(tmp_path / str(number))) for number in range(3)} == {
        str(["0.1", "0.2", "0.3", "0.4", "0.5.1"])
    }
