"""A recording of one source alone: other calls are made, if the policy allows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact import boundary
from reenact.engine.session.session import Session
from reenact.engine.session.settings import resolve_settings
from reenact.errors import PolicyRefused
from reenact.policy.access import KNOWN
from reenact.policy.model import CapabilityRule, Policy
from reenact.store.reader import open_recording

KNOWN.register("weather.ask")
ALLOWED = {"net.fetch": CapabilityRule(), "tool.call": CapabilityRule()}
ALL = Policy(id="all", capabilities={**ALLOWED, "weather.ask": CapabilityRule()})
FEW = Policy(id="few", capabilities={"net.fetch": CapabilityRule()})
ONCE = Policy(id="once", capabilities={**ALLOWED, "tool.call": CapabilityRule(calls=1)})


def net_tape(path: Path, mode: str, policy: Policy = ALL) -> Session:
    return Session(
        resolve_settings(tape=path, mode=mode, policy=policy, strict=True, only="network")
    )


class World:
    """What the program calls, and how often it was really called."""

    def __init__(self) -> None:
        self.fetched = 0
        self.made = 0

    def tool(self, session: Session) -> Any:
        return session.call("look", {"n": 1}, lambda: self.work(session))

    def work(self, session: Session) -> str:
        self.made += 1
        return f"{self.fetch(session)}!"

    def fetch(self, session: Session) -> Any:
        return session.call("GET x", {"url": "x"}, self.answer, capability="net.fetch")

    def answer(self) -> str:
        self.fetched += 1
        return f"answer {self.fetched}"


def own_function(world: World, session: Session) -> Any:
    return boundary(capability="weather.ask")(lambda: world.work(session))()


def own_generator(world: World, session: Session) -> Any:
    @boundary(capability="weather.ask")
    def pieces() -> Iterator[str]:
        yield world.work(session)

    return list(pieces())


def own_coroutine(world: World, session: Session) -> Any:
    @boundary(capability="weather.ask")
    async def work() -> str:
        return world.work(session)

    return asyncio.run(work())


def own_async_generator(world: World, session: Session) -> Any:
    @boundary(capability="weather.ask")
    async def pieces() -> AsyncIterator[str]:
        yield world.work(session)

    async def main() -> list[str]:
        return [piece async for piece in pieces()]

    return asyncio.run(main())


@pytest.mark.parametrize(
    "run",
    [World.tool, own_function, own_generator, own_coroutine, own_async_generator],
    ids=["tool", "function", "generator", "coroutine", "async generator"],
)
def test_what_is_inside_of_another_call_is_recorded_and_served(run: Any, tmp_path: Path) -> None:
    world, path = World(), tmp_path / "net.jsonl"
    with net_tape(path, "record") as session:
        recorded = run(world, session)
    with open_recording(path) as source:
        assert [event.data["source"] for event in source] == ["network"]
    with net_tape(path, "replay") as session:
        assert run(world, session) == recorded
    assert (world.made, world.fetched) == (2, 1)


@pytest.mark.parametrize("mode", ["record", "replay"])
@pytest.mark.parametrize(
    "run", [World.tool, own_function, own_generator], ids=lambda one: one.__name__
)
def test_what_the_policy_denies_is_not_made(mode: str, run: Any, tmp_path: Path) -> None:
    world, path = World(), tmp_path / "net.jsonl"
    with net_tape(path, "record", FEW) as session:
        world.fetch(session)
        if mode == "record":
            with pytest.raises(PolicyRefused):
                run(world, session)
    if mode == "replay":
        with net_tape(path, "replay", FEW) as session:
            with pytest.raises(PolicyRefused):
                run(world, session)
            assert world.fetch(session) == "answer 1"
    assert (world.made, world.fetched) == (0, 1)
    with open_recording(path) as source:
        assert len(source) == 1


def test_calls_that_are_not_recorded_count_for_the_budget(tmp_path: Path) -> None:
    world = World()
    with net_tape(tmp_path / "net.jsonl", "record", ONCE) as session:
        world.tool(session)
        with pytest.raises(PolicyRefused, match=r"allows 1 calls of tool\.call"):
            world.tool(session)
    assert world.made == 1
