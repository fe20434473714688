"""Which tests have one cassette together."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reenact.errors import UsageError
from reenact.pytest_plugin.asking import wanted_of
from reenact.pytest_plugin.marking import scope_of
from reenact.pytest_plugin.placing import place_of

__all__ = ["check_alone", "key_of", "named_by"]


def key_of(item: pytest.Item) -> str:
    """The same for two tests that would write one file, on any file system."""
    return str(place_of(item, wanted_of(item), writing=True)).casefold()


def named_by(items: Iterable[pytest.Item]) -> dict[str, list[str]]:
    """The tests by the cassette that they name. What has none that can be is told when it runs."""
    found: dict[str, list[str]] = {}
    for item in items:
        if scope_of(item) == "function":
            try:
                found.setdefault(key_of(item), []).append(item.nodeid)
            except UsageError:
                continue
    return found


def check_alone(item: pytest.Item, sharers: dict[str, list[str]]) -> None:
    """Nobody else writes this test's cassette. Any number of tests may replay it."""
    others = [one for one in sharers.get(key_of(item), ()) if one != item.nodeid]
    if scope_of(item) == "function" and others:
        raise UsageError(
            f"{item.nodeid} and {others[0]} name one cassette, and each would write its own "
            "recording to it",
            hint="leave cassette= out, so that each has its own; or say scope='class' or "
            "scope='module', and each has its own part of one",
        )
