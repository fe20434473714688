"""Stands for the rest of the plugin: declares the setting and the marker, registers the hooks of
``collecting`` and ``surroundings``, and opens the session that an item wants. Goes when it does all that."""

from __future__ import annotations

ARGUMENTS = ("-p", "no:cacheprovider")
"""Of every run; the plugin itself is named here when it does the work."""

CONFTEST = """
import pytest

import reenact
from reenact.pytest_plugin import collecting, surroundings


def pytest_addoption(parser):
    parser.addini("reenact_fixture_root", "")


def pytest_configure(config):
    config.addinivalue_line("markers", "reenact(fixture_root)")
    for module in (collecting, surroundings):
        config.pluginmanager.register(module)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    wanted = getattr(item, "reenact_wanted", None)
    if wanted is None:
        return (yield)
    with reenact.session(
        wanted.cassette,
        policy=wanted.policy,
        mode=wanted.mode,
        fixture_root=wanted.fixture_root,
        strict=True,
    ):
        return (yield)
"""
