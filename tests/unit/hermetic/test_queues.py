"""Who acts for a replayed session, and who does not."""

import asyncio
import contextvars
import gc
import queue
import threading
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import reenact
from reenact.hermetic.handoffs import SERVED_LIVE, current_handoff, release_unneeded


@pytest.fixture(autouse=True)
def _no_patches_stay() -> Iterator[None]:
    """Give back the patches that the workers of a test have needed."""
    yield
    gc.collect()
    release_unneeded()


@pytest.fixture
def replaying(tmp_path: Path) -> Callable[..., None]:
    """Run a function inside a replay of an empty recording."""
    with reenact.session(tape=tmp_path / "tape.jsonl", mode="record"):
        pass

    def run(body: Callable[[], Any]) -> None:
        with reenact.session(tape=tmp_path / "tape.jsonl", mode="replay"):
            body()

    return run


def _in_thread(body: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(body()))
    thread.start()
    thread.join()
    return found[0]


def test_worker_acts_for_the_replay_that_has_put_its_item(replaying: Callable[..., None]) -> None:
    jobs: queue.Queue[object] = queue.Queue()
    found: list[object] = []

    def work() -> None:
        jobs.get()
        found.append(current_handoff())
        done.set()

    done = threading.Event()
    worker = threading.Thread(target=work)
    worker.start()

    def body() -> None:
        jobs.put(object())
        done.wait()

    replaying(body)
    worker.join()
    assert found[0] is not None


def test_main_thread_that_receives_a_result_does_not_bind_other_threads(
    replaying: Callable[..., None],
) -> None:
    """Live statements of a server were refused because its tasks had a copy of this context."""
    results: queue.Queue[object] = queue.Queue()
    _in_thread(lambda: replaying(lambda: results.put(object())))
    context = contextvars.copy_context()
    context.run(results.get)
    assert _in_thread(lambda: context.run(current_handoff)) is None


def test_free_place_of_a_pool_that_a_replay_has_created_is_not_work(
    replaying: Callable[..., None],
) -> None:
    """A pool of urllib3 is filled with None when it is created, and others use it later."""
    pool: queue.LifoQueue[object] = queue.LifoQueue()
    replaying(lambda: pool.put(None))

    def borrow() -> object:
        pool.get()
        return current_handoff()

    assert _in_thread(borrow) is None


def test_live_request_acts_for_nobody(replaying: Callable[..., None]) -> None:
    pool: queue.Queue[object] = queue.Queue()

    def borrow() -> object:
        SERVED_LIVE.set(True)
        pool.get()
        return current_handoff()

    def body() -> None:
        pool.put(object())

    replaying(body)
    assert _in_thread(borrow) is None
    replaying(body)

    def work() -> object:
        pool.get()
        return current_handoff()

    assert _in_thread(work) is not None


def test_item_that_other_code_holds_as_well_is_not_recognised_in_its_frames(
    replaying: Callable[..., None],
) -> None:
    """A thread that was not waiting for an item cannot have taken one unseen."""
    shared = object()
    jobs: queue.SimpleQueue[object] = queue.SimpleQueue()
    start, end = threading.Lock(), threading.Event()  # releasing a lock hands nothing over
    start.acquire()
    found: list[object] = []

    def other() -> None:
        held = shared
        start.acquire()
        found.append(current_handoff())
        end.set()
        assert held is shared

    thread = threading.Thread(target=other)
    thread.start()

    def body() -> None:
        jobs.put(shared)
        start.release()
        end.wait()

    replaying(body)
    thread.join()
    assert found == [None]


def test_patches_do_not_outlive_a_replay_whose_result_the_main_thread_received(
    replaying: Callable[..., None],
) -> None:
    gc.collect()  # what earlier replays have left
    replaying(lambda: None)
    before = queue.Queue.get, threading.Thread.start
    results: queue.Queue[object] = queue.Queue()
    _in_thread(lambda: replaying(lambda: results.put(object())))
    results.get()
    replaying(lambda: None)
    assert (queue.Queue.get, threading.Thread.start) == before


def test_nothing_is_patched_after_a_replay_with_worker_threads_of_anyio(
    replaying: Callable[..., None],
) -> None:
    async def main() -> None:
        await anyio.to_thread.run_sync(lambda: None)

    before = queue.Queue.get
    replaying(lambda: asyncio.run(main()))
    assert queue.Queue.get is before


def test_nothing_is_patched_after_the_end_of_a_thread_pool_from_before_the_replay(
    replaying: Callable[..., None],
) -> None:
    def use_pool() -> None:
        with ThreadPool(1) as pool:
            replaying(partial(pool.map, str, [1]))
        pool.join()

    before = queue.Queue.get
    use_pool()
    gc.collect()
    replaying(lambda: None)
    assert queue.Queue.get is before
