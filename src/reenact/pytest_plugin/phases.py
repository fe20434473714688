"""A test's phases, seen from its session."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from reenact.pytest_plugin.asking import has_fixtures, is_asked_for
from reenact.pytest_plugin.seeding import SEED, seed_fixture, seed_of
from reenact.pytest_plugin.stage import STAGE, Stage, let_go

__all__ = [
    "pytest_fixture_setup",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "reenact_session",
]


@pytest.fixture
def reenact_session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The open session of the test: what it exchanges with the world is recorded or replayed."""
    stage = Stage(request.node)
    request.node.stash[STAGE] = stage
    yield stage.open()
    stage.close()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """The session is in force while fixtures of the test are set up, and not before the test runs."""
    try:
        done = yield
        if not has_fixtures(item) and is_asked_for(item):
            _open_without_fixture(item)
        return done
    except BaseException as error:
        if (stage := item.stash.get(STAGE, None)) is not None:
            stage.fail(error)
            if stage.is_open:
                item.addfinalizer(stage.resume)
        raise
    finally:
        if (stage := item.stash.get(STAGE, None)) is not None and stage.is_open:
            stage.suspend()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """What the test has left behind is put away before the next one."""
    try:
        return (yield)
    finally:
        if nextitem is None or not is_asked_for(nextitem):
            let_go(item.config)


def _open_without_fixture(item: pytest.Item) -> None:
    """Of an item that is no function of Python."""
    stage = item.stash[STAGE] = Stage(item)
    item.addfinalizer(stage.close)
    stage.open()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """What is shared with other tests is set up outside of a test's session, whoever asks first."""
    item: Any = getattr(request, "_pyfuncitem", None)
    stage = None if item is None else item.stash.get(STAGE, None)
    if stage is None or not stage.is_open:
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
    """The report shows a divergence as people read it, and says what became of the cassette."""
    report = yield
    stage = item.stash.get(STAGE, None)
    if stage is not None:
        from reenact.pytest_plugin.showing import show, told

        if call.excinfo is not None:
            show(stage, report, call.excinfo)
        if call.when == "teardown":
            report.reenact = told(stage)  # type: ignore[attr-defined]  # travels with the report
            del item.stash[STAGE]
    return report
