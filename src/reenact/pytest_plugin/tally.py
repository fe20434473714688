"""What became of the cassettes: the line at the end of a run, and the report for machines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

__all__ = ["DEEDS", "Tally"]

VERSION = 1

DEEDS = ("replayed", "recorded", "updated", "live", "skipped", "diverged", "not kept", "refused")
"""What may become of a test's cassette, in the order in which it is told."""


class Tally:
    """Hears of every test that has a cassette, from the workers as well, where tests are spread
    over processes. Of a test that was run again the last run counts."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._told: dict[str, dict[str, Any]] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = self._outcomes.get(report.nodeid)
        if report.when == "setup" or report.outcome != "passed" or outcome is None:
            self._outcomes[report.nodeid] = report.outcome
        told = getattr(report, "reenact", None)
        if told is not None:
            self._told[report.nodeid] = {**told, "outcome": self._outcomes[report.nodeid]}

    def pytest_sessionfinish(self) -> None:
        place = self._config.getoption("reenact_report")
        if place and not hasattr(self._config, "workerinput"):
            file = self._config.invocation_params.dir / Path(place)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(self._report(), indent=2) + "\n", "utf-8")

    def _report(self) -> dict[str, Any]:
        tests = [{"test": name, **told} for name, told in sorted(self._told.items())]
        return {"version": VERSION, "counts": dict(self._counts()), "tests": tests}

    def _counts(self) -> Counter[str]:
        did = Counter(told["did"] for told in self._told.values())
        return Counter({deed: did[deed] for deed in DEEDS if did[deed]})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._told:
            return
        notes = [
            f"{name}: {note}" for name, told in sorted(self._told.items()) for note in told["notes"]
        ]
        if notes:
            terminalreporter.section("reenact", sep="-")
            for note in notes:
                terminalreporter.line(note)
        counts = self._counts()
        line = ", ".join(f"{number} {deed}" for deed, number in counts.items())
        bad = any(counts[deed] for deed in ("diverged", "refused"))
        terminalreporter.line(f"reenact: {line}", yellow=bad, bold=bad)
