"""``@reenact.boundary`` on functions of every kind."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import reenact
from reenact import CapabilityDenied, Policy, Session, ValueRefused
from reenact.policy.model import CapabilityRule
from tests.unit.engine.stage import Stage


class World:
    """Answers with a number that is never the same."""

    def __init__(self) -> None:
        self.number = 0

    def next(self) -> int:
        self.number += 1
        return self.number


WORLD = World()


@reenact.boundary
def plain(a: int, b: int = 2, *rest: int, flag: bool = False, **more: Any) -> Any:
    """A function."""
    return [a, b, list(rest), flag, more, WORLD.next()]


@reenact.boundary
async def coroutine(a: int) -> Any:
    await asyncio.sleep(0)
    return [a, WORLD.next()]


@reenact.boundary(capability="net.stream")
def generator(count: int) -> Iterator[int]:
    for _ in range(count):
        yield WORLD.next()


@reenact.boundary(capability="net.stream")
async def async_generator(count: int) -> AsyncIterator[int]:
    for _ in range(count):
        await asyncio.sleep(0)
        yield WORLD.next()


@reenact.boundary(capability="process.exec", operation="sh", source="shell")
def named(command: str) -> int:
    return WORLD.next()


@reenact.boundary(capability="tool.call")
def tool(number: int) -> Any:
    return [plain(number), WORLD.next()]


async def _collect(count: int) -> list[int]:
    return [number async for number in async_generator(count)]


def _all_kinds(session: Session) -> Any:
    return [
        plain(1),
        asyncio.run(coroutine(2)),
        list(generator(3)),
        asyncio.run(_collect(2)),
        named("ls"),
        tool(4),
    ]


def test_every_kind_of_function_is_recorded_and_re_enacted() -> None:
    stage = Stage()
    before = WORLD.number
    made = stage.record(_all_kinds)
    asked = WORLD.number
    assert asked == before + 10
    assert stage.replay(_all_kinds) == made
    assert WORLD.number == asked


def test_a_wrapped_function_looks_like_the_function() -> None:
    assert plain.__name__ == "plain"
    assert plain.__doc__ == "A function."
    assert list(inspect.signature(plain).parameters) == ["a", "b", "rest", "flag", "more"]
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgenerator(generator(0))
    assert inspect.isasyncgen(async_generator(0))


def test_without_a_session_it_is_the_function() -> None:
    shared = object()

    @reenact.boundary
    def give(x: object) -> object:
        return x

    assert give(shared) is shared
    with reenact.session(mode="off"):
        assert give(shared) is shared


def test_arguments_are_compared_by_name_however_they_are_given() -> None:
    stage = Stage()
    stage.record(lambda _: [plain(1, 2, flag=False), plain(1, 5, 6, 7, flag=True, z=1, y=2)])
    assert stage.data()[0]["request"] == {"a": 1, "b": 2, "rest": [], "flag": False, "more": {}}
    stage.replay(lambda _: [plain(b=2, a=1), plain(1, 5, 6, 7, y=2, z=1, flag=True)])


def test_wrong_arguments_are_a_type_error_before_anything_is_recorded() -> None:
    stage = Stage()
    with stage.recording(), pytest.raises(TypeError):
        plain()  # type: ignore[call-arg]
    assert stage.data() == []


def test_the_operation_is_the_qualified_name_unless_it_is_stated() -> None:
    stage = Stage()

    class Client:
        @reenact.boundary
        def get(self) -> int:
            return 1

    def body(_: Session) -> None:
        plain(1)
        named("ls")
        with pytest.raises(ValueRefused):  # self is an argument, and no JSON value
            Client().get()

    stage.record(body)
    assert [data["op"] for data in stage.data()] == ["plain", "sh"]
    assert [data["source"] for data in stage.data()] == ["network", "shell"]


def test_a_method_that_is_bound_is_wrapped_without_its_self() -> None:
    stage, world = Stage(), World()
    ask = reenact.boundary(world.next)
    assert stage.both(lambda _: [ask(), ask()]) == [1, 2]
    assert stage.data()[0]["op"] == "World.next"


def test_what_a_boundary_does_inside_is_not_recorded_but_a_tool_has_a_lane() -> None:
    stage = Stage()

    @reenact.boundary
    def outer() -> Any:
        return plain(1)

    stage.both(lambda _: [outer(), tool(1)])
    kinds = [(event.type, event.lane) for event in stage.sink.events]
    assert kinds == [
        ("nondeterministic", "0"),
        ("tool_call", "0"),
        ("nondeterministic", "0.1"),
        ("tool_result", "0"),
    ]


def test_the_capability_is_what_policies_allow() -> None:
    policy = Policy(id="p", capabilities={"net.fetch": CapabilityRule()})
    stage = Stage(policy)

    def body(_: Session) -> Any:
        with pytest.raises(CapabilityDenied):
            list(generator(1))
        with pytest.raises(CapabilityDenied):
            named("ls")
        return plain(1)

    stage.both(body)


def test_exceptions_come_back() -> None:
    stage = Stage()

    @reenact.boundary
    def fails(kind: str) -> None:
        raise {"key": KeyError("k"), "os": OSError(2, "none", "file")}[kind]

    @reenact.boundary
    async def afails() -> None:
        raise ExceptionGroup("several", [ValueError(1)])

    def body(_: Session) -> Any:
        found: list[str] = []
        for call in (lambda: fails("key"), lambda: fails("os"), lambda: asyncio.run(afails())):
            with pytest.raises(Exception) as caught:
                call()
            found.append(repr(caught.value))
        return found

    assert stage.both(body) == [
        "KeyError('k')",
        "FileNotFoundError(2, 'none')",
        "ExceptionGroup('several', [ValueError(1)])",
    ]
