"""Timers and posts: handles as asyncio makes them, numbered in their lane."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.session.session import Session


def _record(path: Path, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with reenact.session(capture=path, mode="record", seal=False):
        return asyncio.run(main())


def _replay(path: Path, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with reenact.session(capture=path, mode="replay", strict=True):
        return asyncio.run(main())


def _names(path: Path) -> list[tuple[str, str]]:
    with reenact.open_recording(path) as source:
        return [(event.lane, event.data["key"]) for event in source]


def test_timers_are_numbered_in_their_lane_and_written_when_they_fire(tmp_path: Path) -> None:
    async def child() -> None:
        await asyncio.sleep(0.5)

    async def main() -> None:
        task = asyncio.create_task(child())
        await asyncio.sleep(0.001)
        asyncio.get_running_loop().call_later(100, int).cancel()
        await asyncio.sleep(0.001)
        await task

    _record(tmp_path / "c", main)
    assert _names(tmp_path / "c") == [("0", "timer:1"), ("0", "timer:3"), ("0.1", "timer:1")]
    _replay(tmp_path / "c", main)


def test_a_timer_is_a_timer_handle(tmp_path: Path) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        context = contextvars.copy_context()
        context.run(variable.set, "in its context")
        when = loop.time() + 0.001
        handle = loop.call_at(
            when, lambda *args: done.set_result((variable.get(), *args)), 1, 2, context=context
        )
        return [
            isinstance(handle, asyncio.TimerHandle),
            handle.when() == when,
            await done,
            handle.cancelled(),
        ]

    expected = [True, True, ("in its context", 1, 2), False]
    assert _record(tmp_path / "c", main) == expected
    assert _replay(tmp_path / "c", main) == expected


def test_a_timer_can_be_cancelled_at_any_time(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []
        early = loop.call_later(0.001, seen.append, "early")
        late = loop.call_later(0.001, seen.append, "late")
        early.cancel()
        early.cancel()
        await asyncio.sleep(0.005)
        late.cancel()
        return seen

    assert _record(tmp_path / "c", main) == ["late"]
    assert _replay(tmp_path / "c", main) == ["late"]


def test_a_timer_that_is_cancelled_between_its_time_and_its_turn_does_not_fire(
    tmp_path: Path,
) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []
        now = loop.time()
        second = loop.call_at(now + 0.001, seen.append, "second")

        def first() -> None:
            seen.append("first")
            second.cancel()

        loop.call_at(now + 0.0005, first)
        threading.Event().wait(0.005)  # both are due when the loop comes round
        await asyncio.sleep(0.001)
        return seen

    assert _record(tmp_path / "c", main) == ["first"]
    assert _replay(tmp_path / "c", main) == ["first"]


def test_an_exception_in_a_timer_goes_where_it_would(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []
        loop.set_exception_handler(lambda _, context: seen.append(str(context["exception"])))
        loop.call_later(0.001, int, "x")
        await asyncio.sleep(0.005)
        return seen

    assert "invalid literal" in _record(tmp_path / "c", main)[0]
    assert "invalid literal" in _replay(tmp_path / "c", main)[0]


def test_posts_are_numbered_in_the_lane_of_who_posts(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []
        done = loop.create_future()

        def work() -> None:
            for i in range(3):
                loop.call_soon_threadsafe(seen.append, i)
            loop.call_soon_threadsafe(done.set_result, None)

        thread = threading.Thread(target=work)
        thread.start()
        await done
        thread.join()
        return seen

    assert _record(tmp_path / "c", main) == [0, 1, 2]
    assert _names(tmp_path / "c") == [("0.1", f"post:{i}") for i in range(1, 5)]
    assert _replay(tmp_path / "c", main) == [0, 1, 2]


def test_a_post_to_the_loop_one_is_in_is_no_delivery(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []
        loop.call_soon_threadsafe(seen.append, "posted")
        await asyncio.sleep(0)
        return seen

    assert _record(tmp_path / "c", main) == ["posted"]
    assert _names(tmp_path / "c") == []


@pytest.mark.parametrize("mode", ["record", "replay"])
def test_a_post_to_a_closed_loop_fails_as_it_would(mode: str, tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with reenact.session(capture=tmp_path / "c", mode="record"):
        pass
    with (
        reenact.session(capture=tmp_path / "c", mode=mode, overwrite=mode == "record"),
        pytest.raises(RuntimeError, match="closed"),
    ):
        loop.call_soon_threadsafe(int)


def test_a_post_from_outside_is_left_alone(tmp_path: Path) -> None:
    async def main(session: Session) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(done.set_result, None))
        session.gateway.outside(thread.start)
        await done
        thread.join()

    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        asyncio.run(main(session))
    assert _names(tmp_path / "c") == []


def test_a_session_that_matches_otherwise_has_no_schedule(tmp_path: Path) -> None:
    """By look-up or transcript nothing is paced: timers go by the clock."""

    async def main() -> None:
        await asyncio.sleep(0.001)
        await asyncio.to_thread(int)

    for mode in ("record", "replay"):
        with reenact.session(capture=tmp_path / "c", mode=mode, match="lookup"):
            asyncio.run(main())
    assert _names(tmp_path / "c") == []


def test_timers_of_a_session_that_has_ended_go_by_the_clock(tmp_path: Path) -> None:
    """The loop lives on, and so does what it has to do."""
    loop = asyncio.new_event_loop()
    seen: list[str] = []

    async def main() -> None:
        loop.call_later(0.002, seen.append, "later")
        await asyncio.sleep(0.001)

    try:
        for mode in ("record", "replay"):
            with reenact.session(capture=tmp_path / "c", mode=mode, strict=True):
                loop.run_until_complete(main())
            loop.run_until_complete(asyncio.sleep(0.005))
            assert seen == ["later"]
            seen.clear()
    finally:
        loop.close()
