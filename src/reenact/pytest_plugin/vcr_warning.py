"""Saying what is not honoured: once, by name."""

from __future__ import annotations

import pytest

__all__ = ["VcrWarning", "warn_once"]

_SAID = pytest.StashKey[set[str]]()


class VcrWarning(pytest.PytestWarning):
    """Something that was said to vcrpy means nothing to Reenact."""


def warn_once(item: pytest.Item, name: str, why: str) -> None:
    """Warn that ``name`` is not honoured, the first time that a test of this run says it."""
    said = item.config.stash.setdefault(_SAID, set())
    if name not in said:
        said.add(name)
        item.warn(VcrWarning(f"{name} is not honoured by reenact_vcr: {why}"))
