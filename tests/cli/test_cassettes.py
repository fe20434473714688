"""``reenact cassettes``: ls, unused, stale, prune, and the check before a commit."""

from __future__ import annotations

import json
import random
import re
import shutil
import string
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.format.manifest import PolicyRef
from reenact.store.recording import start_recording
from tests.cli.conftest import Run
from tests.cli.samples import begin, flip, mutation, record

GOLDEN = Path(__file__).parents[1] / "golden" / "v1.0" / "tape.jsonl"
_CHANCE = random.Random("secrets of cassettes")
SECRET = "gh" + "p_" + "".join(_CHANCE.choices(string.ascii_letters + string.digits, k=36))


def _cassette(path: Path, answer: Any = "b", **arguments: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with reenact.session(tape=path, mode="record", root=path.parent, **arguments) as session:
        session.call("t", {"a": 1}, lambda: answer)
        session.record_nondeterministic("clock", "time.time", 5.0)
    return path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two cassettes in folders of tests, and things that are none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / ".reenact").mkdir()
    _cassette(tmp_path / "tests" / "test_a" / "one.jsonl")
    _cassette(tmp_path / "tests" / "test_b" / "two.jsonl")
    (tmp_path / "tests" / "data.jsonl").write_text('{"not": "ours"}\n', encoding="utf-8")
    record(tmp_path / "tests" / "capture")
    record(tmp_path / ".reenact" / "runs" / "old.jsonl")
    return tmp_path


def _report(tree: Path, *cassettes: str | None, **more: Any) -> Path:
    tests = [{"id": f"t{at}", "cassette": name} for at, name in enumerate(cassettes)]
    file = tree / "report.json"
    told = {"version": 1, "root": str(tree), "tests": tests, **more}
    file.write_text(json.dumps(told), encoding="utf-8")
    return file


# ls


def test_ls_is_a_table_of_what_is_there(run: Run, tree: Path) -> None:
    ran = run("cassettes", "ls", "tests")
    head, *lines = ran.out.splitlines()
    assert head.split() == ["cassette", "events", "calls", "size", "age", "policy", "status"]
    assert [line.split()[:3] for line in lines] == [
        ["tests/test_a/one.jsonl", "3", "1"],
        ["tests/test_b/two.jsonl", "3", "1"],
    ]
    assert all(line.split()[-2:] == ["built-in", "ok"] for line in lines)
    assert (ran.code, ran.err) == (0, "")


def test_ls_says_what_is_wrong(run: Run, tree: Path) -> None:
    flip(tree / "tests" / "test_a" / "one.jsonl", b'"result":"b"')
    begin(tree / "tests" / "open.jsonl").sink.leave()
    later = tree / "tests" / "later.jsonl"
    text = GOLDEN.read_text(encoding="utf-8").replace('"version":"1.0"', '"version":"9.0"', 1)
    later.write_text(text, encoding="utf-8")
    found = {one["path"]: one for one in run("cassettes", "ls", "tests", "--json").json_lines()}
    assert {path: one["status"] for path, one in found.items()} == {
        "tests/test_a/one.jsonl": "damaged",
        "tests/test_b/two.jsonl": "ok",
        "tests/open.jsonl": "unfinished",
        "tests/later.jsonl": "too new",
    }
    assert found["tests/test_b/two.jsonl"]["pin"] == "built-in"
    assert "later" in run("cassettes", "ls", "tests").out


def test_a_folder_that_is_none_is_a_mistake(run: Run, tree: Path) -> None:
    assert run("cassettes", "ls", "nowhere").code == 2


# unused and prune


def test_unused_are_those_that_no_test_asks_for(run: Run, tree: Path) -> None:
    report = _report(tree, "tests/test_a/one.jsonl", None)
    ran = run("cassettes", "unused", "tests", "--report", report)
    assert (ran.code, ran.out) == (1, "tests/test_b/two.jsonl\n")
    assert "1 of 2 cassettes" in ran.err
    both = _report(tree, "tests/test_a/one.jsonl", str(tree / "tests" / "test_b" / "two.jsonl"))
    assert run("cassettes", "unused", "tests", "--report", both).code == 0


MARKED = """
import pytest

@pytest.mark.reenact(cassette="one")
def test_one():
    pass

def test_two():
    pass
"""


def test_pytest_is_asked_where_there_is_no_report(
    spawn: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "other"):
        _cassette(tmp_path / ".reenact" / "cassettes" / f"{name}.jsonl")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(MARKED, encoding="utf-8")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p reenact.pytest_plugin"}
    ran = spawn("cassettes", "unused", **alone)
    assert (ran.code, ran.out) == (1, ".reenact/cassettes/other.jsonl\n")
    ran = spawn(
        "cassettes",
        "prune",
        "--yes",
        **{**alone, "PYTEST_ADDOPTS": f"{alone['PYTEST_ADDOPTS']} -k one"},
    )
    assert ran.code == 2
    assert "is about some of the tests" in ran.err
    (tmp_path / "test_it.py").write_text("1 / 0\n", encoding="utf-8")
    ran = spawn("cassettes", "prune", "--yes", **alone)
    assert ran.code == 2
    assert "ZeroDivisionError" in ran.err
    assert (tmp_path / ".reenact" / "cassettes" / "other.jsonl").exists()


def test_prune_lists_first_and_removes_when_told(run: Run, tree: Path) -> None:
    report = _report(tree, "tests/test_a/one.jsonl")
    blobs = tree / "tests" / "test_b" / "two.jsonl.blobs"
    blobs.mkdir()
    ran = run("cassettes", "prune", "tests", "--report", report)
    assert (ran.code, ran.out) == (1, "tests/test_b/two.jsonl\n")
    assert blobs.exists()
    ran = run("cassettes", "prune", "tests", "--report", report, "--yes", "--json")
    assert (ran.code, ran.json()) == (0, {"path": "tests/test_b/two.jsonl", "removed": True})
    assert not blobs.exists()
    assert [path.name for path in (tree / "tests" / "test_b").iterdir()] == []
    assert run("cassettes", "ls", "tests", "--json").json()["path"] == "tests/test_a/one.jsonl"


@pytest.mark.parametrize(
    "content",
    [
        None,
        "{",
        '{"version": 2, "tests": []}',
        '{"version": 1, "tests": []}',
        '{"version": 1, "tests": [{"id": "t", "cassette": "x.jsonl"}], "errors": 1}',
        '{"version": 1, "tests": [{"id": "t", "cassette": "x.jsonl"}], "partial": true}',
    ],
    ids=["missing", "no JSON", "later", "no tests", "not whole", "partial"],
)
def test_a_report_that_does_not_know_all_tests_removes_nothing(
    run: Run, tree: Path, content: str | None
) -> None:
    report = tree / "report.json"
    if content is not None:
        report.write_text(content, encoding="utf-8")
    ran = run("cassettes", "prune", "tests", "--yes", "--report", report)
    assert ran.code == 2
    assert ran.hint
    assert (tree / "tests" / "test_b" / "two.jsonl").exists()


# stale


def test_what_is_up_to_date_is_not_stale(run: Run, tree: Path) -> None:
    ran = run("cassettes", "stale", "tests")
    assert (ran.code, ran.out) == (0, "")


def test_stale_says_why(run: Run, tree: Path) -> None:
    folder = tree / "tests"
    shutil.copy(GOLDEN, folder / "old.jsonl")
    shutil.copytree(f"{GOLDEN}.blobs", folder / "old.jsonl.blobs")
    _cassette(folder / "open.jsonl", redaction="none")
    other = PolicyRef("other", "sha256:" + "0" * 64)
    changed = PolicyRef("default", "sha256:" + "0" * 64)
    for name, policy in (("other", other), ("changed", changed)):
        with start_recording(folder / f"{name}.jsonl", policy=policy) as recording:
            recording.add(*mutation(1))
    (folder / "test_a" / "one.jsonl.update").write_bytes(b"")
    ran = run("cassettes", "stale", "tests", "--json")
    assert ran.code == 1
    found = {Path(one["path"]).name: " ".join(one["reasons"]) for one in ran.json_lines()}
    assert "older form" in found["old.jsonl"]
    assert "profile none, now it is default" in found["open.jsonl"]
    assert "policy other cannot be found" in found["other.jsonl"]
    assert "policy default is not the one" in found["changed.jsonl"]
    assert "leftover" in found["one.jsonl"]
    assert "two.jsonl" not in found


# check


def test_what_may_be_shared_passes_in_silence(run: Run, tree: Path) -> None:
    ran = run("cassettes", "check")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_a_secret_that_was_recorded_is_refused_and_not_shown(run: Run, tree: Path) -> None:
    tape = _cassette(tree / "tests" / "raw.jsonl", {"body": f"it is {SECRET}"}, redaction="none")
    ran = run("cassettes", "check", tape, tree / "tests" / "test_a" / "one.jsonl")
    assert ran.code == 4
    assert ran.out.startswith(f"{tape}: line 3: text that looks like a secret (shape.")
    assert SECRET not in ran.out + ran.err
    assert "1 of 2 files refused" in ran.err
    assert run("cassettes", "check", tape, "--json").json()["path"] == str(tape)


def test_a_password_is_refused_for_its_name(run: Run, tree: Path) -> None:
    tape = _cassette(tree / "tests" / "raw.jsonl", {"password": "hunter2"}, redaction="none")
    ran = run("cassettes", "check", "tests")
    assert ran.code == 4
    assert "hunter2" not in ran.out + ran.err
    assert str(tape.relative_to(tree)) in ran.out


def test_what_was_redacted_is_not_found_again(run: Run, tree: Path) -> None:
    said = {"password": "hunter2", "text": f"it is {SECRET}", "cookie": "a=b"}
    _cassette(tree / "tests" / "fine.jsonl", said)
    _cassette(tree / "tests" / "strict.jsonl", said, redaction="strict")
    assert run("cassettes", "check", "tests").code == 0


def test_damage_and_what_was_never_finished_are_refused(run: Run, tree: Path) -> None:
    flip(tree / "tests" / "test_a" / "one.jsonl", b'"result":"b"')
    begin(tree / "tests" / "open.jsonl").sink.leave()
    ran = run("cassettes", "check", "tests/test_a/one.jsonl", "tests/open.jsonl.part")
    assert ran.code == 3
    assert "tests/test_a/one.jsonl: damaged" in ran.out
    assert "tests/open.jsonl: unfinished" in ran.out


def test_the_text_of_other_cassettes_is_looked_at(run: Run, tree: Path) -> None:
    file = tree / "vcr.yaml"
    file.write_text(f"interactions:\n- request:\n    body: {SECRET}\nversion: 1\n", "utf-8")
    ran = run("cassettes", "check", file)
    assert (ran.code, SECRET in ran.out) == (4, False)
    assert ran.out.startswith(f"{file}: line 3: ")
    (tree / "other.yaml").write_text(f"token: {SECRET}\n", encoding="utf-8")
    assert run("cassettes", "check", tree / "other.yaml").code == 0


def test_the_hook_runs_the_check(run: Run, tree: Path) -> None:
    """What pre-commit does with it: the entry, and the names of files that match."""
    file = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    assert first == "- id: reenact-check"
    hook = dict(line.strip().split(": ", 1) for line in rest)
    assert [bool(re.search(hook["files"], name)) for name in ("a.jsonl", "a.py")] == [True, False]
    program, *words = hook["entry"].split()
    assert program == "reenact"
    assert run(*words, "tests/test_a/one.jsonl", "tests/data.jsonl").code == 0
