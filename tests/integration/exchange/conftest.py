"""Agents that keep their exchanges in a folder, and a server that their apps call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.exchange import Agent
from tests.integration.exchange.apps import DECLARED, Upstream

MakeAgent = Callable[..., Agent]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.stop()


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[MakeAgent]:
    """Agents that are closed at the end. What they warn about fails the test."""
    made: list[Agent] = []
    said: list[str] = []

    def make(**how: Any) -> Agent:
        settings = {
            "app": "shop",
            "environment": "test",
            "data": tmp_path / "data",
            "drivers": DECLARED,
        }
        made.append(Agent(**{**settings, "warn": said.append, **how}))
        return made[-1]

    yield make
    for agent in made:
        agent.close()
    assert said == []


@pytest.fixture
def agent(make_agent: MakeAgent) -> Agent:
    return make_agent()
