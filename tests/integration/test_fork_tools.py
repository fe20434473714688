"""Forking a run at a tool, with other arguments or another result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import reenact


@dataclass
class Place:
    city: str


class Tools:
    """Four kinds of one tool; ``made`` are the calls that were really made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    @reenact.tool
    def look(self, place: Place) -> str:
        """Look it up."""
        self.made.append(place.city)
        return f"seen {place.city}"

    @reenact.tool
    async def look_async(self, place: Place) -> str:
        """The same in a task."""
        return self.look.function(place)

    @reenact.tool
    def look_on(self, place: Place) -> Iterator[str]:
        """The same piece by piece."""
        yield "looking"
        yield self.look.function(place)


def _whole(tools: Tools) -> list[Any]:
    return [tools.look(Place(city)) for city in ("Bern", "Rome")]


def _in_tasks(tools: Tools) -> list[Any]:
    async def main() -> list[Any]:
        return [await tools.look_async(Place(city)) for city in ("Bern", "Rome")]

    return asyncio.run(main())


def _in_pieces(tools: Tools) -> list[Any]:
    return [list(tools.look_on(Place(city)))[-1] for city in ("Bern", "Rome")]


PROGRAMS = {"whole": _whole, "tasks": _in_tasks, "pieces": _in_pieces}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_tool_is_called_with_other_arguments(
    program: Callable[[Tools], list[Any]], tmp_path: Path
) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    with reenact.session(capture=run, mode="record"):
        assert program(Tools()) == ["seen Bern", "seen Rome"]
    forked = Tools()
    at = reenact.At("tool:2", set={"$.args.place.city": "Oslo"})
    with reenact.session(capture=run, fork=at, into=fork):
        assert program(forked) == ["seen Bern", "seen Oslo"]
    assert forked.made == ["Oslo"]
    again = Tools()
    with reenact.session(capture=fork, mode="replay", strict=True):
        assert program(again) == ["seen Bern", "seen Oslo"]
    assert again.made == []
    with reenact.open_recording(fork) as source:
        asked = [event.data for event in source if event.type == "tool_call"][-1]
    assert asked["args"] == {"place": {"city": "Rome"}}
    assert asked["sent"] == {"place": {"city": "Oslo"}}
    assert asked["changed"] == ["$.args.place.city"]


def test_a_tool_is_given_another_result(tmp_path: Path) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    with reenact.session(capture=run, mode="record"):
        _whole(Tools())
    forked = Tools()
    at = reenact.At("tool:1", set={"$.result": "seen nothing"})
    with reenact.session(capture=run, fork=at, into=fork):
        assert _whole(forked) == ["seen nothing", "seen Rome"]
    assert forked.made == ["Rome"]
