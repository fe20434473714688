"""Sessions and forks: a child goes on in a lane of its own, whatever its parent was doing."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.session import child_processes
from tests.integration.racing import Program, World, lane_tree, record, replay

_PATIENCE = 60
"""Seconds after which a child that hangs is killed. No verdict depends on it."""


def _fork(work: Callable[[], Any]) -> int:
    """Run ``work`` in a forked child that ends without a word; its exit code, 0 when all is well."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(_PATIENCE)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _say(path: Path, answer: Any) -> None:
    path.write_text(repr(answer), encoding="utf-8")


def _rehearse(program: Program, path: Path) -> Any:
    expected = record(program, path)
    for _ in range(3):
        assert replay(program, path) == expected
    return expected


def test_a_child_has_a_lane_and_its_parent_goes_on(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        said = tmp_path / "said"
        before = world.get("before")
        assert _fork(lambda: _say(said, [world.get("child"), world.get("child")])) == 0
        return [before, world.get("after"), said.read_text(encoding="utf-8")]

    _rehearse(program, tmp_path / "c")
    assert lane_tree(tmp_path / "c") == ["0", "0.1"]
    with reenact.open_recording(tmp_path / "c") as source:
        assert [event.lane for event in source].count("0.1") == 2


def test_children_of_children(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        def child() -> None:
            world.get("child")
            assert _fork(lambda: world.get("grandchild")) == 0
            world.get("child")

        return [_fork(child), _fork(child), world.get("parent")]

    assert _rehearse(program, tmp_path / "c")[:2] == [0, 0]
    assert lane_tree(tmp_path / "c") == ["0", "0.1", "0.1.1", "0.2", "0.2.1"]


def test_a_child_that_does_something_else_diverges_alone(tmp_path: Path) -> None:
    operation = "asked"

    def program(world: World) -> Any:
        status = _fork(lambda: world.get(operation=operation))
        return status, world.get("parent")

    expected = record(program, tmp_path / "c")
    operation = "never asked"
    status, answer = replay(program, tmp_path / "c")
    assert (expected[0], status) == (0, 1)
    assert answer == expected[1]


def test_a_child_forked_by_a_thread_or_a_task(tmp_path: Path) -> None:
    async def main(world: World) -> Any:
        return [_fork(lambda: world.get("from a task")), await world.aget()]

    def program(world: World) -> Any:
        with ThreadPoolExecutor(1) as pool:
            status = pool.submit(_fork, lambda: world.get("from a job")).result()
        return [status, *asyncio.run(main(world))]

    assert _rehearse(program, tmp_path / "c")[:2] == [0, 0]
    assert lane_tree(tmp_path / "c") == ["0", "0.1.1", "0.2"]


def test_a_child_starts_threads_and_loops_of_its_own(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        await asyncio.gather(world.aget(), asyncio.to_thread(world.get))

    def child(world: World) -> None:
        thread = threading.Thread(target=world.get)
        thread.start()
        thread.join()
        asyncio.run(main(world))

    def program(world: World) -> Any:
        return [_fork(lambda: child(world)), world.get()]

    assert _rehearse(program, tmp_path / "c")[0] == 0
    assert lane_tree(tmp_path / "c") == ["0", "0.1.1", "0.1.2", "0.1.3.1"]


def test_forks_while_other_threads_are_in_the_middle_of_something(tmp_path: Path) -> None:
    """Calls, waits with time-outs, spawns: every lock may be held by somebody else."""

    def program(world: World) -> Any:
        stop = threading.Event()

        def busy() -> None:
            with ThreadPoolExecutor(2) as pool:
                while not stop.is_set():
                    list(pool.map(lambda _: world.session.call("busy", {}, dict), range(3)))
                    threading.Event().wait(0.0001)

        threads = [threading.Thread(target=busy) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            return [_fork(lambda: world.session.call("child", {}, dict)) for _ in range(10)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    assert record(program, tmp_path / "c") == [0] * 10
    children = {f"0.{number}" for number in range(4, 14)}
    assert children <= set(lane_tree(tmp_path / "c"))


def test_two_sessions_in_two_threads_fork_at_the_same_time(tmp_path: Path) -> None:
    statuses: list[int] = []

    def work(number: int) -> None:
        with reenact.session(capture=tmp_path / str(number), mode="record", seal=False) as session:
            world = World(session)
            together.wait()
            statuses.extend(_fork(world.get) for _ in range(8))

    together = threading.Barrier(3)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 24
    for number in range(3):
        lanes = {f"0.{child}" for child in range(1, 9)}
        assert set(lane_tree(tmp_path / str(number))) == lanes


def test_a_fork_outside_any_session_takes_no_lane(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        thread = threading.Thread(target=lambda: statuses.append(_fork(int)))
        statuses: list[int] = []
        session.gateway.outside(thread.start)
        thread.join()
        assert session.lanes.root.spawned == 0
    assert statuses == [0]


def test_who_forks_has_no_thread_of_ours(tmp_path: Path) -> None:
    """From 3.12 on Python warned a program that had no threads, and only while recording."""
    seen: list[list[str]] = []

    def program(world: World) -> Any:
        answers = [world.get("before")]
        assert _fork(lambda: world.get("child")) == 0
        seen.append([thread.name for thread in threading.enumerate()])
        return [*answers, world.get("after")]

    record(program, tmp_path / "c")
    assert "reenact-sync" not in seen[0]


def test_nothing_is_held_after_a_fork(tmp_path: Path) -> None:
    free: list[bool] = []

    def look() -> None:
        free.append(session.lock.acquire(blocking=False))
        session.lock.release()

    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        _fork(int)
        thread = threading.Thread(target=look)
        session.gateway.outside(thread.start)
        thread.join()
    assert free == [True]
    assert not child_processes._guard.locked()


# multiprocessing


def _work(value: int) -> int:
    session = reenact.current()
    if session is None:
        return value
    answer: int = session.call("work", {"value": value}, lambda: value * 10, capability="net.fetch")
    return answer


def _work_in_a_process(value: int, path: Path) -> None:
    path.write_text(str(_work(value)), encoding="utf-8")


def test_a_process_that_is_forked_is_in_the_session(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        context = multiprocessing.get_context("fork")
        said = tmp_path / "said"
        process = context.Process(target=_work_in_a_process, args=(4, said))
        process.start()
        process.join(_PATIENCE)
        return [process.exitcode, said.read_text(encoding="utf-8"), world.get()]

    assert _rehearse(program, tmp_path / "c")[:2] == [0, "40"]
    assert lane_tree(tmp_path / "c") == ["0", "0.1"]


@pytest.mark.slow
def test_a_process_that_is_spawned_is_in_no_session(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        context = multiprocessing.get_context("spawn")
        said = tmp_path / "said"
        process = context.Process(target=_work_in_a_process, args=(4, said))
        process.start()
        process.join(_PATIENCE)
        return [process.exitcode, said.read_text(encoding="utf-8"), world.get()]

    assert _rehearse(program, tmp_path / "c")[:2] == [0, "4"]
    assert lane_tree(tmp_path / "c") == ["0"]


def test_each_job_of_a_pool_of_processes_is_in_a_lane_of_its_own(tmp_path: Path) -> None:
    """Which process does which job is another one in every run."""

    def program(world: World) -> Any:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            seen = list(pool.map(_work, range(4)))
        with context.Pool(1) as other:  # whose process has a lane, too
            seen += other.map(_work, range(4))
        return [*seen, world.get()]

    assert _rehearse(program, tmp_path / "c")[:8] == [0, 10, 20, 30] * 2
    # A pool has a lane, and each job that is given to it, or each map with one for each item.
    jobs = [*(f"0.{number}" for number in (2, 3, 4, 5)), *(f"0.7.{item}" for item in (1, 2, 3, 4))]
    assert lane_tree(tmp_path / "c") == ["0", *jobs]


def test_pools_of_processes_do_not_hang(tmp_path: Path) -> None:
    def program(world: World) -> Any:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(3, mp_context=context) as pool:
            return [sorted(pool.map(_work, range(12))), world.get()]

    assert record(program, tmp_path / "c")[0] == [10 * value for value in range(12)]
