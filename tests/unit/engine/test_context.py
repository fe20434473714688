"""Which session is in force: the innermost here, else the process's, unless one is outside."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from reenact.engine.session import context as module
from reenact.engine.session.context import (
    OUTSIDE,
    enter_session,
    leave_session,
    set_process_session,
)
from reenact.engine.session.current import current, session_in_context


class _Session:
    """As much of a session as a hand-over between threads asks for."""

    settings = SimpleNamespace(whole_process=True)


A: Any = _Session()
B: Any = _Session()


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    assert set_process_session(None) is None
    assert current() is None


def test_nothing_is_in_force_at_first() -> None:
    assert current() is None


def test_the_innermost_is_in_force_and_the_outer_one_comes_back() -> None:
    outer = enter_session(A)
    inner = enter_session(B)
    assert current() is B
    leave_session(inner)
    assert current() is A
    leave_session(outer)


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
        token = enter_session(B)
        assert current() is B
        leave_session(token)
    finally:
        assert set_process_session(None) is A


def test_outside_there_is_none_whatever_the_process_has() -> None:
    set_process_session(A)
    token = enter_session(OUTSIDE)
    try:
        assert current() is None
    finally:
        leave_session(token)
        set_process_session(None)


@pytest.mark.parametrize("process", [None, A])
def test_a_context_is_looked_into_without_entering_it(process: Any) -> None:
    before = contextvars.copy_context()
    tokens = {}
    for value in (A, OUTSIDE):
        tokens[value] = enter_session(value)
        within = contextvars.copy_context()
        assert session_in_context(within) is (None if value is OUTSIDE else value)
        leave_session(tokens[value])
    set_process_session(process)
    try:
        assert session_in_context(before) is process
    finally:
        set_process_session(None)


def test_outside_says_what_it_is() -> None:
    assert repr(OUTSIDE) == "<outside any session>"
    assert module.VARIABLE.name == "reenact"
