"""Tests whose numbers come from pytest-randomly: with another seed in every run.

What is drawn from the shared generator is recorded. Those of faker and others are not: they are
seeded, and what they give is the program's own doing. For a test with a cassette the seed is always
the same one.
"""

from __future__ import annotations

import sys
from typing import Any, Final
from zlib import crc32

import pytest

__all__ = ["SEED", "seed_again", "seed_fixture", "seed_of"]

SEED: Final = "faker_seed"
"""The fixture with which pytest-randomly tells faker the seed of the run."""

_PLUGIN: Final = "pytest_randomly"


class _Seeded:
    """Stands for the configuration, of which nothing but the seed is asked."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def getoption(self, name: str) -> int:
        return self._seed


def seed_of(item: pytest.Item) -> int:
    """The seed of the test, in every run."""
    return crc32(item.nodeid.encode("utf-8", "surrogatepass"))


def seed_again(item: pytest.Item) -> None:
    """After pytest-randomly has seeded for a phase of the test, if it does."""
    module: Any = sys.modules.get(_PLUGIN)
    reseed = getattr(module, "_reseed", None)
    if reseed is None or not item.config.pluginmanager.is_registered(module):
        return
    if item.config.getoption("randomly_reset_seed", False):
        reseed(_Seeded(seed_of(item)))


def seed_fixture(fixture: Any, item: pytest.Item) -> bool:
    """Give the fixture of pytest-randomly, which has just been set up, the seed of the test."""
    if fixture.argname != SEED or fixture.func.__module__ != _PLUGIN:
        return False
    _, key, _ = fixture.cached_result
    fixture.cached_result = seed_of(item), key, None
    return True
