"""Who could still ask: a crew that all waits is known for sure, or not at all."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from reenact.engine.scheduling.quiescence import ThreadRegistry

THREAD: Any = object()


def test_whoever_is_not_blocked_could_ask() -> None:
    crew = ThreadRegistry(())
    assert not crew.all_wait()
    crew.block(threading.get_ident())
    assert crew.all_wait()
    crew.unblock(threading.get_ident())
    assert not crew.all_wait()


def test_a_job_that_has_not_begun_could_ask() -> None:
    crew = ThreadRegistry(())
    crew.block(threading.get_ident())
    crew.spawn()
    assert not crew.all_wait()
    crew.drop()
    assert crew.all_wait()


def test_a_thread_is_in_the_crew_from_its_beginning_to_its_end() -> None:
    crew = ThreadRegistry(())
    crew.block(threading.get_ident())
    crew.spawn(THREAD)
    seen: list[bool] = []

    def work() -> None:
        crew.begin()
        seen.append(crew.all_wait())
        crew.block(threading.get_ident())
        seen.append(crew.all_wait())
        crew.unblock(threading.get_ident())
        crew.end()
        crew.ended(THREAD)
        seen.append(crew.all_wait())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, True, True]


def test_an_idle_loop_may_be_left_out() -> None:
    crew = ThreadRegistry(())
    desk: Any = SimpleNamespace(ident=threading.get_ident())
    other: Any = SimpleNamespace(ident=-1)
    assert crew.all_wait(desk)
    assert not crew.all_wait(other)


def test_who_joins_a_thread_of_the_crew_waits() -> None:
    crew = ThreadRegistry(())
    crew.spawn(THREAD)
    crew.begin()
    crew.join(THREAD)
    assert crew.all_wait()
    crew.joined(THREAD)
    assert not crew.all_wait()


def test_who_joins_another_thread_may_be_woken() -> None:
    crew = ThreadRegistry(())
    crew.join(object())
    assert not crew.all_wait()


def test_the_end_of_a_thread_tells_who_joined_it() -> None:
    crew = ThreadRegistry(())
    crew.join(THREAD)
    assert crew.ended(THREAD) == {threading.get_ident()}
    assert crew.ended(THREAD) == set()
    crew.joined(THREAD)  # nobody minds


def test_a_helper_may_wake_everybody() -> None:
    crew = ThreadRegistry(())
    crew.block(threading.get_ident())
    crew.help()
    assert not crew.all_wait()
    crew.helped()
    assert crew.all_wait()


def test_a_thread_from_before_may_wake_everybody_while_it_lives() -> None:
    stop = threading.Event()
    stranger = threading.Thread(target=stop.wait)
    stranger.start()
    assert stranger in ThreadRegistry().strangers
    crew = ThreadRegistry([stranger])
    crew.block(threading.get_ident())
    assert not crew.all_wait()
    stop.set()
    stranger.join()
    assert crew.all_wait()
