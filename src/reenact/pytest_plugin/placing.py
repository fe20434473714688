"""Where a test's cassette lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reenact.errors import PathRefused
from reenact.policy.paths import FIXTURES, cassette_path, find_root, unsafe
from reenact.pytest_plugin.marking import scope_of
from reenact.pytest_plugin.naming import default_name
from reenact.pytest_plugin.options import setting
from reenact.pytest_plugin.wanted import Wanted

__all__ = ["place_of", "root_of", "seen_from_root"]

_BESIDE = "beside"
_TAPE = ".jsonl"


def root_of(config: pytest.Config) -> Path:
    """The folder with ``.reenact``: the one above the root of the tests, else that itself."""
    return find_root(config.rootpath, os.environ)


def seen_from_root(item: pytest.Item, path: Path) -> str:
    """``path`` as somebody in the root of the tests would write it."""
    root = item.config.rootpath
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def place_of(item: pytest.Item, wanted: Wanted, *, writing: bool) -> Path:
    """The file. Reading, one below the fixture root itself is found, too.

    Raises :class:`PathRefused` with the reason.
    """
    if wanted.tape is not None:
        return wanted.tape
    config = item.config
    name = wanted.cassette or default_name(_whose(item))
    fixtures = (
        wanted.fixture_root or os.environ.get(FIXTURES) or setting(config, "reenact_fixture_root")
    )
    if fixtures:
        return cassette_path(root_of(config), name, fixture_root=Path(fixtures), writing=writing)
    said = setting(config, "reenact_cassettes")
    if not said:
        return cassette_path(root_of(config), name, writing=writing)
    if said == _BESIDE:
        return _below(item.path.parent / "cassettes", _beside(item, wanted, name))
    return _below(config.rootpath / said, name)


def _whose(item: pytest.Item) -> str:
    """The node that has the cassette: the test, its class, or its module."""
    scope = scope_of(item)
    if scope == "function":
        return item.nodeid
    node = item.getparent(pytest.Class) if scope == "class" else None
    if node is not None:
        return node.nodeid
    return f"{item.nodeid.partition('::')[0]}::module"


def _beside(item: pytest.Item, wanted: Wanted, name: str) -> str:
    """Beside the module its folders need not be repeated."""
    if wanted.cassette is not None:
        return name
    *_, module, test = name.split("/")
    return f"{module}/{test}"


def _below(folder: Path, name: str) -> Path:
    reason = unsafe(name)
    if reason is not None:
        raise PathRefused(
            f"{name[:200]!r} cannot be a cassette: {reason}",
            hint="a name such as weather or api/weather",
            path=name[:200],
            reason=reason,
        )
    return folder / (name if name.endswith(_TAPE) else f"{name}{_TAPE}")
