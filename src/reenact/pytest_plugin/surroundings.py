"""Variables of the environment while a test runs: where what it opens by name is looked for.

A test may open cassettes itself, and start programs that do. What its marker, the settings or its
``tests.json`` say about fixtures holds for them as for the session that is opened for it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager

import pytest

__all__ = ["pytest_runtest_protocol", "surroundings_of"]

_SETTING = "reenact_fixture_root"
_FIXTURES = "REENACT_FIXTURE_ROOT"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """They hold from before the set-up of a test to its end."""
    with _in_force(surroundings_of(item)):
        return (yield)


@contextmanager
def _in_force(variables: Mapping[str, str]) -> Iterator[None]:
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
    """What an item carries, and the fixture root: if it carries none, the one that its marker names,
    or, where no variable does, the setting."""
    carried: Mapping[str, str] = getattr(item, "reenact_surroundings", None) or {}
    mark = item.get_closest_marker("reenact")
    said = None if mark is None else mark.kwargs.get("fixture_root")
    if said is None and _FIXTURES not in os.environ and _FIXTURES not in carried:
        said = _setting(item.config)
    return {**_fixtures(item.config, str(said)), **carried} if said else carried


def _setting(config: pytest.Config) -> str:
    try:
        return str(config.getini(_SETTING) or "")
    except ValueError:  # nobody has declared it
        return ""


def _fixtures(config: pytest.Config, said: str) -> dict[str, str]:
    """Absolute: a test may go to another folder. What is refused is left to who opens a cassette."""
    from reenact.errors import PathRefused
    from reenact.policy.paths import find_root, fixture_folder

    try:
        return {_FIXTURES: str(fixture_folder(find_root(config.rootpath, os.environ), said))}
    except PathRefused:
        return {_FIXTURES: said}
