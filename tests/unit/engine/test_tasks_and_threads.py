"""Spawning: what takes a number, what does not, and what stays as it was."""

from __future__ import annotations

import asyncio
import contextvars
import logging.handlers
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.patches.event_loop import run_in_caller_lane
from reenact.engine.session.context import OUTSIDE, VARIABLE, context_outside_sessions
from reenact.engine.session.current import current
from reenact.engine.session.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with reenact.session(capture=tmp_path / "c", mode="record", seal=False) as session:
        yield session


def _run_thread(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def test_a_thread_is_in_the_session_and_in_a_lane(session: Session) -> None:
    seen: list[Any] = []
    _run_thread(
        threading.Thread(target=lambda: seen.extend([current(), session.lanes.current().name]))
    )
    assert seen == [session, "0.1"]


def test_while_a_thread_is_being_started_nobody_is_at_rest(session: Session) -> None:
    """However long the machine takes: the one who starts it has not come to its next step yet."""
    seen: list[set[int]] = []

    class Slow(threading.Thread):
        def _bootstrap(self) -> None:
            seen.append(set(session.scheduler.quiescence.starting))
            super()._bootstrap()  # type: ignore[misc]  # of the standard library

    _run_thread(Slow())
    assert seen == [{threading.get_ident()}]
    assert session.scheduler.quiescence.starting == set()


def test_a_thread_can_be_started_once_and_the_second_try_takes_no_number(session: Session) -> None:
    thread = threading.Thread(target=int)
    _run_thread(thread)
    with pytest.raises(RuntimeError, match="started once"):
        thread.start()
    assert session.lanes.root.spawned == 1
    assert session.scheduler.threads._jobs == 0


def test_a_thread_that_was_not_initialised_fails_as_it_would(session: Session) -> None:
    class Broken(threading.Thread):
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError, match="__init__"):
        Broken().start()
    assert session.lanes.root.spawned == 0


def test_a_thread_that_cannot_be_started_leaves_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    name = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
    monkeypatch.setattr(threading, name, fail)
    thread = threading.Thread(target=int)
    with pytest.raises(RuntimeError, match="new thread"):
        thread.start()
    assert session.scheduler.threads._jobs == 0
    assert not session.scheduler.threads._spawned
    assert "run" not in vars(thread)


def test_nothing_of_us_stays_with_a_thread(session: Session) -> None:
    plain = threading.Thread(target=int)
    special = threading.Thread(target=int)
    ran: list[str] = []
    special.run = own = lambda: ran.append("own")  # type: ignore[method-assign]
    _run_thread(plain)
    _run_thread(special)
    assert "run" not in vars(plain)
    assert special.run is own
    assert ran == ["own"]


def test_an_exception_in_a_thread_ends_it_for_us_too(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    _run_thread(threading.Thread(target=lambda: 1 / 0))
    assert [one.exc_type for one in raised] == [ZeroDivisionError]
    assert session.scheduler.threads._threads == {threading.get_ident()}


def test_threads_of_the_standard_library_are_plumbing(session: Session) -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(VARIABLE.get())

    seen: list[Any] = []
    records: queue.SimpleQueue[Any] = queue.SimpleQueue()
    listener = logging.handlers.QueueListener(records, Handler())
    listener.start()
    records.put(logging.makeLogRecord({}))
    listener.stop()
    assert seen == [OUTSIDE]
    assert session.lanes.root.spawned == 0


def test_what_is_spawned_outside_stays_outside(session: Session) -> None:
    seen: list[Any] = []

    def work() -> None:
        _run_thread(threading.Thread(target=lambda: seen.append(current())))

    session.gateway.outside(lambda: _run_thread(threading.Thread(target=work)))
    assert seen == [None]
    assert session.lanes.root.spawned == 0


def test_without_a_session_threads_are_started_as_ever(tmp_path: Path) -> None:
    """Another thread has a session; here there is none."""
    opened, stop = threading.Event(), threading.Event()

    def hold() -> None:
        with reenact.session(capture=tmp_path / "c", mode="record"):
            opened.set()
            stop.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    opened.wait()
    seen: list[Any] = []
    try:
        _run_thread(threading.Thread(target=lambda: seen.append(VARIABLE.get())))
    finally:
        stop.set()
        holder.join()
    assert seen == [None]


# Tasks


def test_a_task_factory_gets_what_it_would_get(session: Session) -> None:
    """One that knows no context is not given one."""
    made: list[Any] = []

    def factory(loop: Any, coro: Any) -> Any:
        made.append(coro)
        return asyncio.Task(coro, loop=loop)

    async def main() -> str:
        asyncio.get_running_loop().set_task_factory(factory)
        task = asyncio.get_running_loop().create_task(_lane(session))
        return await task

    assert asyncio.run(main()) == "0.1"
    assert len(made) >= 1


async def _lane(session: Session) -> str:
    return session.lanes.current().name


def test_a_task_has_the_name_it_was_given(session: Session) -> None:
    async def main() -> list[str]:
        return [
            asyncio.create_task(_lane(session), name="named").get_name(),
            type(asyncio.current_task()).__name__,
        ]

    assert asyncio.run(main()) == ["named", "Task"]


def test_a_closed_loop_makes_no_task(session: Session) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    coro = _lane(session)
    with pytest.raises(RuntimeError, match="closed"):
        asyncio.ensure_future(coro, loop=loop).cancel()
    coro.close()


def test_a_runner_inside_a_loop_fails_as_it_would(session: Session) -> None:
    async def main(runner: asyncio.Runner) -> None:
        coro = _lane(session)
        with pytest.raises(RuntimeError, match="running event loop"):
            runner.run(coro)
        coro.close()

    with asyncio.Runner() as runner:
        asyncio.run(main(runner))
        assert runner.run(_lane(session)) == "0"


def test_what_fails_before_its_task_is_made_adopts_nothing(session: Session) -> None:
    """The next task is not taken for a main task."""
    with asyncio.Runner() as runner, pytest.raises(ValueError, match="coroutine"):
        runner.run(None)  # type: ignore[arg-type]
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(TypeError):
            loop.run_until_complete(None)  # type: ignore[arg-type]
        task = loop.create_task(_lane(session))
        assert loop.run_until_complete(task) == "0.1"
    finally:
        loop.close()


def test_a_task_with_a_context_of_somebody_outside_is_in_the_session(session: Session) -> None:
    async def main() -> list[Any]:
        contexts = [contextvars.Context(), context_outside_sessions()]
        return [await asyncio.create_task(_current(), context=context) for context in contexts]

    assert asyncio.run(main()) == [session, session]


async def _current() -> Any:
    return current()


def test_wait_for_keeps_the_lane_and_other_tasks_do_not(session: Session) -> None:
    async def main() -> list[str]:
        return [
            await asyncio.wait_for(_lane(session), 10),
            await asyncio.create_task(_lane(session)),
            await asyncio.wait_for(asyncio.create_task(_lane(session)), 10),
            await asyncio.wait_for(_nested(session), 10),
            await asyncio.wait_for(_nested(session), None),
        ]

    assert asyncio.run(main()) == ["0", "0.1", "0.2", "0.3", "0.4"]


@pytest.mark.parametrize(
    "make",
    [
        lambda loop, coro: loop.create_task(coro),
        lambda loop, coro: asyncio.Task(coro, loop=loop),
        pytest.param(
            lambda loop, coro: asyncio.Task(coro, loop=loop, eager_start=True),  # type: ignore[call-arg]
            marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="from Python 3.12 on"),
        ),
    ],
    ids=["by-its-loop", "past-its-loop", "eager"],
)
def test_what_stays_is_in_its_callers_lane_in_any_task(
    session: Session, make: Callable[..., asyncio.Task[str]]
) -> None:
    async def main() -> list[str]:
        task = make(asyncio.get_running_loop(), run_in_caller_lane(session, _lane_later, session))
        return [await task, await asyncio.create_task(_lane(session))]

    assert asyncio.run(main()) == ["0", "0.1"]


async def _lane_later(session: Session) -> str:
    first = await _lane(session)
    await asyncio.sleep(0)
    assert await _lane(session) == first
    return first


async def _nested(session: Session) -> str:
    return await asyncio.create_task(_lane(session))
