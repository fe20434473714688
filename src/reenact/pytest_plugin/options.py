"""Options and settings of the plugin, and its results: the summary line and the JSON report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from reenact.pytest_plugin import vcr
from reenact.pytest_plugin.cassette_marker import MODES, request_of, requests_cassette

__all__ = [
    "DEEDS",
    "SETTINGS",
    "Tally",
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
    "reenact_policy": "the id of the policy for tests that name none",
    "reenact_strict": "false: a divergence is reported and does not fail the test",
    "reenact_cassettes": "the folder of cassettes, or beside for a folder next to the tests "
    "(default: .reenact/cassettes)",
    "reenact_allow": "boundaries and drivers that are used live, e.g. psycopg sqlite3",
    "reenact_only": "network: record only HTTP and websockets",
    "reenact_fixture_root": "the folder whose rr folder contains the cassettes",
    "reenact_own_servers": "record: also record calls to servers that tests have started",
}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options and settings."""
    group = parser.getgroup("reenact", "recorded and replayed tests (reenact)")
    add = group.addoption
    add(
        "--reenact-mode",
        choices=MODES,
        dest="reenact_mode",
        help="how cassettes are used; overrides markers and settings",
    )
    for name, what in (
        ("update", "record changed calls again, add missing calls, drop unused calls"),
        ("rewrite", "record everything again"),
    ):
        add(f"--reenact-{name}", action="store_const", const=name, dest="reenact_mode", help=what)
    add("--reenact-policy", metavar="ID", help="the id of the policy; overrides markers")
    add(
        "--reenact-strict",
        action="store_true",
        default=None,
        dest="reenact_strict",
        help="fail the test on a divergence (default)",
    )
    add(
        "--reenact-lenient",
        action="store_false",
        default=None,
        dest="reenact_strict",
        help="report divergences at the end instead of failing the test",
    )
    add("--reenact-report", metavar="FILE", help="write the result of each cassette as JSON")
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
        raise pytest.UsageError(f"reenact_strict is {value!r}: use true or false")
    in_settings = None if not value else value == "true"
    found: bool | None = _first(config.getoption("reenact_strict"), marked, in_settings)
    return found


VERSION = 1

DEEDS = ("replayed", "recorded", "updated", "live", "skipped", "diverged", "not kept", "refused")
"""Possible results of a cassette, in the order of the summary."""

COLLECTED = "collected"
"""Result of a test that was collected and not run."""


class Tally:
    """Collector of the results of all tests with a cassette.

    Results of worker processes are included. If a test ran more than once, the last run counts.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._results: dict[str, dict[str, Any]] = {}
        self._outcomes: dict[str, str] = {}
        self._errors = 0
        self._deselected = 0

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count deselected tests, because they make the report partial."""
        self._deselected += len(items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count collection errors, because their tests may use any cassette."""
        self._errors += report.failed

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """List the tests with their cassettes when tests are only collected."""
        if not self._config.getoption("collectonly") or not self._report_path():
            return
        for item in session.items:
            if requests_cassette(item):
                self._results[item.nodeid] = {"did": COLLECTED, "cassette": _cassette_of(item)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = self._outcomes.get(report.nodeid)
        if report.when == "setup" or report.outcome != "passed" or outcome is None:
            self._outcomes[report.nodeid] = report.outcome
        result = getattr(report, "reenact", None)
        if result is not None:
            self._results[report.nodeid] = {**result, "outcome": self._outcomes[report.nodeid]}

    def pytest_sessionfinish(self) -> None:
        path = self._report_path()
        if path and not hasattr(self._config, "workerinput"):
            file = self._config.invocation_params.dir / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(self._report(), indent=2) + "\n", "utf-8")

    def _report_path(self) -> str:
        return str(self._config.getoption("reenact_report") or "")

    def _report(self) -> dict[str, Any]:
        tests = [{"id": name, **result} for name, result in sorted(self._results.items())]
        return {
            "version": VERSION,
            "root": str(self._config.rootpath),
            "errors": self._errors,
            "partial": bool(self._deselected) or self._is_narrowed(),
            "counts": dict(self._counts()),
            "tests": tests,
        }

    def _is_narrowed(self) -> bool:
        """Return True if folders, files or tests were named on the command line."""
        return self._config.args_source is pytest.Config.ArgsSource.ARGS

    def _counts(self) -> Counter[str]:
        did = Counter(result["did"] for result in self._results.values())
        return Counter({deed: did[deed] for deed in DEEDS if did[deed]})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        counts = self._counts()
        if not counts:
            return
        notes = self._notes()
        if notes:
            terminalreporter.section("reenact", sep="-")
            for note in notes:
                terminalreporter.line(note)
        line = ", ".join(f"{number} {deed}" for deed, number in counts.items())
        bad = any(counts[deed] for deed in ("diverged", "refused"))
        terminalreporter.line(f"reenact: {line}", yellow=bad, bold=bad)

    def _notes(self) -> list[str]:
        """Return the notes about tests.

        Equal notes of replayed tests are merged, unless the output is verbose.
        """
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, result in sorted(self._results.items()):
            apart = result["did"] != "replayed" or self._config.option.verbose > 0
            alike.setdefault((*result["notes"], name if apart else ""), []).append(name)
        return [
            f"{first} and {len(others)} more: {note}" if others else f"{first}: {note}"
            for first, *others in alike.values()
            for note in self._results[first]["notes"]
        ]


def _cassette_of(item: pytest.Item) -> str | None:
    """Return the path of the cassette relative to the root of the tests; None if it is invalid."""
    from reenact.errors import ReenactError
    from reenact.pytest_plugin.cassette import cassette_path, path_from_root

    try:
        return path_from_root(item, cassette_path(item, request_of(item), writing=False))
    except ReenactError:  # reported when the test runs
        return None
