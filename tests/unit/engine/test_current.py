"""Which session is in force: the innermost here, else the process's, unless one is outside."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from reenact.engine import current as module
from reenact.engine.current import OUTSIDE, current, enter, in_context, leave, set_process_session

A: Any = "session a"
B: Any = "session b"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    assert set_process_session(None) is None
    assert current() is None


def test_nothing_is_in_force_at_first() -> None:
    assert current() is None


def test_the_innermost_is_in_force_and_the_outer_one_comes_back() -> None:
    outer = enter(A)
    inner = enter(B)
    assert current() is B
    leave(inner)
    assert current() is A
    leave(outer)


def test_a_session_of_the_process_is_everywhere_else() -> None:
    seen: list[Any] = []
    go = threading.Event()

    def look() -> None:
        go.wait()
        seen.append(current())

    thread = threading.Thread(target=look)
    thread.start()
    set_process_session(A)
    try:
        go.set()
        thread.join()
        assert [current(), *seen] == [A, A]
        token = enter(B)
        assert current() is B
        leave(token)
    finally:
        assert set_process_session(None) is A


def test_outside_there_is_none_whatever_the_process_has() -> None:
    set_process_session(A)
    token = enter(OUTSIDE)
    try:
        assert current() is None
    finally:
        leave(token)
        set_process_session(None)


@pytest.mark.parametrize("process", [None, A])
def test_a_context_is_looked_into_without_entering_it(process: Any) -> None:
    before = contextvars.copy_context()
    tokens = {}
    for value in (A, OUTSIDE):
        tokens[value] = enter(value)
        within = contextvars.copy_context()
        assert in_context(within) is (None if value is OUTSIDE else value)
        leave(tokens[value])
    set_process_session(process)
    try:
        assert in_context(before) is process
    finally:
        set_process_session(None)


def test_outside_says_what_it_is() -> None:
    assert repr(OUTSIDE) == "<outside any session>"
    assert module.VARIABLE.name == "reenact"
