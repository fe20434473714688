"""Support for ``@pytest.mark.vcr`` of pytest-recording, enabled by one setting.

With ``reenact_vcr = true`` (or ``--reenact-vcr``) a test with this marker gets the cassette of
pytest-recording, read and written by Reenact. pytest-recording itself must not be active then,
because both would handle the marker. This module does not import the engine.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reenact.pytest_plugin.cassette_marker import CassetteRequest

__all__ = [
    "add_options",
    "configure",
    "is_on",
    "pytest_addhooks",
    "request_of",
    "requests_cassette",
]

RECORD_MODES = ("none", "once", "new_episodes", "all", "rewrite")
_MARKERS = (
    "vcr(*cassettes, **config): HTTP is replayed from a cassette of pytest-recording",
    "block_network(allowed_hosts): the test has no access to the network",
    "default_cassette(name): another name for the cassette of the test",
)
_FIXTURES = "reenact-vcr-fixtures"
_OWNERS = {"recording": "pytest_recording", "cassetter": "cassetter"}
"""Plugins that define these options, and their modules."""
_RIVALS = {"recording": "pytest-recording", "vcr": "pytest-vcr", "cassetter": "cassetter"}
"""Plugins that handle the marker, and their packages."""
_REQUEST = pytest.StashKey["CassetteRequest"]()


class Hooks:
    """Hook specifications of pytest-recording, so that a conftest that implements them loads."""

    def pytest_recording_configure(self, config: pytest.Config, vcr: Any) -> None:
        """Never called, because there is no VCR object."""


_Manager = pytest.PytestPluginManager


def _is_coming(pluginmanager: _Manager, plugin: str, module: str) -> bool:
    """Return True if the plugin is loaded, or pytest will load it."""
    if pluginmanager.has_plugin(plugin):
        return True
    if pluginmanager.is_blocked(plugin) or os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return False
    return find_spec(module) is not None


def pytest_addhooks(pluginmanager: _Manager) -> None:
    """Add the hook specifications of pytest-recording, unless it defines them itself."""
    if not _is_coming(pluginmanager, "recording", "pytest_recording"):
        pluginmanager.add_hookspecs(Hooks)


def add_options(parser: pytest.Parser, pluginmanager: _Manager) -> None:
    """Add the switch, and the options of pytest-recording unless another plugin defines them."""
    what = "run tests that are marked vcr, as pytest-recording does, with Reenact"
    parser.addini("reenact_vcr", what, type="bool", default=False)
    group = parser.getgroup("reenact", "recorded and replayed tests (reenact)")
    group.addoption("--reenact-vcr", action="store_true", default=False, help=what)
    if any(_is_coming(pluginmanager, plugin, module) for plugin, module in _OWNERS.items()):
        return
    add = parser.getgroup("recording", "options of pytest-recording, for reenact_vcr").addoption
    add("--record-mode", choices=RECORD_MODES, default=None, help="what of a cassette is recorded")
    add("--block-network", action="store_true", default=False, help="no test reaches the network")
    add("--allowed-hosts", default=None, help="accepted, and not honoured")
    add("--disable-recording", action="store_true", default=False, help="run marked tests live")


def is_on(config: pytest.Config) -> bool:
    """Return True if the support is enabled."""
    return bool(config.getoption("reenact_vcr")) or bool(config.getini("reenact_vcr"))


def configure(config: pytest.Config) -> None:
    """Register the markers and fixtures, if the support is enabled.

    Raises :class:`pytest.UsageError` if a different plugin handles the marker, too.
    """
    if not is_on(config):
        return
    for name, package in _RIVALS.items():
        if config.pluginmanager.has_plugin(name):
            raise pytest.UsageError(
                f"{package} and reenact_vcr are both active, and both answer for the marker vcr: "
                f"uninstall {package}, or say -p no:{name}"
            )
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    from reenact.pytest_plugin import vcr_fixtures

    config.pluginmanager.register(vcr_fixtures, _FIXTURES)


def requests_cassette(item: pytest.Item) -> bool:
    """Return True if a marker or option of pytest-recording gives the test a cassette.

    It is called for every test, so it must be cheap.
    """
    config = item.config
    if not isinstance(item, pytest.Function) or not is_on(config):
        return False
    if config.getoption("disable_recording", default=False):
        return False
    return item.get_closest_marker("vcr") is not None or _is_blocked(item)


def _is_blocked(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("block_network") is not None
    return marked or bool(item.config.getoption("block_network", default=False))


def request_of(item: pytest.Item) -> CassetteRequest | None:
    """Return the request of ``item``; None for a test without such a marker or option.

    The request is complete after fixtures are set up, because fixtures can change it. Before that,
    it contains the default path. A YAML or JSON cassette without a tape is imported here. Raises
    :class:`pytest.UsageError` for invalid settings, and errors of reading the cassette.
    """
    if not requests_cassette(item):
        return None
    from reenact.pytest_plugin import vcr_translation

    if item not in item.session._setupstate.stack:
        return vcr_translation.expected_request(item)
    if _REQUEST not in item.stash:
        is_marked = item.get_closest_marker("vcr") is not None
        ask = vcr_translation.cassette_request if is_marked else vcr_translation.empty_request
        item.stash[_REQUEST] = ask(item)
    return item.stash[_REQUEST]
