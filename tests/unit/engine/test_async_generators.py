"""Asynchronous generators that are left half read: whose closing takes a lane, and whose does not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

Make = Callable[[list[Any]], AsyncGenerator[int, None]]

_SOURCE = """
from asyncio import sleep
from reenact.engine.session.current import current

async def count(closed):
    try:
        yield 1
        yield 2
    finally:
        await sleep(0)
        closed.append(current())
"""


def _written_in(module: str) -> Make:
    """A generator function of ``module``; it says in which session it was closed."""
    names: dict[str, Any] = {"__name__": module}
    exec(_SOURCE, names)
    made: Make = names["count"]
    return made


OURS = _written_in("my_program.agent")
LIBRARIES = ["httpx._models", "httpcore._async.connection_pool", "aiohttp.streams", "anyio"]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with reenact.session(capture=tmp_path / "c", mode="record", seal=False) as session:
        yield session


async def _drop_half_read(make: Make) -> list[Any]:
    """Read one item and forget the generator; the session in which it was closed."""
    closed: list[Any] = []
    generator = make(closed)
    assert await anext(generator) == 1
    del generator
    gc.collect()
    while not closed:
        await asyncio.sleep(0)
    return closed


@pytest.mark.parametrize("module", LIBRARIES)
def test_closing_what_a_library_left_half_read_takes_no_lane(module: str, session: Session) -> None:
    assert asyncio.run(_drop_half_read(_written_in(module))) == [None]
    assert session.lanes.root.spawned == 0


@pytest.mark.parametrize("module", ["my_program.agent", "httpx_tools", "__main__"])
def test_closing_what_the_program_left_half_read_is_numbered_apart(
    module: str, session: Session
) -> None:
    assert asyncio.run(_drop_half_read(_written_in(module))) == [session]
    assert session.lanes.root.spawned == 0


def test_a_task_that_comes_after_a_forgotten_generator_keeps_its_number(session: Session) -> None:
    async def lane() -> str:
        return session.lanes.current().name

    async def program(module: str | None) -> str:
        if module is not None:
            await _drop_half_read(_written_in(module))
        return await asyncio.create_task(lane())

    assert asyncio.run(program(None)) == "0.1"
    assert asyncio.run(program("httpcore")) == "0.2"
    assert asyncio.run(program("my_program")) == "0.3"


# At the end of the loop


def _leave_open(*makes: Make, read_to_end: bool = False) -> list[Any]:
    """A program that ends with its generators half read; the sessions they were closed in."""
    closed: list[Any] = []
    kept: list[Any] = []

    async def program() -> None:
        for make in makes:
            generator = make(closed)
            kept.append(generator)
            await anext(generator)
            if read_to_end:
                assert [item async for item in generator] == [2]

    asyncio.run(program())
    return closed


def test_at_its_end_a_loop_closes_what_libraries_left_open_in_no_session(session: Session) -> None:
    assert _leave_open(*map(_written_in, LIBRARIES)) == [None] * len(LIBRARIES)
    assert session.lanes.root.spawned == 0


def test_at_its_end_a_loop_closes_what_the_program_left_open_in_its_session(
    session: Session,
) -> None:
    assert _leave_open(OURS, OURS) == [session, session]
    assert session.lanes.root.spawned == 0


def test_the_programs_own_are_closed_first_and_all_are_closed(session: Session) -> None:
    assert _leave_open(_written_in("httpx"), OURS, _written_in("aiohttp")) == [session, None, None]
    assert session.lanes.root.spawned == 0


def test_what_has_run_to_its_end_needs_no_closing(session: Session) -> None:
    assert _leave_open(OURS, _written_in("httpx"), read_to_end=True) == [session, session]
    assert session.lanes.root.spawned == 0


def test_a_library_generator_that_fails_to_close_does_not_stop_the_others(
    session: Session,
) -> None:
    names: dict[str, Any] = {"__name__": "httpx.broken"}
    exec(
        "async def count(closed):\n  try:\n    yield 1\n  finally:\n    raise OSError('gone')",
        names,
    )
    closed: list[Any] = []
    kept: list[Any] = []
    said: list[Any] = []

    async def program() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        for make in (names["count"], _written_in("httpx")):
            kept.append(make(closed))
            await anext(kept[-1])

    asyncio.run(program())
    assert closed == [None]
    assert [str(context["exception"]) for context in said] == ["gone"]


def test_outside_a_session_nothing_is_different() -> None:
    assert current() is None
    assert _leave_open(OURS, _written_in("httpx")) == [None, None]
    assert asyncio.run(_drop_half_read(OURS)) == [None]
