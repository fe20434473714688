"""``reenact run --explain-boundaries``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reenact.boundaries.registry import TABLE


def _explain(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reenact", "run", "--explain-boundaries", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("import time\n")
    place = tmp_path / "program.py"
    place.write_text("import sys, json, mine, msgspec\nprint('it ran')\nsys.exit(7)\n")
    return place


def test_every_boundary_is_there(tmp_path: Path) -> None:
    done = _explain(tmp_path)
    assert done.returncode == 0
    first = {line.partition("  ")[0] for line in done.stdout.splitlines()}
    assert {boundary.name for boundary in TABLE} <= first
    assert "time.perf_counter" in done.stdout
    for word in ("user:", "library:", "plumbing:"):
        assert word in done.stdout


def test_as_json(tmp_path: Path) -> None:
    report = json.loads(_explain(tmp_path, "--json").stdout)
    by_name = {one["name"]: one for one in report["boundaries"]}
    assert list(by_name) == [*(boundary.name for boundary in TABLE), "declared files"]
    assert by_name["time"]["how"] == "draws"
    assert by_name["httpx"]["how"] == "calls"
    assert "time.time" in by_name["time"]["places"]
    assert "modules" not in report


def test_whose_the_modules_of_a_program_are(program: Path) -> None:
    done = _explain(program.parent, "--", sys.executable, "program.py")
    assert done.returncode == 7
    assert done.stderr == "it ran\n"
    rows = [line.split() for line in done.stdout.splitlines()]
    found = {row[0]: row[1] for row in rows if len(row) > 1}
    assert (found["__main__"], found["mine"], found["msgspec"]) == ("user", "user", "plumbing")
    assert "reenact" not in found


def test_modules_as_json(program: Path) -> None:
    done = _explain(program.parent, "--json", "--", sys.executable, "program.py")
    report = json.loads(done.stdout)
    modules = {one["name"]: one for one in report["modules"]}
    assert modules["mine"] == {
        "name": "mine",
        "tier": "user",
        "reason": "not installed: the user's own",
    }
    assert modules["json"]["tier"] == "plumbing"
    assert report["exitCode"] == 7


def test_it_neither_records_nor_replays(tmp_path: Path) -> None:
    done = _explain(tmp_path, "--live")
    assert done.returncode == 2
    assert "neither records nor replays" in done.stderr
    assert "hint:" in done.stderr


def test_json_belongs_to_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reenact", "run", "--json", "--", sys.executable, "-c", ""],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2
    assert "--explain-boundaries" in done.stderr
