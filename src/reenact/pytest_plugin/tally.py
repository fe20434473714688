"""Results of the cassettes: the summary line and the JSON report."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from reenact.pytest_plugin.cassette_request import request_of, requests_cassette

__all__ = ["DEEDS", "Tally"]

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
