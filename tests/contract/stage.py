"""A program is run as it is, recorded, and replayed: the three must tell the same story."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, Session
from reenact.engine.divergence.model import Divergence
from reenact.format.event import Event
from tests.contract.server import Asked, Server

__all__ = ["Stage", "Story", "outcome"]

Program = Callable[[], Any]
Story = list[tuple[str, ...]]
"""Exceptions: the class and the text of each and what programs look at, and then of its cause."""

_ADDRESS = re.compile(r"0x[0-9a-f]+")


def outcome(body: Program) -> Any:
    """What ``body`` returns, or the story of what it raises."""
    try:
        return body()
    except Exception as error:
        return _story(error)


def _story(error: BaseException | None) -> Story:
    told = []
    while error is not None:
        kind = type(error)
        told.append((f"{kind.__module__}.{kind.__qualname__}", str(error), *_facts(error)))
        error = error.__cause__
    return told


def _facts(error: BaseException) -> tuple[str, ...]:
    """What programs look at, beside the class and the text."""
    return repr(getattr(error, "errno", None)), repr(_url(error))


def _url(error: BaseException) -> str | None:
    """What the failed request was about, where the library says so."""
    try:
        return str(error.request.url)  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):
        return None


def shape(result: Any) -> Any:
    """``result`` without what differs from run to run: where an object lies in memory."""
    if isinstance(result, str):
        return _ADDRESS.sub("0x…", result)
    if isinstance(result, (list, tuple)):
        return [shape(one) for one in result]
    return result


def _same(one: Any, other: Any, name: str, other_name: str) -> None:
    assert one == other, f"{name}: {_cut(one)}\n{other_name}: {_cut(other)}"


def _cut(result: Any) -> str:
    return f"{result!r}"[:2000]


class Stage:
    """A server, and a place for recordings of what a program asks it."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.warnings: list[str] = []
        self._asked: list[Asked] = []

    @property
    def url(self) -> str:
        return self.server.url

    def session(self, mode: str, name: str = "run", **options: Any) -> Session:
        given = {"strict": True, "warn": self.warnings.append, **options}
        return reenact.session(capture=self.folder / name, mode=mode, **given)

    def plain(self, program: Program) -> Any:
        """What happens without us."""
        self.server.begin_act()
        return program()

    def record(self, program: Program, name: str = "run", **options: Any) -> Any:
        """What happens while we look on. The server gives the same answers as before."""
        self.server.begin_act()
        with self.session("record", name, **options):
            result = program()
        self._asked = list(self.server.journal)
        return result

    def replay(self, program: Program, name: str = "run", **options: Any) -> Any:
        """What happens from the recording. The server is there, and nobody comes."""
        self.server.begin_act()
        connections = self.server.connections
        with self.session("replay", name, **options) as session:
            result = program()
        assert self.server.connections == connections
        assert session.divergences() == []
        return result

    def diverges(self, program: Program, **options: Any) -> tuple[Divergence, str]:
        """The divergence with which ``program`` ends, and its text. Nobody comes to the server."""
        connections = self.server.connections
        with pytest.raises(DivergenceError) as caught, self.session("replay", **options):
            program()
        assert self.server.connections == connections
        found = caught.value.divergence
        assert isinstance(found, Divergence)
        return found, str(caught.value)

    def check(self, program: Program, *, reached: bool = True) -> Any:
        """Run it three times; what the recorded run gave. Has the server heard of it?"""
        plain = self.plain(program)
        recorded = self.record(program)
        _same(shape(recorded), shape(plain), "recorded", "plain")
        if reached:
            self._check_calls()
        _same(self.replay(program), recorded, "replayed", "recorded")
        assert self.warnings == []
        return recorded

    def check_unsorted(self, program: Program, key: Callable[[Any], Any]) -> Any:
        """The same for a program whose results come in any order, but once recorded in that."""
        plain = self.plain(program)
        recorded = self.record(program)
        _same(sorted(map(key, recorded)), sorted(map(key, plain)), "recorded", "plain")
        self._check_calls()
        for _ in range(2):
            _same(self.replay(program), recorded, "replayed", "recorded")
        return recorded

    def _check_calls(self) -> None:
        """Every request was recorded, and none of them twice. An answer that is not read to its
        end may end after the next one."""
        recorded = sorted(event.data["request"]["method"] for event in self.calls())
        _same(recorded, sorted(asked.method for asked in self._asked), "recorded", "asked")

    def calls(self, name: str = "run") -> list[Event]:
        """What was recorded of the network, each call where its answer had come to an end; of model
        calls the question."""
        with reenact.open_recording(self.folder / name) as source:
            return [event for event in source if _is_call(event)]


def _is_call(event: Event) -> bool:
    return event.type == "llm_request" or event.data.get("source") == "network"
