"""``reenact view``: what it writes, says and refuses. The page itself is looked at in tests/browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reenact
from reenact.store.reader import open_recording
from reenact.views.html.run_page import Window, contents
from reenact.views.recorded_calls import read_run
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
    assert "report.json is not a report" in refused.err
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


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with reenact.session(capture=tmp_path / "long", mode="record") as session:
        for number in range(30):
            session.call(
                "search", {"query": f"number-{number}-" + "x" * 200}, lambda: {"celsius": 21}
            )
    return Path("long")


def test_page_of_a_long_recording_is_bounded_and_says_what_is_left_out(
    run: Run, long: Path
) -> None:
    first = run("view", long, "--limit", "10")
    assert first.code == 0
    assert "it shows 10 of 30 steps; 0 before and 20 after them" in first.err
    page = Path("long.html").read_text(encoding="utf-8")
    assert "10 of 30 steps; 0 before and 20 after them" in page
    assert "number-9-" in page
    assert "number-10-" not in page
    (following,) = re.findall(r"reenact view long --from (\d+)", first.err)
    told = run("view", long, "--from", following, "--limit", "10", "--json").json()
    assert told["steps"] == 10
    assert (told["left"]["before"], told["left"]["after"]) == (10, 10)
    page = Path("long.html").read_text(encoding="utf-8")
    assert "number-9-" not in page
    assert "number-10-" in page
    assert "number-19-" in page
    whole = run("view", long, "--json").json()
    assert (whole["steps"], "left" in whole) == (30, False)


def test_page_has_a_size_whatever_its_steps_say(long: Path) -> None:
    with open_recording(long) as source:
        window = Window(size=1_000)
        data = contents("long", source.manifest(), read_run(source), window=window)
    assert 0 < len(data["steps"]) < 30
    assert data["left"]["after"] == 30 - len(data["steps"])
