"""The scheduler: deliveries in the recorded order, one at a time; stalls found, never a hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reenact.engine.scheduling.delivery_order import Delivery, DeliveryOrder, DeliveryToken
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.scheduling.waiters import Waiter

LONG = 100_000
ASK: Any = object()


class Hall:
    """A scheduler over a list of tokens, and what it said about stalls."""

    def __init__(
        self,
        *tokens: DeliveryToken,
        strict: bool = True,
        grace: float = LONG,
        patience: float = LONG,
    ) -> None:
        rest = iter(enumerate(tokens, 1))

        def read_on() -> bool:
            found = next(rest, None)
            if found is not None:
                seq, token = found
                self.order.add(token, "0", seq)
            return found is not None

        self.order = DeliveryOrder(read_on, lambda lane: False)
        self.order.head()
        self.strict = strict
        self.stalls: list[tuple[DeliveryToken | None, DeliveryToken | None]] = []
        self.lock = threading.RLock()
        self.scheduler = Scheduler(
            self.lock, self.order, self._stalled, grace=grace, patience=patience
        )
        self.scheduler.threads.strangers.clear()  # threads that other tests have left behind
        self.told: list[Any] = []

    def _stalled(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None:
        token = None if head is None else head.token
        self.stalls.append((token, None if waiter is None else waiter.token))
        return ValueError("stalled") if self.strict or head is None else None

    def read(self) -> None:
        """Everything that is ahead is known, as a look for answers makes it."""
        while self.order._read_on():
            pass

    def go(self, *tokens: DeliveryToken | None) -> threading.Thread:
        """A thread of the session that waits for ``tokens``, one after the other."""
        job = object()
        self.scheduler.job_waits(job)

        def work() -> None:
            self.scheduler.job_begins(job)
            for token in tokens:
                self.scheduler.arrive(threading.get_ident())
                waiter = Waiter(token, "0", threading.get_ident(), describe=lambda: ASK)
                try:
                    self.scheduler.wait(waiter)
                    self.told.append(token)
                except ValueError as error:
                    self.told.append(str(error))
            self.scheduler.job_ends()

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def leave(self) -> None:
        """This thread, which opened the session, does nothing any more."""
        self.scheduler.threads.end()
        self.scheduler.arrive(threading.get_ident())


def _join(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join()


def test_threads_are_served_in_the_recorded_order() -> None:
    hall = Hall(1, 2, 3, 4, 5, 6)
    hall.read()
    threads = [
        hall.go(
            6,
        ),
        hall.go(2, 5),
        hall.go(3, 4),
        hall.go(1),
    ]
    hall.leave()
    _join(*threads)
    assert hall.told == [1, 2, 3, 4, 5, 6]
    assert hall.stalls == []


def test_no_delivery_while_somebody_is_busy_with_the_last_one() -> None:
    """This thread opened the session, and has not come to its first call."""
    hall = Hall(1, 2)
    hall.read()
    threads = [hall.go(1), hall.go(2)]
    with hall.lock:
        assert not hall.scheduler.holds_for(-1)
    assert hall.told == []
    hall.leave()
    _join(*threads)
    assert hall.told == [1, 2]


def test_a_turn_that_is_now_is_taken_at_once() -> None:
    hall = Hall(1, ("0", "timer:1"), 2)
    hall.read()
    me = threading.get_ident()
    with hall.lock:
        assert not hall.scheduler.try_now(me, 2)
        assert hall.scheduler.try_now(me, 1)
        assert not hall.scheduler.try_now(me, ("0", "timer:2"))
        assert hall.scheduler.try_now(me, ("0", "timer:1"))
        assert not hall.scheduler.try_now(me, None)
        assert hall.scheduler.try_now(me, 2)
        assert hall.scheduler.is_exhausted()


def test_what_the_order_has_gone_past_is_served_first() -> None:
    hall = Hall(1, 2)
    hall.read()
    hall.scheduler.skip(1)
    threads = [hall.go(1), hall.go(2)]
    hall.leave()
    _join(*threads)
    assert sorted(hall.told) == [1, 2]
    assert hall.stalls == []


def test_the_order_goes_on_without_what_is_skipped() -> None:
    hall = Hall(("0", "chunk:0:1"), 1)
    hall.read()
    thread = hall.go(1)
    hall.scheduler.skip(("0", "chunk:0:1"))
    hall.leave()
    _join(thread)
    assert hall.told == [1]
    assert hall.stalls == []


# Stalls


def test_when_every_thread_waits_the_stall_is_found_at_once() -> None:
    hall = Hall(1, 2, 3)
    hall.read()
    threads = [hall.go(3), hall.go(2)]
    hall.leave()
    _join(*threads)
    assert hall.told[0] == "stalled"
    assert hall.stalls[0] == (1, 2)  # nobody asks for 1; of those who wait, 2 is the first


def test_a_lenient_session_drops_the_head_and_goes_on() -> None:
    hall = Hall(1, 2, 3, strict=False)
    hall.read()
    threads = [hall.go(3), hall.go(2)]
    hall.leave()
    _join(*threads)
    assert hall.told == [2, 3]
    assert hall.stalls == [(1, 2)]


def test_who_asks_for_what_was_dropped_gets_it_late() -> None:
    token = ("0", "chunk:0:0")
    hall = Hall(token, 2, strict=False)
    hall.read()
    thread = hall.go(2, token)
    hall.leave()
    _join(thread)
    assert hall.told == [2, token]
    assert hall.stalls == [(token, 2)]


def test_a_call_that_is_never_answered_is_a_stall_when_nothing_else_can_happen() -> None:
    hall = Hall()
    thread = hall.go(None)
    hall.leave()
    _join(thread)
    assert hall.told == ["stalled"]
    assert hall.stalls == [(None, None)]


def test_while_a_thread_is_on_its_way_there_is_no_stall() -> None:
    hall = Hall(1, 2)
    hall.read()
    thread = hall.go(2)
    job = object()
    hall.scheduler.job_waits(job)
    hall.leave()
    assert hall.stalls == []
    hall.scheduler.job_dropped(job)
    _join(thread)
    assert hall.stalls == [(1, 2)]


def test_with_patience_a_stall_is_found_although_a_thread_may_still_ask() -> None:
    hall = Hall(1, 2, patience=0.05)
    hall.read()
    thread = hall.go(2)
    hall.scheduler.arrive(threading.get_ident())  # at rest, but not gone
    _join(thread)
    assert hall.stalls == [(1, 2)]


@pytest.mark.parametrize("busy", ["activity", "cpu"])
def test_progress_of_any_kind_is_no_quiet(busy: str) -> None:
    hall = Hall()
    now = hall.scheduler.progress()
    before = now._replace(at=now.at - 1_000)
    assert hall.scheduler.is_quiet_since(before)
    if busy == "activity":
        hall.scheduler.awaken(1)
    else:
        before = before._replace(cpu=now.cpu - 100)
    assert not hall.scheduler.is_quiet_since(before)


def test_timers_go_by_the_clock_at_the_end() -> None:
    hall = Hall(1)
    hall.read()
    freed: list[str] = []
    loop_scheduler: Any = _Loop()
    waiter = Waiter(
        ("0", "timer:1"), "0", loop_scheduler, fire=lambda: True, real=lambda: freed.append("timer")
    )
    with hall.lock:
        hall.scheduler.expect(waiter)
    thread = hall.go(1)
    assert freed == []
    hall.leave()
    _join(thread)
    assert hall.told == [1]
    assert freed == ["timer"]


class _Loop:
    """A loop_scheduler whose loop belongs to another thread."""

    ident = -1

    def __init__(self) -> None:
        self.acts: list[Callable[..., Any]] = []
        self.loop = self

    def is_running(self) -> bool:
        return True

    def post_from_anywhere(self) -> None:
        self.acts.append(self.post_from_anywhere)

    def run_in_loop(self, act: Callable[..., Any]) -> None:
        self.acts.append(act)


def test_a_stall_is_raised_in_the_loops_own_thread() -> None:
    """Its future must not be touched from here."""
    hall = Hall(1, 2)
    hall.read()
    loop_scheduler: Any = _Loop()
    fired: list[int] = []

    def fire() -> bool:
        fired.append(2)
        return True

    waiter = Waiter(2, "0", loop_scheduler, fire=fire, describe=lambda: ASK)
    with hall.lock:
        hall.scheduler.expect(waiter)
        hall.scheduler.stall()
    assert isinstance(waiter.error, ValueError)
    assert fired == []
    loop_scheduler.acts.pop()()
    assert fired == [2]
    assert not hall.scheduler.has_waiters()


# The end


def test_who_still_waits_at_the_end_is_told() -> None:
    hall = Hall(1, 2)
    hall.read()
    thread = hall.go(2)
    while not hall.scheduler.has_waiters():
        pass  # until it waits
    with hall.lock:
        hall.scheduler.close(lambda: ValueError("closed"))
    _join(thread)
    assert hall.told == ["closed"]
    assert not hall.scheduler.has_waiters()


def test_after_a_fork_nobody_waits() -> None:
    hall = Hall(1, 2)
    hall.read()
    never = Waiter(None, "0", -1)
    with hall.lock:
        hall.scheduler.expect(never)
        hall.scheduler.expect(Waiter(2, "0", -1))
        hall.scheduler.after_fork()
    assert not hall.scheduler.has_waiters()
    assert hall.scheduler.quiescence.is_complete()


# Recording


def test_while_recording_deliveries_come_one_at_a_time() -> None:
    """Each thread writes, and then says what it saw before the next one may write."""
    lock = threading.RLock()
    scheduler = Scheduler(lock, None, lambda head, waiter: None, grace=LONG)
    log: list[str] = []

    def work(name: str, job: object) -> None:
        scheduler.job_begins(job)
        for step in range(20):
            scheduler.arrive(threading.get_ident())
            scheduler.hand_over(threading.get_ident(), partial(log.append, f"{name}{step}"))
            log.append(f"{name}{step}")
        scheduler.job_ends()

    jobs = {name: object() for name in "abcd"}
    for job in jobs.values():
        scheduler.job_waits(job)
    threads = [threading.Thread(target=work, args=item) for item in jobs.items()]
    for thread in threads:
        thread.start()
    scheduler.arrive(threading.get_ident())
    _join(*threads)
    assert log[0::2] == log[1::2]
    assert len(log) == 160
