"""How commands about the policies and cassettes of a project look."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.samples import flip, record_timed
from tests.cli.transcripts import Look, look_with, transcript
from tests.snapshots import Snapshot
from tests.unit.policy.arches import put_arch
from tests.unit.store.samples import start_sink


@pytest.fixture
def look(run: Run, snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("CI", "REENACT_ROOT", "REENACT_WORLD"):
        monkeypatch.delenv(name, raising=False)
    return look_with(run, snapshot)


def _edit(path: Path, **more: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **more}), "utf-8")


def test_policy(look: Look, tmp_path: Path) -> None:
    here = {str(tmp_path): "FOLDER"}
    assert look("policy-init", "policy init", "policy init", "policy check", changing=here) == [
        0,
        2,
        0,
    ]
    _edit(Path(".reenact/policies/default.policy.json"), ignores={"paths": []}, strict="perhaps")
    assert look("policy-check", "policy check", changing=here) == [2]


def test_policy_show_and_pin(look: Look, run: Run, tmp_path: Path) -> None:
    here = {str(tmp_path): "FOLDER"}
    (tmp_path / ".reenact").mkdir()
    assert look("policy-show-built-in", "policy show", "policy show nowhere", changing=here) == [
        0,
        2,
    ]
    (tmp_path / ".reenact").rmdir()
    assert run("policy", "init").code == 0
    _edit(Path(".reenact/policies/default.policy.json"), ignore={"paths": ["$.a"]})
    assert look(
        "policy-pin", "policy check", "policy pin", "policy check", "policy show", changing=here
    ) == [2, 0, 0, 0]


def test_policy_import(look: Look, tmp_path: Path) -> None:
    put_arch(tmp_path)
    assert look("policy-import", "policy import arch/rr", changing={str(tmp_path): "FOLDER"}) == [0]


def test_cassettes(look: Look, run: Run, snapshot: Snapshot) -> None:
    folder = Path("tests/cassettes")
    folder.mkdir(parents=True)
    Path(".reenact").mkdir()
    for name in ("one", "two", "three"):
        record_timed(folder / f"{name}.jsonl")
    flip(folder / "two.jsonl", b"small-1")
    start_sink(folder / "open.jsonl").leave()
    tests = [{"id": "test_one", "cassette": "tests/cassettes/one.jsonl"}]
    Path("report.json").write_text(json.dumps({"version": 1, "tests": tests}), encoding="utf-8")
    ran = run("cassettes", "ls", "tests")
    (age,) = set(re.findall(r"[\d,]+ days?", ran.out))
    snapshot("cassettes-ls", transcript("cassettes ls tests", ran), {age: "x" * len(age)})
    assert look(
        "cassettes",
        "cassettes stale tests",
        "cassettes unused tests --report report.json",
        "cassettes prune tests --report report.json",
        "cassettes check tests",
        "cassettes prune tests --report report.json --yes",
        "cassettes ls nowhere",
    ) == [1, 1, 1, 3, 0, 2]


def test_capabilities(spawn: Run, snapshot: Snapshot) -> None:
    """In a process of its own: tests declare some."""
    ran = spawn("capabilities")
    assert ran.code == 0
    snapshot("capabilities", transcript("capabilities", ran), exact=True)
