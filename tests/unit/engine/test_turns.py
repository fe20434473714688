"""Threads that wake and start each other go on one after the other, when nobody else is busy."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.scheduling.quiescence import Quiescence
from reenact.engine.session.session import Session

ROUNDS = 8


def fetch(session: Session, number: int) -> Any:
    return session.call("GET", {"n": number}, lambda: f"answer {number}", capability="net.fetch")


def workers(session: Session) -> list[Any]:
    """Four threads that take from one queue, as they come."""
    work: queue.Queue[int | None] = queue.Queue()
    done: queue.Queue[Any] = queue.Queue()

    def loop(name: int) -> None:
        while (number := work.get()) is not None:
            done.put((name, number, fetch(session, number)))

    threads = [threading.Thread(target=loop, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for number in range(12):
        work.put(number)
    for _ in threads:
        work.put(None)
    found = [done.get() for _ in range(12)]
    for thread in threads:
        thread.join()
    return found


def barrier(session: Session) -> list[Any]:
    """Four threads that go on together, and write into one list."""
    said: list[Any] = []
    together = threading.Barrier(4)

    def loop(name: int) -> None:
        for turn in range(3):
            together.wait()
            said.append((name, turn, fetch(session, name)))

    threads = [threading.Thread(target=loop, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def started(session: Session) -> list[Any]:
    """Threads that begin at once with something that is shared."""
    said: list[Any] = []
    threads = [threading.Thread(target=said.append, args=(name,)) for name in range(20)]
    for thread in threads:
        thread.start()
    said.append("main")
    for thread in threads:
        thread.join()
    return said


def bounded(session: Session) -> list[Any]:
    """A producer that has to wait for its consumers."""
    line: queue.Queue[int] = queue.Queue(maxsize=2)
    taken: list[Any] = []

    def consume(name: int) -> None:
        for _ in range(5):
            taken.append((name, fetch(session, line.get())))

    threads = [threading.Thread(target=consume, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for number in range(15):
        line.put(number)
    for thread in threads:
        thread.join()
    return taken


@pytest.mark.parametrize("program", [workers, barrier, started, bounded])
def test_who_goes_first_is_the_same_in_every_replay(program: Any, tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        recorded = program(session)
    for _ in range(ROUNDS):
        with reenact.session(capture=tmp_path / "c", mode="replay", strict=True) as session:
            assert program(session) == recorded


def test_who_was_started_begins_when_who_started_it_is_at_rest(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        assert started(session) == ["main", *range(20)]


# Rest itself


def rest() -> Quiescence:
    found = Quiescence(threading.RLock(), grace=3600)
    found.give(threading.get_ident())
    return found


def test_who_is_woken_by_somebody_busy_waits_for_its_turn() -> None:
    resting = rest()
    first, second = resting.wake(1), resting.wake(2)
    assert not resting.holds_for(threading.get_ident())
    assert not resting.remove(threading.get_ident())
    first.wait()
    assert not resting.holds_for(2)
    assert not resting.remove(1)
    second.wait()
    assert resting.remove(2)
    assert resting.is_complete()


def test_who_is_woken_from_outside_goes_on_at_once() -> None:
    resting = rest()
    resting.remove(threading.get_ident())
    resting.wake(1).wait()
    assert not resting.is_complete()
    assert resting.remove(1)


def test_who_will_not_go_on_is_passed_over() -> None:
    resting = rest()
    resting.wake(1)
    second = resting.wake(2)
    resting.drop(1)
    resting.remove(threading.get_ident())
    second.wait()
    assert resting.remove(2)


def test_at_the_end_everybody_goes_on() -> None:
    resting = rest()
    turns = [resting.wake(one) for one in (1, 2, 3)]
    resting.free()
    for turn in turns:
        turn.wait()
    assert resting.holds_for(threading.get_ident())


def test_somebody_who_never_comes_to_rest_is_not_waited_for() -> None:
    resting = Quiescence(threading.RLock(), grace=0.005)
    resting.give(threading.get_ident())  # and computes on
    resting.wake(1).wait()
    assert not resting.remove(threading.get_ident())
    assert resting.remove(1)
