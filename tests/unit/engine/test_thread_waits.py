"""Waits of threads: as the standard library has them, and recorded where they end in vain."""

from __future__ import annotations

import concurrent.futures as futures
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.patches import threads as waits
from reenact.engine.session.session import Session


@pytest.fixture(params=["record", "replay"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """One that has nothing to say about any wait."""
    with reenact.session(capture=tmp_path / "c", mode="record", seal=False):
        pass
    mode = request.param
    with reenact.session(
        capture=tmp_path / "c", mode=mode, seal=False, overwrite=mode == "record"
    ) as session:
        yield session
    assert waits._asleep == {}


def _thread(act: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def _record(path: Path, program: Callable[[], Any]) -> Any:
    with reenact.session(capture=path, mode="record", seal=False):
        return program()


def _names(path: Path) -> list[tuple[str, str]]:
    with reenact.open_recording(path) as source:
        return [(event.lane, event.data["key"]) for event in source]


# Conditions


def test_a_condition_wakes_as_many_as_it_is_told_to(session: Session) -> None:
    condition = threading.Condition()
    woken: list[int] = []

    def wait(i: int) -> None:
        with condition:
            condition.wait()
            woken.append(i)

    threads = []
    for i in range(3):
        threads.append(_thread(lambda i=i: wait(i)))  # type: ignore[misc]
        while len(condition._waiters) < i + 1:  # type: ignore[attr-defined]
            pass  # until it waits
    with condition:
        condition.notify(1)
    threads[0].join()
    assert woken == [0]
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join()
    assert sorted(woken) == [0, 1, 2]


@pytest.mark.parametrize("timeout", [None, 0, 0.001])
def test_waiting_without_the_lock_fails_as_it_would(timeout: Any, session: Session) -> None:
    with pytest.raises(RuntimeError, match="un-acquired"):
        threading.Condition().wait(timeout)
    with pytest.raises(RuntimeError, match="un-acquired"):
        threading.Condition().notify()


def test_a_timed_wait_says_how_it_ended(session: Session) -> None:
    condition = threading.Condition()
    with condition:
        assert condition.wait(0.001) is False
        assert condition.wait(0) is False
        assert condition.wait_for(lambda: False, 0.001) is False
        assert condition.wait_for(lambda: True, 0.001) is True
        assert len(condition._waiters) == 0  # type: ignore[attr-defined]
    event = threading.Event()
    thread = _thread(event.set)
    assert event.wait(60)
    thread.join()


def test_a_recursive_lock_is_given_up_whole_and_taken_back_whole(session: Session) -> None:
    lock = threading.RLock()
    condition = threading.Condition(lock)
    seen: list[bool] = []

    def notify() -> None:
        with condition:
            seen.append(True)
            condition.notify()

    with condition, condition:
        thread = _thread(notify)
        assert condition.wait(60)
        assert lock._is_owned()  # type: ignore[attr-defined]
    thread.join()
    assert seen == [True]


def test_an_exception_while_waiting_leaves_the_condition_as_it_was(session: Session) -> None:
    """As when somebody presses Ctrl-C."""

    class Interrupting:
        """A lock that raises when it is taken back, which is when the waiting ends."""

        def __init__(self) -> None:
            self._lock = threading.RLock()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._lock, name)

        def __enter__(self) -> Any:
            return self._lock.__enter__()

        def __exit__(self, *args: Any) -> None:
            self._lock.__exit__(*args)

        def _acquire_restore(self, state: Any) -> None:
            self._lock._acquire_restore(state)  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    condition = threading.Condition(Interrupting())  # type: ignore[arg-type]
    event = threading.Event()

    def notify() -> None:
        event.wait()
        _notify(condition)

    thread = _thread(notify)
    with pytest.raises(KeyboardInterrupt), condition:
        event.set()
        condition.wait()
    thread.join()
    assert waits._asleep == {}


def _notify(condition: threading.Condition) -> None:
    with condition:
        condition.notify()


def test_barriers_semaphores_and_queues_work(session: Session) -> None:
    barrier, slots = threading.Barrier(3), threading.Semaphore(0)
    things: queue.Queue[int] = queue.Queue(1)
    threads = [_thread(barrier.wait) for _ in range(2)]
    barrier.wait(60)
    threads.append(_thread(slots.release))
    assert slots.acquire(timeout=60)
    assert not slots.acquire(timeout=0.001)
    threads += [_thread(partial(things.put, i)) for i in range(1)]
    assert things.get(timeout=60) == 0
    threads += [_thread(partial(things.put, i)) for i in range(3)]
    assert sorted(things.get(timeout=60) for _ in range(3)) == [0, 1, 2]
    with pytest.raises(queue.Empty):
        things.get(timeout=0.001)
    for thread in threads:
        thread.join()


# In vain


def test_only_waits_in_vain_are_written(tmp_path: Path) -> None:
    def program() -> list[bool]:
        event = threading.Event()
        first = event.wait(0.001)
        thread = _thread(event.set)
        second = event.wait(60)
        thread.join()
        return [first, second, threading.Event().wait(0.001)]

    assert _record(tmp_path / "c", program) == [False, True, False]
    assert _names(tmp_path / "c") == [("0", "wait:1"), ("0", "wait:2")]


def test_a_queue_with_a_time_out_waits_in_vain_once(tmp_path: Path) -> None:
    """What is left of the time-out is nothing then, also for the library's own arithmetic."""

    def program() -> str:
        try:
            queue.Queue[int]().get(timeout=0.002)
        except queue.Empty:
            return "empty"
        return "full"

    assert _record(tmp_path / "c", program) == "empty"
    assert _names(tmp_path / "c") == [("0", "wait:1")]
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True):
        assert program() == "empty"


def test_a_wait_that_was_woken_for_nothing_waits_on(tmp_path: Path) -> None:
    """Somebody else took the thing: the time-out is not over, and then it is."""
    condition = threading.Condition()

    def program() -> bool:
        thread = _thread(lambda: _notify(condition))
        with condition:
            found: bool = condition.wait_for(lambda: False, 0.02)
        thread.join()
        return found

    assert _record(tmp_path / "c", program) is False
    assert _names(tmp_path / "c") == [("0", "wait:1")]
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True):
        assert program() is False


def test_as_completed_with_a_time_out_gives_up(tmp_path: Path) -> None:
    hold = threading.Event()

    def program() -> str:
        with futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(hold.wait)
            try:
                list(futures.as_completed([future], timeout=0.002))
            except TimeoutError:
                return "time is up"
            finally:
                hold.set()
        return "completed"

    assert _record(tmp_path / "c", program) == "time is up"
    hold.clear()
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True):
        assert program() == "time is up"


def test_the_clock_of_others_is_the_real_one(session: Session) -> None:
    """Only what a thread reads to see what is left of a time-out is its own."""
    clock: Any = vars(futures._base)["time"]
    assert session.gateway.outside(lambda: clock.monotonic() <= time.monotonic())
    assert session.gateway.outside(lambda: clock.time() <= time.time())
    own: Any = vars(queue)["time"]
    before = own()
    assert own() == before
    threading.Event().wait(0.001)
    assert own() > before


# Joining


def test_joining_works_for_every_kind_of_thread(session: Session) -> None:
    inside = _thread(int)
    inside.join()
    inside.join()
    inside.join(0.001)
    outside = threading.Thread(target=int)
    session.gateway.outside(outside.start)
    outside.join()
    with pytest.raises(RuntimeError, match="current thread"):
        threading.current_thread().join()
    with pytest.raises(RuntimeError, match="before it is started"):
        threading.Thread(target=int).join()
    assert session.scheduler.threads._joiners == {}


def test_a_wait_in_the_middle_of_our_own_work_is_not_the_programs(session: Session) -> None:
    """A sink starts a thread while the session's lock is held: nobody comes to rest by that."""
    with session.lock:
        session.scheduler.quiescence.give(session.runner())
        event = threading.Event()
        thread = threading.Thread(target=event.set)
        session.gateway.outside(thread.start)
        event.wait()
        thread.join()
        assert not session.scheduler.quiescence.is_complete()
