"""Lanes: numbered when spawned, found by what executes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from reenact.engine.lanes import Lane, Lanes


def _in_thread(act: Callable[[], Any]) -> Any:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(act()))
    thread.start()
    thread.join()
    return seen[0]


def test_children_are_numbered_from_one() -> None:
    lane = Lane("0")
    assert [lane.child().name, lane.child().child().name, lane.child().name] == [
        "0.1",
        "0.2.1",
        "0.3",
    ]
    assert repr(lane) == "<Lane 0>"


def test_who_adopts_is_in_the_root_lane() -> None:
    lanes = Lanes()
    lanes.adopt()
    assert lanes.current() is lanes.root
    assert [lanes.spawn().name, lanes.spawn().name] == ["0.1", "0.2"]


def test_a_task_that_adopts_is_the_root_and_its_thread_is_not() -> None:
    lanes = Lanes()

    async def main() -> tuple[str, str]:
        lanes.adopt()
        loop = asyncio.get_running_loop()
        outside = loop.create_future()
        loop.call_soon(lambda: outside.set_result(lanes.current().name))
        return lanes.current().name, await outside

    assert asyncio.run(main()) == ("0", "0.0.1")


def test_inside_a_lane_and_back() -> None:
    lanes = Lanes()
    lanes.adopt()
    with lanes.inside(Lane("0.7")):
        assert lanes.current().name == "0.7"
        with lanes.inside(Lane("0.7.1")):
            assert lanes.spawn().name == "0.7.1.1"
        assert lanes.current().name == "0.7"
    assert lanes.current() is lanes.root


def test_a_thread_that_leaves_its_lane_has_none() -> None:
    lanes = Lanes()

    def work() -> list[str]:
        with lanes.inside(Lane("0.3")):
            first = lanes.current().name
        return [first, lanes.current().name]

    assert _in_thread(work) == ["0.3", "0.0.1"]


def test_strangers_are_numbered_apart_and_keep_their_number() -> None:
    lanes = Lanes()
    lanes.adopt()

    def work() -> list[str]:
        return [lanes.current().name, lanes.current().name]

    assert _in_thread(work) == ["0.0.1", "0.0.1"]
    assert lanes.spawn().name == "0.1"


def test_a_tasks_lane_goes_before_its_threads() -> None:
    lanes = Lanes()
    lanes.adopt()

    async def where() -> str:
        return lanes.current().name

    async def main() -> list[str]:
        bound = asyncio.create_task(where())
        lanes.bind_task(bound, Lane("0.5"))
        stranger = asyncio.create_task(where())
        return [await bound, await stranger]

    assert asyncio.run(main()) == ["0.5", "0.0.1"]


def test_a_task_that_starts_before_it_is_bound_is_in_the_lane_of_its_spawning() -> None:
    """As eager tasks do. What it spawns in turn does not take its lane."""
    lanes = Lanes()

    async def main() -> list[str]:
        task = asyncio.current_task()
        assert task is not None
        with lanes.spawning(Lane("0.4")):
            first = lanes.current().name
            lanes.bind_task(asyncio.create_task(asyncio.sleep(0)), lanes.spawn())
        return [first, lanes.current().name, lanes.spawn().name]

    assert asyncio.run(main()) == ["0.4", "0.4", "0.4.2"]


def test_lanes_of_tasks_that_are_gone_are_forgotten() -> None:
    lanes = Lanes()

    async def main() -> None:
        for _ in range(100):
            task = asyncio.create_task(asyncio.sleep(0))
            lanes.bind_task(task, Lane("0.1"))
            await task
            del task

    asyncio.run(main())
    assert len(lanes._tasks) == 0


def test_who_is_in_a_lane_is_found_by_its_name() -> None:
    lanes = Lanes()
    lanes.adopt()

    async def main() -> None:
        done = asyncio.create_task(asyncio.sleep(0))
        lanes.bind_task(done, Lane("0.1"))
        await done
        waiting = asyncio.create_task(asyncio.Event().wait())
        lanes.bind_task(waiting, Lane("0.1"))
        inner = asyncio.create_task(asyncio.Event().wait())
        lanes.bind_task(inner, Lane("0.1"))
        assert lanes.task_of("0.1") is inner
        assert lanes.task_of("0.2") is None
        waiting.cancel()
        inner.cancel()

    asyncio.run(main())
    assert lanes.thread_of("0") == threading.get_ident()
    assert lanes.thread_of("0.9") is None


def test_looking_for_a_lane_while_others_spawn_does_not_fail() -> None:
    lanes = Lanes()
    stop = threading.Event()

    async def spawn() -> None:
        while not stop.is_set():
            tasks = [asyncio.ensure_future(asyncio.sleep(0)) for _ in range(20)]
            for task in tasks:
                lanes.bind_task(task, Lane("0.1"))
            await asyncio.gather(*tasks)

    thread = threading.Thread(target=lambda: asyncio.run(spawn()))
    thread.start()
    try:
        assert [lanes.task_of("0.2") for _ in range(2_000)] == [None] * 2_000
    finally:
        stop.set()
        thread.join()


def test_in_a_forked_child_only_the_lane_of_the_fork_is_left() -> None:
    lanes = Lanes()
    lanes.adopt()
    with lanes._lock:  # held by a thread that is not there any more
        lanes.after_fork(lanes.spawn())
    assert lanes.current().name == "0.1"
    assert lanes.root.name == "0.1"
    assert lanes.spawn().name == "0.1.1"
    assert _in_thread(lambda: lanes.current().name) == "0.1.0.1"
