"""``reenact fork``: what it refuses, and the table of a sweep."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reenact
from tests.cli.conftest import Run
from tests.integration.running import PATIENCE, reenact_command
from tests.snapshots import Snapshot

COMMAND = ("--", sys.executable, "-c", "pass")


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        session.call("ask", {"q": 1}, lambda: {"text": "one"}, capability="llm.call")
        session.call("search", {"q": 2}, lambda: ["a", "b"])
    return tmp_path / "c"


@pytest.mark.parametrize(
    "words, message, hint",
    [
        (("--at", "llm:2"), "has 1 call of the kind llm", "1 llm, 1 tool"),
        (("--at", "77"), "there is no event 77", "1 to 3"),
        (("--at", "here"), "no place to fork at", "llm:3"),
        (("--set", "$.response.txt=x"), "leads nowhere", "$.response with text"),
        (("--set", "$.response.text"), "has no value", "--set '$.result=42'"),
        (("--set", "response=1"), "starts with '$'", "$.a[0].b"),
        (("--live", ","), "names nothing", "llm,tools"),
        (("--json",), "goes with --sweep", "--report"),
        (("-k", "3"), "-k goes with --sweep", "--sweep"),
        (("--sweep", "--at", "1"), "exclude each other", "--each"),
        (("--sweep", "--each", "mcp"), "no call of the kind mcp", "--each llm"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_program_runs(
    run: Run, capture: Path, words: tuple[str, ...], message: str, hint: str
) -> None:
    ran = run("fork", capture, *words, "--into", capture.parent / "f", *COMMAND)
    assert ran.code == 2
    assert message in ran.err
    assert hint in ran.hint
    assert not (capture.parent / "f").exists()


def test_a_program_is_needed(run: Run, capture: Path) -> None:
    ran = run("fork", capture, "--at", "llm:1")
    assert (ran.code, ran.hint) == (2, "reenact fork RUN [OPTIONS] -- CMD …")


def test_a_place_that_is_taken(run: Run, capture: Path) -> None:
    ran = run("fork", capture, "--into", capture, *COMMAND)
    assert (ran.code, ran.hint) == (2, "choose another place: --into DIR")
    assert "is there already" in ran.err


def test_a_recording_that_is_not_there(run: Run, tmp_path: Path) -> None:
    ran = run("fork", tmp_path / "c", *COMMAND)
    assert ran.code == 3
    assert "no recording found" in ran.err


def test_a_recording_that_was_never_finished(run: Run, capture: Path) -> None:
    (capture / "manifest.json").unlink()
    ran = run("fork", capture, *COMMAND)
    assert ran.code == 3
    assert "reenact recover" in ran.hint


def test_stats_and_show_name_the_parent(run: Run, capture: Path) -> None:
    fork = capture.parent / "f"
    with reenact.session(capture=capture, fork="tool:1", into=fork) as session:
        session.call("ask", {"q": 1}, dict, capability="llm.call")
        session.call("search", {"q": 2}, list)
    with reenact.open_recording(capture) as source:
        parent = source.manifest().capture_id
    assert f"parent     fork of {parent} at event 2" in run("stats", fork).out
    assert run("stats", fork, "--json").json()["parent"] == {"captureId": parent, "seq": 2}
    assert "parent" not in run("stats", capture, "--json").json()
    assert run("show", fork).err == f"reenact: fork of {parent} at event 2\n"
    assert run("show", capture).err == ""


# Sweeps

PROGRAM = """\
import os, sys, reenact

@reenact.boundary(capability="llm.call")
def model(step):
    luck = os.environ.get("LUCK")
    return luck.split(",")[step] if luck else "good"

said = [model(step) for step in range(3)]
print(" ".join(said))
sys.exit("bad" in said)
"""


def _sweep(folder: Path, *words: str, luck: str) -> Any:
    return subprocess.run(
        reenact_command("fork", "c", "--sweep", *words, "--", sys.executable, "program.py"),
        capture_output=True,
        cwd=folder,
        env=_environ(luck),
        timeout=PATIENCE,
        check=False,
    )


def _environ(luck: str) -> dict[str, str]:
    import os

    return {**os.environ, "LUCK": luck}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        reenact_command("run", "--capture", "c", "--", sys.executable, "program.py"),
        cwd=tmp_path,
        env=_environ(""),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0
    return tmp_path


def test_a_sweep_shows_where_runs_begin_to_fail(folder: Path) -> None:
    done = _sweep(folder, "-k", "2", "-j", "2", "--into", "s", "--json", luck="good,bad,good")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [step["forks"] for step in found["steps"]] == [2, 2, 2]
    assert [step["failed"] for step in found["steps"]] == [2, 2, 0]
    assert [step["diverged"] for step in found["steps"]] == [0, 0, 0]
    assert [step["share"] for step in found["steps"]] == [1.0, 1.0, 0.0]
    names = [name for step in found["steps"] for name in step["folders"]]
    assert sorted(place.name for place in (folder / "s").iterdir()) == sorted(names)
    for name in names:
        with reenact.open_recording(folder / "s" / name / "capture") as source:
            assert source.manifest().parent is not None
    assert b"good bad good" in (folder / "s" / names[0] / "output").read_bytes()


def test_a_check_decides_what_has_failed(folder: Path, snapshot: Snapshot) -> None:
    check = f"{sys.executable} check.py"
    (folder / "check.py").write_text(
        "import os, sys; sys.exit('better' not in open(os.environ['REENACT_OUTPUT']).read())"
    )
    done = _sweep(folder, "--check", check, "--quiet", luck="good,better,good")
    assert done.returncode == 0, done.stderr
    table = done.stdout.decode().splitlines()
    assert table[0].split() == ["event", "what", "forks", "failed", "diverged"]
    assert [line.split()[1:] for line in table[1:]] == [
        ["llm", "model", "1", "0", "0"],
        ["llm", "model", "1", "0", "0"],
        ["llm", "model", "1", "1", "0", "#" * 20],
    ]
    snapshot("fork-sweep", re.sub(r"(?m)^ *\d+ ", "  SEQ ", done.stdout.decode()))
    assert b"the forks are in " in done.stderr
    assert not (folder / ".reenact" / "runs").exists() or not any(
        place.is_dir() for place in (folder / ".reenact" / "runs").iterdir()
    )


def test_a_sweep_of_another_program_diverges(folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM.replace("range(3)", "range(5, 8)"))
    done = _sweep(folder, "--each", "call", "--into", "s", luck="")
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.decode().splitlines()[1:]]
    assert [row[-1] for row in rows] == ["1", "1", "1"]
