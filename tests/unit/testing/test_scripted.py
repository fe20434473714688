"""The other side of a boundary, with its answers written down."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from reenact.testing import Scripted


def test_answers_come_in_order_and_what_was_asked_is_kept() -> None:
    live = Scripted("a", None, [1])
    assert [live(1), live(x=2), live()] == ["a", None, [1]]
    assert [(one.args, one.kwargs) for one in live.asked] == [((1,), {}), ((), {"x": 2}), ((), {})]
    assert live.left == 0
    live.check()


def test_exceptions_are_raised_classes_too() -> None:
    live = Scripted(ValueError("no"), KeyError, "yes")
    with pytest.raises(ValueError, match="no"):
        live()
    with pytest.raises(KeyError):
        live()
    assert live() == "yes"


def test_a_class_that_is_no_exception_is_an_answer() -> None:
    assert Scripted(int)() is int


def test_coroutines_get_the_same_answers() -> None:
    live = Scripted(1, OSError("gone"))

    async def main() -> int:
        first: int = await live.aio("x")
        with pytest.raises(OSError, match="gone"):
            await live.aio()
        return first

    assert asyncio.run(main()) == 1
    assert live.asked[0].args == ("x",)


def test_being_asked_too_often_fails_at_once_and_again_at_the_end() -> None:
    live = Scripted("only", name="the weather service")
    live()
    with pytest.raises(AssertionError, match="the weather service has 1 answers and was asked 2"):
        live("again")
    with pytest.raises(AssertionError, match="again"):
        live.check()


def test_answers_that_are_left_fail_at_the_end() -> None:
    live = Scripted(1, 2, 3)
    live()
    with pytest.raises(AssertionError, match="2 of 3 answers left"):
        live.check()
    with pytest.raises(AssertionError, match="1 of 1 answers left"), Scripted(1):
        pass


def test_it_does_not_hide_what_the_body_raised() -> None:
    with pytest.raises(ZeroDivisionError), Scripted(1):
        raise ZeroDivisionError


def test_threads_get_one_answer_each() -> None:
    with Scripted(*range(200)) as live, ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: live(), range(200)))
    assert sorted(got) == list(range(200))
