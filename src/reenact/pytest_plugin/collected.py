"""What is done with the tests that were found, before the first of them runs."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from reenact.pytest_plugin.asking import FIXTURE, has_fixtures, is_asked_for, wanted_of
from reenact.pytest_plugin.stage import let_go

__all__ = ["SHARERS", "pytest_collection_modifyitems", "pytest_runtestloop"]

SHARERS: pytest.StashKey[dict[str, list[str]]] = pytest.StashKey()
"""The tests that have named each cassette, by its path."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that have a cassette get the fixture of it, before their own."""
    asking = [item for item in items if is_asked_for(item)]
    if not asking:
        return
    from reenact.pytest_plugin.marking import scope_of
    from reenact.pytest_plugin.sharing import named_by

    config.stash[SHARERS] = named_by(asking)
    for item in asking:
        wanted_of(item), scope_of(item)  # what makes no sense is told before anything runs
        if has_fixtures(item):
            _put_first(item)


def _put_first(item: Any) -> None:
    """The session opens before the test's own fixtures and closes after them. Those of a class, a
    module or the whole run come before it."""
    names: list[str] = item.fixturenames
    if FIXTURE in names:
        names.remove(FIXTURE)
    names.insert(_first_of_the_test(item, names), FIXTURE)


def _first_of_the_test(item: Any, names: list[str]) -> int:
    known = item._fixtureinfo.name2fixturedefs
    for index, name in enumerate(names):
        found = known.get(name)
        if not found or found[-1].scope == "function":
            return index
    return len(names)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Whoever has started a server is known while tests run."""
    if SHARERS not in session.config.stash:
        return (yield)
    from reenact.pytest_plugin.servers import noticing_servers

    with noticing_servers():
        try:
            return (yield)
        finally:
            let_go(session.config)
