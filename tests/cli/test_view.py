"""``reenact view``: what it writes, says and refuses. The page itself is looked at in tests/browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reenact
from tests.cli.conftest import Run


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with reenact.session(capture=tmp_path / "run", mode="record") as session:
        session.call("search", {"query": "weather"}, lambda: {"celsius": 21})
    return Path("run")


def test_it_says_what_it_wrote(run: Run, recorded: Path) -> None:
    ran = run("view", recorded)
    assert (ran.code, ran.out) == (0, "")
    assert re.fullmatch(r"wrote run.html, [\d.]+ KiB\n", ran.err)
    assert Path("run.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    told = run("view", recorded, "-o", "other.html", "--json").json()
    size = Path("other.html").stat().st_size
    assert told == {"version": 1, "path": "other.html", "bytes": size, "steps": 1}


def test_what_is_no_report_and_what_is_not_finished(run: Run, recorded: Path) -> None:
    Path("report.json").write_text("[]", encoding="utf-8")
    refused = run("view", recorded, "--report", "report.json")
    assert refused.code == 2
    assert "report.json is no report" in refused.err
    assert refused.hint == "reenact run --replay … --report FILE writes one"
    assert not Path("run.html").exists()
    (recorded / "manifest.json").unlink()
    unfinished = run("view", recorded)
    assert unfinished.code == 3
    assert unfinished.hint == "reenact recover run"


def test_a_place_that_is_not_there_is_named(run: Run, recorded: Path) -> None:
    refused = run("view", recorded, "-o", "nowhere/page.html")
    assert refused.code == 2
    assert "cannot write the page nowhere/page.html: No such file or directory" in refused.err
