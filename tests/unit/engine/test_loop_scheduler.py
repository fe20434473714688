"""Loop scheduler: when a loop is quiescent, and which delivery it gets."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.scheduling.loop_scheduler import MAX_TURNS, LoopScheduler
from reenact.engine.session.context import OUTSIDE, VARIABLE, context_outside_sessions
from reenact.engine.session.current import current
from reenact.engine.session.session import Session


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def session(tmp_path: Path, warnings: list[str]) -> Any:
    with reenact.session(
        capture=tmp_path / "c", mode="record", seal=False, warn=warnings.append
    ) as session:
        yield session


def _run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(main())


def test_outside_is_a_copy_in_no_session(session: Session) -> None:
    context = context_outside_sessions()
    assert context.run(current) is None
    assert context[VARIABLE] is OUTSIDE
    assert current() is session


def test_a_loop_has_one_desk_and_another_loop_another(session: Session) -> None:
    async def main() -> LoopScheduler:
        loop_scheduler = session.running_loop_scheduler()
        assert loop_scheduler is session.loop_scheduler(asyncio.get_running_loop())
        assert loop_scheduler.loop is asyncio.get_running_loop()
        return loop_scheduler

    assert _run(main) is not _run(main)


def test_what_is_submitted_comes_when_the_loop_is_at_rest(session: Session) -> None:
    """Three steps of another task come first, and one submission comes at a time."""
    log: list[str] = []

    async def steps(name: str) -> None:
        for step in range(3):
            log.append(f"{name}{step}")
            await asyncio.sleep(0)

    async def main() -> None:
        loop_scheduler, first = session.running_loop_scheduler(), asyncio.Event()

        async def woken() -> None:
            await first.wait()
            await steps("b")

        def act(name: str, then: Callable[[], Any]) -> bool:
            log.append(name)
            then()
            return True

        second = asyncio.Event()
        tasks = [asyncio.create_task(woken()), asyncio.create_task(steps("a"))]
        loop_scheduler.submit(lambda: act("first", first.set))
        loop_scheduler.submit(lambda: act("second", second.set))
        await second.wait()
        await asyncio.gather(*tasks)

    _run(main)
    assert log == ["a0", "a1", "a2", "first", "b0", "b1", "b2", "second"]


def test_what_nobody_wants_any_more_is_passed_over(session: Session) -> None:
    async def main() -> list[str]:
        log: list[str] = []
        done = asyncio.get_running_loop().create_future()
        loop_scheduler = session.running_loop_scheduler()

        def unwanted() -> bool:
            log.append("unwanted")
            return False

        def wanted() -> bool:
            log.append("wanted")
            done.set_result(None)
            return True

        loop_scheduler.submit(unwanted)
        loop_scheduler.submit(wanted)
        await done
        return log

    assert _run(main) == ["unwanted", "wanted"]


def test_a_loop_is_busy_with_what_is_of_the_session(session: Session) -> None:
    async def main() -> list[bool]:
        loop, loop_scheduler = asyncio.get_running_loop(), session.running_loop_scheduler()
        seen = [loop_scheduler.is_busy()]
        handle = loop.call_soon(int)
        seen.append(loop_scheduler.is_busy())
        handle.cancel()
        seen.append(loop_scheduler.is_busy())
        loop.call_soon(int, context=context_outside_sessions())
        seen.append(loop_scheduler.is_busy())
        loop_scheduler.unwinding += 1
        seen.append(loop_scheduler.is_busy())
        loop_scheduler.unwinding -= 1
        return seen

    assert _run(main) == [False, True, False, False, True]


def test_hand_over_returns_what_was_done_in_its_turn(session: Session) -> None:
    async def main() -> Any:
        return await session.running_loop_scheduler().hand_over(lambda: "done")

    assert _run(main) == "done"


def test_who_is_cancelled_while_waiting_for_its_turn_does_nothing(session: Session) -> None:
    done: list[str] = []

    async def main() -> None:
        loop_scheduler = session.running_loop_scheduler()
        task = asyncio.create_task(loop_scheduler.hand_over(lambda: done.append("never")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await loop_scheduler.hand_over(lambda: done.append("after"))

    _run(main)
    assert done == ["after"]


def test_a_clock_goes_ahead_and_never_back(session: Session) -> None:
    async def main() -> None:
        loop, loop_scheduler = asyncio.get_running_loop(), session.running_loop_scheduler()
        before = loop.time()
        loop_scheduler.skip_to(before + 1_000)
        assert loop.time() >= before + 1_000
        loop_scheduler.skip_to(before + 10)
        assert loop.time() >= before + 1_000
        loop_scheduler.skip_to(before + 2_000)
        ahead = loop.time()
        assert before + 2_000 <= ahead < before + 2_900
        assert loop.time() >= ahead

    _run(main)


def test_many_posts_are_one_look(session: Session) -> None:
    async def main() -> int:
        loop, loop_scheduler = asyncio.get_running_loop(), session.running_loop_scheduler()
        for _ in range(10):
            loop_scheduler.post()
        looks: int = sum(handle._callback == loop_scheduler._look for handle in loop._ready)  # type: ignore[attr-defined]
        return looks

    assert _run(main) == 1


def test_a_closed_loop_is_not_posted_to(session: Session) -> None:
    async def main() -> LoopScheduler:
        return session.running_loop_scheduler()

    loop_scheduler = _run(main)
    assert loop_scheduler.loop.is_closed()
    loop_scheduler.post_from_anywhere()
    loop_scheduler.run_in_loop(int)
    assert not loop_scheduler.loop._ready


def test_a_post_from_another_thread_wakes_the_loop(session: Session) -> None:
    async def main() -> int:
        loop_scheduler = session.running_loop_scheduler()
        done = asyncio.get_running_loop().create_future()
        thread = threading.Thread(
            target=lambda: loop_scheduler.run_in_loop(
                lambda: done.set_result(threading.get_ident())
            )
        )
        session.gateway.outside(thread.start)
        ident: int = await done
        thread.join()
        return ident

    assert _run(main) == threading.get_ident()


def test_a_loop_that_is_never_at_rest_is_served_and_flagged(
    session: Session, warnings: list[str]
) -> None:
    async def main() -> int:
        turns = 0
        given = asyncio.create_task(session.running_loop_scheduler().hand_over(int))
        while not given.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert MAX_TURNS - 5 < _run(main) < MAX_TURNS + 5
    assert session.approximate == "an event loop did not come to rest in 1,000 turns"
    assert len(warnings) == 1


def test_a_loop_that_stops_is_looked_at_when_it_runs_again(session: Session) -> None:
    loop = asyncio.new_event_loop()
    done: list[str] = []

    def given() -> bool:
        done.append("given")
        return True

    try:
        loop_scheduler = session.loop_scheduler(loop)
        loop.call_soon(loop.stop)
        loop_scheduler.submit(given)
        loop.run_forever()
        assert done == []
        loop.run_until_complete(asyncio.sleep(0.001))
        assert done == ["given"]
    finally:
        loop.close()


def test_there_is_no_rest_before_the_loop_has_looked_at_its_files(session: Session) -> None:
    """What another thread puts into a pipe is read before anything else is handed over."""
    log: list[str] = []

    async def main() -> None:
        loop, loop_scheduler = asyncio.get_running_loop(), session.running_loop_scheduler()
        done: asyncio.Future[None] = loop.create_future()
        read, write = os.pipe()
        loop.add_reader(read, lambda: log.append(os.read(read, 100).decode()))

        def finish() -> bool:
            log.append("submitted")
            done.set_result(None)
            return True

        def say() -> None:
            os.write(write, b"read")

        def put() -> None:
            loop_scheduler.put(say)
            loop_scheduler.run_in_loop(loop_scheduler.submit, finish)

        thread = threading.Thread(target=context_outside_sessions().run, args=(put,))
        thread.start()
        await done
        thread.join()
        loop.remove_reader(read)
        os.close(read)
        os.close(write)

    for _ in range(20):
        _run(main)
    assert log == ["read", "submitted"] * 20
