"""Which cassettes the tests of a project ask for.

The pytest plugin says so: ``pytest --collect-only --reenact-report FILE`` writes

    {"version": 1, "root": "/project", "errors": 0, "partial": false,
     "tests": [{"id": "tests/test_a.py::test_b", "cassette": "tests/…/test_b.jsonl"}, …]}

``cassette`` is a path, seen from ``root`` (by default where we are) if it is not absolute; a test
without one has null there. ``errors`` counts what could not be collected; ``partial`` is true where not all tests
were looked for. More fields may be there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from reenact.errors import UsageError

__all__ = ["Asked", "collect", "read_report"]

_SAYS = "the report that `pytest --reenact-report FILE` writes"
_LAST_LINES = 4


class _Test(msgspec.Struct):
    id: str
    cassette: str | None = None


class _Report(msgspec.Struct):
    version: int
    tests: list[_Test]
    root: str = ""
    errors: int = 0
    partial: bool = False


class Asked(msgspec.Struct, frozen=True):
    """``cassettes`` are absolute; ``tests`` is the number of tests that have one."""

    cassettes: frozenset[Path]
    tests: int


def read_report(file: Path) -> Asked:
    """What a report says. Raises :class:`UsageError`; also for one that is not whole: to delete what
    it does not name would delete what tests need."""
    try:
        report = msgspec.json.decode(file.read_bytes(), type=_Report)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", hint=_SAYS) from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is not a report of tests: {error}", hint=_SAYS) from None
    if report.version != 1:
        raise UsageError(
            f"{file} has version {report.version}; this version reads 1",
            hint="pip install --upgrade reenact",
        )
    if report.errors:
        raise UsageError(
            f"{report.errors} test file(s) could not be collected: what they ask for is not known",
            hint="mend what `pytest --collect-only` complains about first",
        )
    if report.partial:
        raise UsageError(
            f"{file} is about some of the tests: what the others ask for is not known",
            hint="write it for all: pytest --collect-only --reenact-report FILE",
        )
    root = Path(report.root).absolute()
    named = [root / one.cassette for one in report.tests if one.cassette is not None]
    if not named:
        raise UsageError(
            f"no test in {file} asks for a cassette",
            hint="collect the whole suite, from the folder where pytest runs",
        )
    return Asked(frozenset(path.resolve() for path in named), len(named))


def collect() -> Asked:
    """Ask pytest, with the Python that runs this. Raises :class:`UsageError` when it fails."""
    with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
        file = Path(folder) / "tests.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--reenact-report"]
        ran = subprocess.run(
            [*command, str(file)], capture_output=True, text=True, errors="replace", check=False
        )
        if ran.returncode != 0 or not file.exists():
            said = "; ".join((ran.stdout + ran.stderr).strip().splitlines()[-_LAST_LINES:])
            raise UsageError(
                f"pytest could not collect the tests (exit code {ran.returncode}): {said}",
                hint="run it yourself and give the report: reenact cassettes unused --report FILE",
            )
        return read_report(file)
