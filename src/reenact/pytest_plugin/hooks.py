"""pytest hooks that open, activate and close the session of a test."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from reenact.pytest_plugin.cassette_marker import (
    CASSETTE_TESTS,
    FIXTURE,
    has_fixtures,
    request_of,
    requests_cassette,
)
from reenact.pytest_plugin.item_session import (
    ITEM_SESSION,
    SEED,
    ItemSession,
    release_patches,
    seed_fixture,
    seed_of,
)

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_fixture_setup",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_runtestloop",
    "reenact_session",
    "surroundings_of",
]


@pytest.fixture
def reenact_session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield the open session of the test, which records or replays its calls."""
    item_session = ItemSession(request.node)
    request.node.stash[ITEM_SESSION] = item_session
    yield item_session.open()
    item_session.close()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Keep the session active during the set-up of the test, and suspend it afterwards.

    An item without fixtures gets its session here.
    """
    try:
        done = yield
        if not has_fixtures(item) and requests_cassette(item):
            _open_without_fixture(item)
        return done
    except BaseException as error:
        if (item_session := item.stash.get(ITEM_SESSION, None)) is not None:
            item_session.fail(error)
            if item_session.is_open:
                item.addfinalizer(item_session.resume)
        raise
    finally:
        if (
            item_session := item.stash.get(ITEM_SESSION, None)
        ) is not None and item_session.is_open:
            item_session.suspend()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Remove the patches after the test, unless the next test has a cassette."""
    try:
        return (yield)
    finally:
        if nextitem is None or not requests_cassette(nextitem):
            release_patches(item.config)


def _open_without_fixture(item: pytest.Item) -> None:
    """Open the session of an item that is not a Python function."""
    item_session = item.stash[ITEM_SESSION] = ItemSession(item)
    item.addfinalizer(item_session.close)
    item_session.open()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Set up shared fixtures outside the session of a test.

    The fixture ``faker_seed`` of pytest-randomly gets the seed of the test.
    """
    item: Any = getattr(request, "_pyfuncitem", None)
    item_session = None if item is None else item.stash.get(ITEM_SESSION, None)
    if item_session is None or not item_session.is_open:
        return (yield)
    if fixturedef.scope == "function":
        done = yield
        if fixturedef.argname == SEED and seed_fixture(fixturedef, item):
            return seed_of(item)
        return done
    from reenact.engine.session.context import OUTSIDE, VARIABLE

    before = VARIABLE.get()
    VARIABLE.set(OUTSIDE)
    try:
        return (yield)
    finally:
        VARIABLE.set(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a divergence in readable form, and add the result of the cassette to the report."""
    report = yield
    item_session = item.stash.get(ITEM_SESSION, None)
    if item_session is not None:
        from reenact.pytest_plugin.failure_report import report_facts, show_divergence

        if call.excinfo is not None:
            show_divergence(item_session, report, call.excinfo)
        if call.when == "teardown":
            report.reenact = report_facts(item_session)  # type: ignore[attr-defined]  # travels with the report
            del item.stash[ITEM_SESSION]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the session fixture to tests with a cassette, before their own fixtures.

    Invalid markers raise an error here.
    """
    asking = [item for item in items if requests_cassette(item)]
    if not asking:
        return
    from reenact.pytest_plugin.cassette import tests_by_cassette
    from reenact.pytest_plugin.cassette_marker import scope_of

    config.stash[CASSETTE_TESTS] = tests_by_cassette(asking)
    for item in asking:
        request_of(item), scope_of(item)  # report invalid markers before any test runs
        if has_fixtures(item):
            _put_first(item)


def _put_first(item: Any) -> None:
    """Insert the session fixture before the fixtures of the test.

    Fixtures of class, module or session scope come before it.
    """
    names: list[str] = item.fixturenames
    if FIXTURE in names:
        names.remove(FIXTURE)
    names.insert(_first_function_fixture(item, names), FIXTURE)


def _first_function_fixture(item: Any, names: list[str]) -> int:
    known = item._fixtureinfo.name2fixturedefs
    for index, name in enumerate(names):
        found = known.get(name)
        if not found or found[-1].scope == "function":
            return index
    return len(names)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Track the servers that tests start, and remove the patches after the last test."""
    if CASSETTE_TESTS not in session.config.stash:
        return (yield)
    from reenact.pytest_plugin.patches import noticing_servers

    with noticing_servers():
        try:
            return (yield)
        finally:
            release_patches(session.config)


_SETTING = "reenact_fixture_root"
_FIXTURES = "REENACT_FIXTURE_ROOT"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Set the environment variables of an item from before its set-up to its end."""
    with _environment(surroundings_of(item)):
        return (yield)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def surroundings_of(item: pytest.Item) -> Mapping[str, str]:
    """Return the environment variables of an item, including its fixture root.

    The fixture root comes from the item or else its marker. The setting applies if neither the item
    nor the environment has one.
    """
    carried: Mapping[str, str] = getattr(item, "reenact_surroundings", None) or {}
    mark = item.get_closest_marker("reenact")
    root = None if mark is None else mark.kwargs.get("fixture_root")
    if root is None and _FIXTURES not in os.environ and _FIXTURES not in carried:
        root = _setting(item.config)
    return {**_fixtures(item.config, str(root)), **carried} if root else carried


def _setting(config: pytest.Config) -> str:
    try:
        return str(config.getini(_SETTING) or "")
    except ValueError:  # undeclared
        return ""


def _fixtures(config: pytest.Config, root: str) -> dict[str, str]:
    """Return the variable of the fixture root.

    Its path is absolute, because a test can change the working directory. Opening the cassette
    reports an invalid path.
    """
    from reenact.errors import PathRefused
    from reenact.policy.paths import find_root, fixture_folder

    try:
        return {_FIXTURES: str(fixture_folder(find_root(config.rootpath, os.environ), root))}
    except PathRefused:
        return {_FIXTURES: root}
