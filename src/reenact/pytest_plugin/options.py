"""Command-line options and settings of the plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from reenact.pytest_plugin import vcr
from reenact.pytest_plugin.cassette_request import MODES
from reenact.pytest_plugin.tally import Tally

__all__ = [
    "SETTINGS",
    "allow_option",
    "mode_option",
    "only_option",
    "policy_option",
    "pytest_addoption",
    "pytest_configure",
    "pytest_report_header",
    "setting",
    "strict_option",
]

SETTINGS = {
    "reenact_mode": f"how cassettes are used: {', '.join(MODES)}",
    "reenact_policy": "the id of the policy of tests that name none",
    "reenact_strict": "false: a divergence is told and does not fail the test",
    "reenact_cassettes": "where cassettes are: a folder, or beside for one beside the tests; "
    "otherwise .reenact/cassettes",
    "reenact_allow": "boundaries and drivers that are used live, e.g. psycopg sqlite3",
    "reenact_only": "network: nothing but HTTP and websockets is recorded",
    "reenact_fixture_root": "the folder whose rr folder has the cassettes",
    "reenact_own_servers": "record: calls to servers that tests have started are recorded, too",
}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options and settings."""
    group = parser.getgroup("reenact", "recorded and replayed tests (reenact)")
    add = group.addoption
    add(
        "--reenact-mode",
        choices=MODES,
        dest="reenact_mode",
        help="how cassettes are used, whatever markers and settings say",
    )
    for name, what in (
        ("update", "make again what diverges, add what is missing, drop what is left over"),
        ("rewrite", "record everything again"),
    ):
        add(f"--reenact-{name}", action="store_const", const=name, dest="reenact_mode", help=what)
    add("--reenact-policy", metavar="ID", help="the policy, whatever markers say")
    add(
        "--reenact-strict",
        action="store_true",
        default=None,
        dest="reenact_strict",
        help="a divergence fails the test (this is the default)",
    )
    add(
        "--reenact-lenient",
        action="store_false",
        default=None,
        dest="reenact_strict",
        help="a divergence is told at the end and does not fail the test",
    )
    add("--reenact-report", metavar="FILE", help="write what became of each cassette, as JSON")
    for name, what in SETTINGS.items():
        parser.addini(name, what, default="")
    vcr.add_options(parser, pluginmanager)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the tally of cassettes."""
    config.addinivalue_line(
        "markers",
        "reenact(cassette, policy, mode, strict, match, ignore, fixture_root, only, allow, scope): "
        "what the test exchanges with the world is recorded once, and replayed after that",
    )
    config.pluginmanager.register(Tally(config), "reenact-tally")
    vcr.configure(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the header line, if a setting is set or the project has a ``.reenact`` folder."""
    mode, policy = mode_option(config, None), policy_option(config, None)
    where = setting(config, "reenact_cassettes")
    if not (mode or policy or where or (config.rootpath / ".reenact").is_dir()):
        return None
    by = f", policy {policy}" if policy else ""
    return f"reenact: mode {mode or 'auto'}{by}, cassettes {_where(where)}"


def _where(folder: str) -> str:
    return {"": "in .reenact/cassettes", "beside": "beside the tests"}.get(folder, f"in {folder}")


def setting(config: pytest.Config, name: str) -> str:
    """Return a setting of pytest, or an empty string."""
    return str(config.getini(name)).strip()


def _first(*values: Any) -> Any:
    return next((one for one in values if one is not None and one != ""), None)


def mode_option(config: pytest.Config, marked: str | None) -> str | None:
    """Return the mode: command line, marker, settings; None by default."""
    found = _first(config.getoption("reenact_mode"), marked, setting(config, "reenact_mode"))
    return None if found is None else str(found)


def policy_option(config: pytest.Config, marked: str | None) -> str | None:
    """Return the policy: command line, marker, settings; None by default."""
    found = _first(config.getoption("reenact_policy"), marked, setting(config, "reenact_policy"))
    return None if found is None else str(found)


def only_option(config: pytest.Config, marked: str | None) -> str | None:
    """Return the only source to record: marker, settings; None by default."""
    found = _first(marked, setting(config, "reenact_only"))
    return None if found is None else str(found)


def allow_option(config: pytest.Config, marked: Sequence[str]) -> list[str]:
    """Return the boundaries and drivers that the settings and the marker allow."""
    return [*setting(config, "reenact_allow").replace(",", " ").split(), *marked]


def strict_option(config: pytest.Config, marked: bool | None) -> bool | None:
    """Return the strictness: command line, marker, settings; None by default.

    Raises :class:`pytest.UsageError` for an invalid setting.
    """
    value = setting(config, "reenact_strict").lower()
    if value not in ("", "true", "false"):
        raise pytest.UsageError(f"reenact_strict is {value!r}: say true or false")
    in_settings = None if not value else value == "true"
    found: bool | None = _first(config.getoption("reenact_strict"), marked, in_settings)
    return found
