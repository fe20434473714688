"""Thread registry: which threads could still make a call."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from reenact.engine.scheduling.quiescence import ThreadRegistry

THREAD: Any = object()


def test_whoever_is_not_blocked_could_ask() -> None:
    threads = ThreadRegistry(())
    assert not threads.all_wait()
    threads.block(threading.get_ident())
    assert threads.all_wait()
    threads.unblock(threading.get_ident())
    assert not threads.all_wait()


def test_a_job_that_has_not_begun_could_ask() -> None:
    threads = ThreadRegistry(())
    threads.block(threading.get_ident())
    threads.spawn()
    assert not threads.all_wait()
    threads.drop()
    assert threads.all_wait()


def test_a_thread_is_in_the_crew_from_its_beginning_to_its_end() -> None:
    threads = ThreadRegistry(())
    threads.block(threading.get_ident())
    threads.spawn(THREAD)
    seen: list[bool] = []

    def work() -> None:
        threads.begin()
        seen.append(threads.all_wait())
        threads.block(threading.get_ident())
        seen.append(threads.all_wait())
        threads.unblock(threading.get_ident())
        threads.end()
        threads.ended(THREAD)
        seen.append(threads.all_wait())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, True, True]


def test_an_idle_loop_may_be_left_out() -> None:
    threads = ThreadRegistry(())
    loop_scheduler: Any = SimpleNamespace(ident=threading.get_ident())
    other: Any = SimpleNamespace(ident=-1)
    assert threads.all_wait(loop_scheduler)
    assert not threads.all_wait(other)


def test_who_joins_a_thread_of_the_crew_waits() -> None:
    threads = ThreadRegistry(())
    threads.spawn(THREAD)
    threads.begin()
    threads.join(THREAD)
    assert threads.all_wait()
    threads.joined(THREAD)
    assert not threads.all_wait()


def test_who_joins_another_thread_may_be_woken() -> None:
    threads = ThreadRegistry(())
    threads.join(object())
    assert not threads.all_wait()


def test_the_end_of_a_thread_tells_who_joined_it() -> None:
    threads = ThreadRegistry(())
    threads.join(THREAD)
    assert threads.ended(THREAD) == {threading.get_ident()}
    assert threads.ended(THREAD) == set()
    threads.joined(THREAD)  # nobody minds


def test_a_helper_may_wake_everybody() -> None:
    threads = ThreadRegistry(())
    threads.block(threading.get_ident())
    threads.help()
    assert not threads.all_wait()
    threads.helped()
    assert threads.all_wait()


def test_a_thread_from_before_may_wake_everybody_while_it_lives() -> None:
    stop = threading.Event()
    stranger = threading.Thread(target=stop.wait)
    stranger.start()
    assert stranger in ThreadRegistry().strangers
    threads = ThreadRegistry([stranger])
    threads.block(threading.get_ident())
    assert not threads.all_wait()
    stop.set()
    stranger.join()
    assert threads.all_wait()
