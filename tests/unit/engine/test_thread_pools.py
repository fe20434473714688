"""Jobs: each in its lane, known until its result has been told, whatever becomes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor, wait
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import reenact
from reenact.engine.session.current import current
from reenact.engine.session.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with reenact.session(capture=tmp_path / "c", mode="record", seal=False) as session:
        yield session
        assert session.scheduler.threads._jobs == 0
        assert session.scheduler.threads._threads == {threading.get_ident()}


def test_a_job_is_in_the_session_and_its_worker_is_not(session: Session) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(current).result() is session
        assert session.gateway.outside(lambda: pool.submit(current).result()) is None
        assert pool.submit(session.lanes.current).result().name == "0.2"


def test_a_pool_from_before_the_session_works_for_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(current).result() is None
        with reenact.session(capture=tmp_path / "c", mode="record") as session:
            assert pool.submit(current).result() is session
        assert pool.submit(current).result() is None


def _compute(number: int) -> int:
    """The first ones take longest."""
    return number if sum(range(20_000 * (3 - number))) else -1


def _compute_below(number: int) -> int:
    """In a pool of its own, whose workers are waited for."""
    with ThreadPoolExecutor() as pool:
        return next(pool.map(_compute, [number]))


@pytest.mark.parametrize("work", [_compute, _compute_below])
def test_jobs_that_only_compute_are_done_in_the_order_of_submitting(
    work: Callable[[int], int], session: Session
) -> None:
    done: list[int] = []
    with ThreadPoolExecutor(3) as pool:
        for _ in range(10):
            jobs = [pool.submit(work, number) for number in range(3)]
            for job in jobs:
                job.add_done_callback(lambda job: done.append(job.result()))
            wait(jobs)
    assert done == [0, 1, 2] * 10


def test_a_pool_that_is_shut_down_takes_no_job(session: Session) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(int)
    assert session.scheduler.threads._jobs == 0


def test_a_job_that_is_cancelled_before_it_begins_never_was(session: Session) -> None:
    hold = threading.Event()
    told: list[bool] = []
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(hold.wait)
        second = pool.submit(int)
        second.add_done_callback(lambda future: told.append(future.cancelled()))
        assert second.cancel()
        hold.set()
        assert first.result()
    assert told == [True]


def test_jobs_that_a_shutdown_drops_never_were(session: Session) -> None:
    hold = threading.Event()
    pool = ThreadPoolExecutor(1)
    futures: list[Future[Any]] = [pool.submit(hold.wait)]
    futures += [pool.submit(int) for _ in range(3)]
    pool.shutdown(wait=False, cancel_futures=True)
    hold.set()
    pool.shutdown()
    assert [future.cancelled() for future in futures] == [False, True, True, True]


def test_jobs_of_a_broken_pool_never_were(session: Session) -> None:
    def fail() -> None:
        raise ValueError("initializer")

    with ThreadPoolExecutor(1, initializer=fail) as pool, pytest.raises(BrokenExecutor):
        pool.submit(int).result()


def test_the_future_of_a_job_is_a_future(session: Session) -> None:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(int)
        assert isinstance(future, Future)
        assert type(future).__name__ == "Future"
        assert repr(future).startswith("<Future at")
        assert wait([future]).done == {future}
        failed = pool.submit(int, "x")
        assert isinstance(failed.exception(), ValueError)


def test_sets_of_futures_iterate_by_lane(tmp_path: Path) -> None:
    orders = []
    for number in range(3):
        with (
            reenact.session(capture=tmp_path / str(number), mode="record"),
            ThreadPoolExecutor(2) as pool,
        ):
            futures = {pool.submit(int, i): i for i in range(20)}
            orders.append([futures[future] for future in set(futures)])
    assert orders[0] == orders[1] == orders[2]


@pytest.mark.parametrize("late", [False, True])
def test_a_callback_runs_in_the_jobs_lane_also_when_it_comes_late(
    late: bool, session: Session
) -> None:
    seen: list[str] = []
    hold, told = threading.Event(), threading.Event()

    def tell(_: Any) -> None:
        seen.append(session.lanes.current().name)
        told.set()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(hold.wait)
        if late:
            hold.set()
            future.result()
        future.add_done_callback(tell)
        hold.set()
        told.wait()
    assert seen == ["0.1"]
    assert session.lanes.current().name == "0"


def test_a_callback_that_fails_harms_nobody(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(int)
        future.add_done_callback(lambda _: 1 / 0)
        assert future.result() == 0
    assert "exception calling callback" in caplog.text


def test_a_result_that_was_there_before_anybody_waited_is_posted_by_the_job(
    tmp_path: Path,
) -> None:
    """Otherwise it would be chance whether a loop is told by the worker or finds out itself."""

    async def main() -> int:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(int)
            future.result()
            return await asyncio.wrap_future(future)

    with reenact.session(capture=tmp_path / "c", mode="record"):
        assert asyncio.run(main()) == 0
    with reenact.open_recording(tmp_path / "c") as source:
        assert [(event.lane, event.data["key"]) for event in source] == [("0.1", "post:1")]


# anyio


def test_a_job_of_anyio_that_is_given_up_before_it_begins_never_was(session: Session) -> None:
    async def main() -> None:
        limiter = anyio.CapacityLimiter(1)
        await limiter.acquire_on_behalf_of("somebody")
        with anyio.move_on_after(0.001):
            await anyio.to_thread.run_sync(int, limiter=limiter)
        assert session.scheduler.threads._jobs == 0
        limiter.release_on_behalf_of("somebody")
        assert await anyio.to_thread.run_sync(current, limiter=limiter) is session

    asyncio.run(main())


def test_a_job_of_anyio_that_is_abandoned_ends_by_itself(session: Session) -> None:
    hold, ended = threading.Event(), threading.Event()

    def work(begun: Callable[[], Any]) -> None:
        begun()
        hold.wait()
        ended.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with anyio.CancelScope() as scope:
            begun = partial(loop.call_soon_threadsafe, scope.cancel)
            await anyio.to_thread.run_sync(work, begun, abandon_on_cancel=True)
        assert scope.cancelled_caught
        hold.set()
        await anyio.to_thread.run_sync(ended.wait)
        await anyio.to_thread.run_sync(int)

    asyncio.run(main())


def test_a_job_of_anyio_that_fails_fails_there(session: Session) -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await anyio.to_thread.run_sync(lambda: 1 / 0)

    asyncio.run(main())


# ThreadPool


def test_a_thread_pool_that_is_closed_takes_no_job(session: Session) -> None:
    with ThreadPool(1) as pool:
        pool.close()
        with pytest.raises(ValueError, match="not running"):
            pool.apply_async(int)
        with pytest.raises(ValueError, match="not running"):
            pool.map(int, range(3))
        pool.join()


def test_a_thread_pool_does_what_it_does_without_a_session(session: Session) -> None:
    def work(pool: ThreadPool) -> list[Any]:
        return [
            pool.apply(divmod, (7, 2)),
            pool.apply(dict, (), {"a": 1}),
            pool.map(abs, [-1, -2, 3]),
            pool.map(abs, []),
            pool.starmap(divmod, [(7, 2), (9, 4)], chunksize=2),
            list(pool.imap(abs, iter([-1, 2]))),
            sorted(pool.imap_unordered(abs, [-1, 2], chunksize=2)),
            pool.map_async(abs, range(3)).get(),
        ]

    with ThreadPool(2) as pool:
        expected = session.gateway.outside(lambda: work(pool))
        assert work(pool) == expected
        pool.close()
        pool.join()


def test_an_error_in_a_thread_pool_comes_back(session: Session) -> None:
    told: list[Any] = []
    with ThreadPool(1) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.map(lambda x: 1 / x, [1, 0])
        result = pool.apply_async(divmod, (1, 0), error_callback=told.append)
        result.wait()
        pool.close()
        pool.join()
    assert [type(error) for error in told] == [ZeroDivisionError]
