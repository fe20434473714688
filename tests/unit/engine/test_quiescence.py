"""Rest: who is busy with the last delivery, and when nobody is any more."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from reenact.engine.scheduling.quiescence import Quiescence

A, B = 1, 2
"""Threads that do not exist: they never want the processor."""

LONG = 100_000
"""Seconds of grace that no test waits for."""


class FakeDesk:
    """Counts how often it is asked to look."""

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self.looks = 0
        self.later: list[float] = []

    def post_from_anywhere(self) -> None:
        self.looks += 1

    def post_later(self, seconds: float) -> None:
        self.later.append(seconds)


@pytest.fixture
def lock() -> Iterator[Any]:
    lock = threading.RLock()
    with lock:
        yield lock


def _rest(lock: Any, grace: float = LONG) -> Quiescence:
    return Quiescence(lock, grace)


def test_at_first_there_is_rest(lock: Any) -> None:
    rest = _rest(lock)
    assert rest.holds_for(A)
    assert rest.is_complete()
    assert rest.left() == 0


def test_who_got_something_may_get_more_and_others_wait(lock: Any) -> None:
    rest = _rest(lock)
    rest.give(A)
    assert rest.holds_for(A)
    assert not rest.holds_for(B)
    assert not rest.is_complete()
    assert rest.left() > 0


def test_rest_comes_when_the_last_one_is_done(lock: Any) -> None:
    rest = _rest(lock)
    rest.give(A)
    rest.add(B)
    job = object()
    rest.add(job)
    assert not rest.holds_for(A)
    assert [rest.remove(A), rest.remove(job), rest.remove(B)] == [False, False, True]
    assert rest.is_complete()
    assert not rest.remove(B)


def test_a_delivery_counts_from_anew(lock: Any) -> None:
    rest = _rest(lock)
    rest.give(A)
    rest.add(B)
    rest.give(B)
    assert rest.holds_for(B)
    assert rest.remove(B)


def test_after_some_looks_whoever_is_busy_counts_as_at_rest(lock: Any) -> None:
    rest = _rest(lock, grace=0)
    rest.give(A)
    assert [rest.holds_for(B) for _ in range(6)] == [False] * 4 + [True] * 2
    assert rest.holds_for(A)


def test_being_woken_starts_the_looks_anew(lock: Any) -> None:
    rest = _rest(lock, grace=0)
    rest.give(A)
    assert [rest.holds_for(B) for _ in range(4)] == [False] * 4
    rest.add(A)
    assert [rest.holds_for(B) for _ in range(5)] == [False] * 4 + [True]


@pytest.mark.skipif(sys.platform != "linux", reason="what a thread wants is known on Linux")
def test_who_computes_is_not_at_rest_for_much_longer(lock: Any) -> None:
    rest = _rest(lock, grace=0)
    rest.give(threading.get_ident())
    assert [rest.holds_for(B) for _ in range(100)] == [False] * 99 + [True]


def test_who_starts_a_thread_is_not_at_rest_while_it_waits_for_that(lock: Any) -> None:
    rest = _rest(lock, grace=0)
    rest.give(A)
    rest.starting.add(A)
    assert [rest.holds_for(B) for _ in range(20)] == [False] * 20
    rest.starting.discard(A)
    assert [rest.holds_for(B) for _ in range(5)] == [False] * 4 + [True]


def test_looking_too_often_does_not_help(lock: Any) -> None:
    rest = _rest(lock)
    rest.give(A)
    assert not any(rest.holds_for(B) for _ in range(1_000))


def test_a_sleeper_is_woken_by_rest(lock: Any) -> None:
    rest = _rest(lock)
    rest.give(A)
    asleep = threading.Event()
    woken: list[str] = []

    def sleep() -> None:
        with lock:
            asleep.set()
            rest.sleep()
            woken.append("woken")

    thread = threading.Thread(target=sleep)
    thread.start()
    lock.release()
    asleep.wait()
    lock.acquire()  # it has given the lock up: it sleeps
    assert woken == []
    rest.remove(A)
    lock.release()
    thread.join()
    lock.acquire()
    assert woken == ["woken"]


def test_a_curious_desk_is_told_once(lock: Any) -> None:
    rest = _rest(lock)
    loop_scheduler: Any = FakeDesk(B)
    rest.give(A)
    rest.tell_later(loop_scheduler)
    assert loop_scheduler.looks == 0
    assert len(loop_scheduler.later) == 1
    rest.remove(A)
    assert loop_scheduler.looks == 1
    rest.give(A)
    rest.remove(A)
    assert loop_scheduler.looks == 1


def test_only_loops_that_are_busy_are_prodded(lock: Any) -> None:
    rest = _rest(lock)
    busy: Any = FakeDesk(A)
    idle: Any = FakeDesk(B)
    rest.loops.update((busy, idle))
    rest.give(A)
    rest.prod()
    assert (busy.looks, idle.looks) == (1, 0)


def test_after_a_fork_nobody_is_left(lock: Any) -> None:
    rest = _rest(lock)
    loop_scheduler: Any = FakeDesk(A)
    rest.loops.add(loop_scheduler)
    rest.give(A)
    rest.tell_later(loop_scheduler)
    rest.after_fork()
    assert rest.is_complete()
    assert not rest.loops
