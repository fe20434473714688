"""A world, and a project whose tests ask it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugin.project import Project
from tests.plugin.world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.stop()


@pytest.fixture
def project(pytester: pytest.Pytester, world: World, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in ("CI", "PYTEST_ADDOPTS", "REENACT_ROOT", "REENACT_WORLD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Project(pytester, world)
