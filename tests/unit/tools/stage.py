"""Tools of every kind, what they ask of the world, and sessions in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import reenact
from reenact import Policy
from reenact.policy.model import BoundaryRule
from reenact.store.sinks.memory import MemorySource
from reenact.testing import memory_session
from reenact.tools.tool import tool

__all__ = ["AGAIN", "KINDS", "PASS", "WORLD", "World", "again", "events", "record", "replay"]


class World:
    """Answers with a number that is never the same."""

    def __init__(self) -> None:
        self.number = 0

    def next(self) -> int:
        self.number += 1
        return self.number


WORLD = World()

AGAIN = Policy(id="again", boundaries=(BoundaryRule(capability="tool.call", action="re-execute"),))
PASS = Policy(
    id="pass",
    boundaries=(BoundaryRule(capability="tool.call", action="pass"),),
    allow_passthrough=True,
)


@reenact.boundary
def ask(what: str) -> int:
    return WORLD.next()


@reenact.boundary
async def ask_later(what: str) -> int:
    await asyncio.sleep(0)
    return WORLD.next()


@tool
def function(what: str) -> list[int]:
    return [ask(what), ask(what)]


@tool
async def coroutine(what: str) -> list[int]:
    return [await ask_later(what), ask(what)]


@tool
def generator(what: str) -> Iterator[int]:
    for _ in range(3):
        yield ask(what)


@tool
async def async_generator(what: str) -> AsyncIterator[int]:
    for _ in range(3):
        yield await ask_later(what)


async def _collected(what: str) -> list[int]:
    return [item async for item in async_generator(what)]


KINDS: dict[str, Callable[[str], list[int]]] = {
    "function": function,
    "coroutine": lambda what: asyncio.run(coroutine(what)),
    "generator": lambda what: list(generator(what)),
    "async_generator": lambda what: asyncio.run(_collected(what)),
}


def record(body: Callable[[], Any], **given: Any) -> tuple[Any, MemorySource]:
    """What ``body`` gives, and what was recorded of it."""
    with memory_session(**given) as session:
        made = body()
    return made, session.recorded()


def replay(source: MemorySource, body: Callable[[], Any], **given: Any) -> Any:
    """What ``body`` gives in a replay in which nobody asks the world."""
    before = WORLD.number
    with memory_session(source, **given):
        made = body()
    assert WORLD.number == before, "the replay asked the world"
    return made


def again(source: MemorySource, body: Callable[[], Any], **given: Any) -> Any:
    """The same, and every tool runs again."""
    return replay(source, body, policy=AGAIN, **given)


def events(source: MemorySource, kind: str) -> list[dict[str, Any]]:
    """The data of all events of one type."""
    return [event.data for event in source if event.type == kind]
