"""Nothing is left behind: no task, thread, waiter or patch, and a long run costs what a short does."""

from __future__ import annotations

import asyncio
import concurrent.futures._base as futures
import gc
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Sized
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.session.session import Session
from tests.integration.racing import CAPABILITY, Program, World, record, replay
from tests.integration.racing_tasks import PROGRAMS as TASKS
from tests.integration.racing_threads import PROGRAMS as THREADS

pytestmark = pytest.mark.thinned(2)

PLACES = [
    (asyncio.BaseEventLoop, "create_task"),
    (asyncio.BaseEventLoop, "run_until_complete"),
    (asyncio.BaseEventLoop, "call_at"),
    (asyncio.BaseEventLoop, "call_soon_threadsafe"),
    (asyncio.Runner, "run"),
    (threading.Thread, "start"),
    (threading.Thread, "join"),
    (threading.Condition, "wait"),
    (threading.Condition, "notify"),
    (threading, "_time"),
    (queue, "time"),
    (futures, "time"),
    (ThreadPoolExecutor, "submit"),
    (ThreadPool, "apply_async"),
]


def _standing() -> list[Any]:
    return [vars(owner).get(name) for owner, name in PLACES]


def _left_in(session: Session) -> dict[str, int]:
    """What a session still holds, by name; nothing when all is well."""
    scheduler, rest, crew = (
        session.scheduler,
        session.scheduler.quiescence,
        session.scheduler.threads,
    )
    held: dict[str, Sized] = {
        "waiting": scheduler.waiters.by_token,
        "never": scheduler.waiters.never,
        "late": scheduler.waiters.late,
        "sleepers": rest._sleepers,
        "curious": rest._curious,
        "blocked": crew._blocked,
        "spawned": crew._spawned,
        "joiners": crew._joiners,
        "under way": session.in_flight,
    }
    return {name: len(things) for name, things in held.items() if things}


@pytest.mark.parametrize("program", [*TASKS, *THREADS], ids=lambda program: program.__name__)
def test_a_program_leaves_nothing_in_its_session(program: Program, memory_path: Path) -> None:
    threads = set(threading.enumerate())
    sessions: list[Session] = []

    def watched(world: World) -> Any:
        sessions.append(world.session)
        return program(world)

    record(watched, memory_path / "c")
    replay(watched, memory_path / "c")
    assert [_left_in(session) for session in sessions] == [{}, {}]
    assert [session.scheduler.threads._jobs for session in sessions] == [0, 0]
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)  # anyio's workers go by themselves, after the end of their loop
        assert not thread.is_alive()


def test_a_cancelled_call_waits_for_its_live_half_and_leaves_nothing(tmp_path: Path) -> None:
    ended: list[str] = []

    async def live() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            ended.append("live half")

    async def main(session: Session) -> None:
        for _ in range(20):
            call = session.aio.call("call", {}, live, capability=CAPABILITY)
            task = asyncio.create_task(call)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            ended.append("call")
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert _left_in(session) == {}

    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        asyncio.run(main(session))
    assert ended == ["live half", "call"] * 20


def test_a_call_that_is_cancelled_twice_still_waits_for_its_live_half(tmp_path: Path) -> None:
    ended = []

    async def live() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.002)
            ended.append("live half")

    async def main(session: Session) -> None:
        call = session.aio.call("call", {}, live, capability=CAPABILITY)
        task = asyncio.create_task(call)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        ended.append("call")

    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        asyncio.run(main(session))
    assert ended == ["live half", "call"]


class _Thing:
    """Something that can be seen to be gone."""


def test_what_tasks_threads_and_jobs_held_can_go(tmp_path: Path) -> None:
    """Without the help of the garbage collector, as without a session."""
    gone: list[weakref.ref[_Thing]] = []

    def hold(thing: _Thing) -> None:
        gone.append(weakref.ref(thing))

    async def main() -> None:
        await asyncio.create_task(asyncio.sleep(0.0001, _Thing()))
        thing = _Thing()
        hold(thing)
        asyncio.get_running_loop().call_later(0.0001, hold, thing)
        asyncio.get_running_loop().call_later(100, hold, thing).cancel()
        await asyncio.to_thread(hold, thing)
        await asyncio.sleep(0.001)

    def work() -> None:
        thread = threading.Thread(target=hold, args=(_Thing(),))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(hold, _Thing()).result()
        asyncio.run(main())

    gc.collect()
    gc.disable()
    try:
        with reenact.session(capture=tmp_path / "c", mode="record"):
            work()
        with reenact.session(capture=tmp_path / "c", mode="replay"):
            work()
        assert len(gone) == 10
        assert [ref() for ref in gone if ref() is not None] == []
    finally:
        gc.enable()


# Many lanes


def _cost(act: Callable[[], Any]) -> int:
    """How many functions ``act`` calls."""
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


async def _no_time() -> int:
    return 1


@pytest.mark.soak
def test_a_hundred_thousand_lanes_cost_what_the_first_ones_cost(
    memory_path: Path, rounds: Callable[[int, int], int]
) -> None:
    batches, size = rounds(10, 200), 500

    async def batch(session: Session) -> None:
        calls = [session.aio.call("call", {}, _no_time, capability=CAPABILITY) for _ in range(size)]
        await asyncio.gather(*calls)

    def program(session: Session) -> tuple[list[int], list[int]]:
        costs, blocks = [], []
        with asyncio.Runner() as runner:
            for number in range(batches):
                if number in (1, batches - 1):
                    costs.append(_cost(lambda: runner.run(batch(session))))
                else:
                    runner.run(batch(session))
                if number in (0, batches // 2, batches - 1):
                    gc.collect()
                    blocks.append(sys.getallocatedblocks())
        return costs, blocks

    for mode in ("record", "replay"):
        with reenact.session(capture=memory_path / "c", mode=mode, seal=False) as session:
            (second, last), (begin, middle, end) = program(session)
        assert last < 1.2 * second
        assert end - middle < 1.5 * (middle - begin) + 5_000
    with reenact.open_recording(memory_path / "c") as source:
        assert len({event.lane for event in source}) == batches * size


# Patches


def test_patches_stand_while_a_session_is_open_and_not_after(tmp_path: Path) -> None:
    before = _standing()
    with reenact.session(capture=tmp_path / "c", mode="record"):
        assert all(now is not then for now, then in zip(_standing(), before, strict=True))
        with reenact.session(capture=tmp_path / "d", mode="record"):
            during = _standing()
        assert _standing() == during
    assert _standing() == before


def test_patches_are_removed_after_an_error(tmp_path: Path) -> None:
    before = _standing()
    with (
        pytest.raises(ZeroDivisionError),
        reenact.session(capture=tmp_path / "c", mode="record") as session,
    ):
        session.call("call", {}, lambda: 1 / 0, capability=CAPABILITY)
    assert _standing() == before
    with pytest.raises(reenact.RecordingError):
        reenact.session(capture=tmp_path / "absent", mode="replay").__enter__()
    assert _standing() == before


def test_somebody_who_patched_over_us_stays_and_is_not_counted_twice(tmp_path: Path) -> None:
    before = _standing()
    theirs: list[str] = []

    def patch_over() -> Any:
        ours = threading.Thread.start

        def start(self: threading.Thread) -> None:
            theirs.append(self.name)
            ours(self)

        threading.Thread.start = start  # type: ignore[method-assign]
        return start

    def program(world: World) -> Any:
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(world.get()))
        thread.start()
        thread.join()
        return seen

    try:
        with reenact.session(capture=tmp_path / "first", mode="record") as session:
            start = patch_over()
            program(World(session))
        assert threading.Thread.start is start
        expected = record(program, tmp_path / "second")
        with reenact.open_recording(tmp_path / "second") as source:
            assert [event.lane for event in source] == ["0.1"]
        assert replay(program, tmp_path / "second") == expected
        assert threading.Thread.start is start
        assert len(theirs) >= 3
    finally:
        place = PLACES.index((threading.Thread, "start"))
        threading.Thread.start = before[place]  # type: ignore[method-assign]
    assert _standing() == before


def test_a_session_in_mode_off_patches_nothing(tmp_path: Path) -> None:
    before = _standing()
    with reenact.session(capture=tmp_path / "c", mode="off"):
        assert _standing() == before
