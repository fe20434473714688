"""Signals of a replay that hand work to a thread or task outside it, and those that do not."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy
from sqlalchemy.pool import QueuePool

import reenact
from reenact.engine.session.current import current
from reenact.errors import CapabilityDenied
from reenact.hermetic.handoffs import current_handoff, release_unneeded, served_live

METHODS = (
    (threading.Condition, "notify"),
    (threading.Condition, "wait"),
    (threading.Condition, "__enter__"),
    (threading.Event, "wait"),
    (threading.Semaphore, "acquire"),
    (Future, "result"),
    (asyncio.Event, "wait"),
    (asyncio.Semaphore, "acquire"),
    (asyncio.Future, "set_result"),
)


@pytest.fixture(autouse=True)
def _no_patches_stay() -> Iterator[None]:
    """Give back the patches that the workers of a test have needed."""
    yield
    gc.collect()
    release_unneeded()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    with reenact.session(tape=tmp_path / "tape.jsonl", mode="record"):
        pass
    return tmp_path / "tape.jsonl"


@pytest.fixture
def replaying(recording: Path) -> Callable[[Callable[[], Any]], None]:
    """Run a function inside a replay of an empty recording."""

    def run(body: Callable[[], Any]) -> None:
        with reenact.session(tape=recording, mode="replay", strict=False, warn=lambda _: None):
            body()

    return run


class _Outside:
    """A thread outside every session that waits, and then notes for which session it acts."""

    def __init__(self, wait: Callable[[], Any]) -> None:
        self.acts: list[bool] = []
        self._wait = wait
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._wait()
        self.acts.append(current_handoff() is not None)

    def end(self) -> bool:
        self._thread.join()
        return self.acts[0]


def _both(signal: Callable[[], Any], end: Callable[[], Any]) -> Callable[[], None]:
    def body() -> None:
        signal()
        end()

    return body


def _until(waits: Callable[[], Any]) -> None:
    while not waits():
        pass


def test_thread_that_the_program_signals_acts_for_the_replay(replaying: Any) -> None:
    event = threading.Event()
    outside = _Outside(event.wait)
    _until(lambda: event._cond._waiters)  # type: ignore[attr-defined]
    replaying(_both(event.set, outside.end))
    assert outside.acts == [True]


def test_lock_that_a_replay_releases_hands_nothing_over(replaying: Any) -> None:
    lock = threading.Lock()
    lock.acquire()
    outside = _Outside(lock.acquire)
    replaying(_both(lock.release, outside.end))
    assert outside.acts == [False]


def test_semaphore_that_a_replay_has_acquired_hands_nothing_over(replaying: Any) -> None:
    limit = threading.Semaphore(1)
    made: list[_Outside] = []

    def body() -> None:
        with limit:
            made.append(_Outside(limit.acquire))
            _until(lambda: limit._cond._waiters)  # type: ignore[attr-defined]
        made[0].end()

    replaying(body)
    assert made[0].acts == [False]


def test_executor_that_runs_a_job_of_a_replay_does_not_bind_its_caller(replaying: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        replaying(lambda: pool.submit(str, 1).result())
        assert pool.submit(lambda: current_handoff() is None).result()


def test_live_request_that_waits_for_a_signal_of_a_replay_is_undisturbed(replaying: Any) -> None:
    event = threading.Event()

    def serve() -> None:
        with served_live():
            event.wait()
            live.append(current_handoff() is None)

    live: list[bool] = []
    outside = _Outside(serve)
    _until(lambda: event._cond._waiters)  # type: ignore[attr-defined]
    replaying(_both(event.set, outside.end))
    assert live == [True]
    assert outside.acts == [False], "the thread acts for the replay after its live request"


def test_live_task_that_waits_for_a_signal_of_a_replay_is_undisturbed(recording: Path) -> None:
    async def main() -> list[bool]:
        event = asyncio.Event()

        async def wait() -> bool:
            await event.wait()
            return current_handoff() is not None

        async def serve() -> bool:
            with served_live():
                return await wait()

        tasks = [asyncio.create_task(wait()), asyncio.create_task(serve())]
        await asyncio.sleep(0)
        async with reenact.session(tape=recording, mode="replay", strict=False):
            event.set()
            return [await task for task in tasks]

    assert asyncio.run(main()) == [True, False]


def test_connection_that_a_replay_returns_to_a_pool_lets_its_next_user_write(
    recording: Path, tmp_path: Path
) -> None:
    """The worker waits for the pool when the replay returns the only connection."""
    path = tmp_path / "database.sqlite"
    engine = sqlalchemy.create_engine(
        f"sqlite:///{path}",
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        connect_args={"check_same_thread": False},
    )
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("create table rows (text)"))

    def write() -> None:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("insert into rows values ('live')"))

    with reenact.session(tape=recording, mode="replay") as session:
        held = engine.connect()
        outside = _Outside(lambda: contextvars.Context().run(write))
        _until(lambda: engine.pool._pool.not_empty._waiters)  # type: ignore[attr-defined]
        held.close()
        outside.end()
    engine.dispose()
    assert session.report().status == "ok"
    with sqlite3.connect(path) as read:
        assert read.execute("select text from rows").fetchall() == [("live",)]


def test_coroutine_that_a_replay_runs_in_a_loop_outside_is_in_the_replay(recording: Path) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    found: list[Any] = []

    async def work() -> None:
        found.append(current())

    with reenact.session(tape=recording, mode="replay", strict=False) as session:
        asyncio.run_coroutine_threadsafe(work(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert found == [session]


def test_item_that_waits_in_a_stream_is_not_sent_by_a_task_that_was_busy(recording: Path) -> None:
    async def main() -> list[bool]:
        sender, receiver = anyio.create_memory_object_stream[str](5)
        go = asyncio.get_running_loop().create_future()
        found: list[bool] = []

        async def work() -> None:
            async for _ in receiver:
                found.append(current_handoff() is not None)
                await asyncio.shield(go)

        task = asyncio.create_task(work())
        await sender.send("outside")
        async with reenact.session(tape=recording, mode="replay", strict=False):
            for _ in range(3):
                await asyncio.sleep(0)
            await sender.send("inside")
            sender.close()
            go.set_result(None)
            await task
        receiver.close()
        return found

    assert asyncio.run(main()) == [False, True]


def test_worker_that_a_replay_signals_gets_an_ordinary_exception(
    recording: Path, tmp_path: Path
) -> None:
    event = threading.Event()
    connection = sqlite3.connect(tmp_path / "file.sqlite", check_same_thread=False)
    errors: list[BaseException] = []

    def work() -> None:
        event.wait()
        try:
            connection.execute("create table rows (text)")
        except CapabilityDenied as error:
            errors.append(error)

    outside = _Outside(work)
    _until(lambda: event._cond._waiters)  # type: ignore[attr-defined]
    with reenact.session(tape=recording, mode="replay", strict=False) as session:
        event.set()
        outside.end()
    connection.close()
    assert "which a signal of the session has woken" in str(errors[0])
    assert session.report().status == "diverged"


def test_nothing_is_patched_while_recording_or_after_a_replay(
    recording: Path, tmp_path: Path
) -> None:
    before = [getattr(owner, name) for owner, name in METHODS]
    with reenact.session(tape=recording, mode="replay", strict=False):
        assert [getattr(owner, name) for owner, name in METHODS] != before
    assert [getattr(owner, name) for owner, name in METHODS] == before
    with reenact.session(tape=tmp_path / "other.jsonl", mode="record"):
        for owner, name in ((threading.Condition, "__enter__"), (asyncio.Future, "set_result")):
            assert getattr(owner, name) is before[METHODS.index((owner, name))]
