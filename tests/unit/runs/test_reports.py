"""The line at the end, and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import ReenactError, UsageError
from reenact.runs.plan import ProcessReport
from reenact.runs.reports import (
    Summary,
    check_report_path,
    print_error,
    print_message,
    write_report,
)

PLACE = Path("/somewhere/c")


def _summary(**said: Any) -> Summary:
    return Summary(**{"mode": "replay", "recording": PLACE, "exit_code": 0, **said})


@pytest.mark.parametrize(
    "summary, line",
    [
        (
            _summary(calls=42, lanes=7),
            "replayed 42 calls in 7 lanes, 0 live, 0 unused",
        ),
        (
            _summary(calls=1, lanes=1, live=2, unused=3),
            "replayed 1 call in 1 lane, 2 live, 3 unused",
        ),
        (
            _summary(calls=12_345, lanes=1_000, divergences=[{}, {}]),
            "replayed 12,345 calls in 1,000 lanes, 0 live, 0 unused, 2 divergences",
        ),
        (
            _summary(passed={"process.exec sh": 2, "net.fetch GET": 1}, divergences=[{}]),
            "replayed 0 calls in 0 lanes, 0 live, 0 unused, 1 passed through net.fetch GET, "
            "2 passed through process.exec sh, 1 divergence",
        ),
        (
            _summary(mode="record", calls=1, lanes=1),
            "recorded 1 call in 1 lane to /somewhere/c",
        ),
    ],
    ids=["many", "one", "thousands", "passed", "recorded"],
)
def test_the_line(summary: Summary, line: str) -> None:
    assert summary.line() == line


def test_what_all_processes_did_together() -> None:
    summary = _summary()
    summary.add(
        [
            ProcessReport(
                pid=1, lane="0", live=1, passed={"a": 1, "b": 2}, divergences=[{"code": "x"}]
            ),
            ProcessReport(pid=2, lane="0.1", live=2, passed={"b": 3}),
        ]
    )
    assert (summary.live, summary.passed) == (3, {"a": 1, "b": 5})
    assert summary.divergences == [{"code": "x"}]


def test_the_report(tmp_path: Path) -> None:
    place = tmp_path / "r.json"
    found = [{"code": "event_missing", "detail": "蟹"}]
    write_report(
        place, _summary(exit_code=1, calls=2, lanes=1, unused=1, divergences=found, passed={"a": 1})
    )
    assert json.loads(place.read_text("utf-8")) == {
        "version": 1,
        "mode": "replay",
        "status": "diverged",
        "counts": {"served": 2, "live": 0, "passed": {"a": 1}, "divergences": 1, "unused": 1},
        "divergences": found,
        "recording": str(PLACE),
        "lanes": 1,
        "exitCode": 1,
    }


def test_no_report_unless_asked_for(tmp_path: Path) -> None:
    check_report_path(None)
    write_report(None, _summary())
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        check_report_path(tmp_path / "missing" / "r.json")
    with pytest.raises(ReenactError, match="cannot be written") as caught:
        write_report(tmp_path, _summary())
    assert caught.value.hint


def test_what_is_said_goes_to_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_message("hello")
    print_error("it is broken", "mend it")
    print_error("it is gone", "")
    assert capsys.readouterr() == (
        "",
        "hello\nreenact: error: it is broken\nhint: mend it\nreenact: error: it is gone\n",
    )


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert print_message("hello") is None  # type: ignore[func-returns-value]
