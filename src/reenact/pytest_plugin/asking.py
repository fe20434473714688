"""Who asks for a cassette: an item by itself, the marker, the fixture, a marker of another tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reenact.pytest_plugin import vcr

if TYPE_CHECKING:
    from reenact.pytest_plugin.wanted import Wanted

__all__ = ["FIXTURE", "has_fixtures", "is_asked_for", "wanted_of"]

FIXTURE = "reenact_session"


def has_fixtures(item: pytest.Item) -> bool:
    """Does pytest set up fixtures for it? Not for the items of other kinds of files."""
    return isinstance(item, pytest.Function)


def is_asked_for(item: pytest.Item) -> bool:
    """Has the test a cassette? Cheap: asked of every test there is."""
    if getattr(item, "reenact_wanted", None) is not None:
        return True
    if not has_fixtures(item):
        return False
    if item.get_closest_marker("reenact") is not None or FIXTURE in _names(item):
        return True
    return vcr.asks(item)


def _names(item: pytest.Item) -> list[str]:
    names: list[str] = getattr(item, "fixturenames", [])
    return names


def wanted_of(item: pytest.Item) -> Wanted:
    """What the test wants. Raises :class:`pytest.UsageError` for a marker that makes no sense."""
    from reenact.pytest_plugin.marking import marked
    from reenact.pytest_plugin.wanted import Wanted

    carried: Wanted | None = getattr(item, "reenact_wanted", None)
    return carried or marked(item) or vcr.wanted(item) or Wanted()
