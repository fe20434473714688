"""``reenact regress``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import reenact
from tests.cli.conftest import Run

AGENT = """
import reenact

@reenact.boundary
def ask(question):
    raise AssertionError("asked for real")

def agent(question):
    return ask(question) + "!"

async def later(question):
    return agent(question)

def changed(question):
    return ask(question.replace("1", "one")) + "!"

def other(question):
    return agent(question) + "?"

def dies(question):
    import os
    os._exit(7)

def waits(question):
    import threading
    threading.Event().wait()
"""

PROGRAM = """
import sys
from agentry import agent, changed
print((changed if "--changed" in sys.argv else agent)("q1"))
"""


@reenact.boundary
def ask(question: str) -> str:
    return question.upper()


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three recorded runs, and the program that made them: ``agentry:agent``."""
    (tmp_path / "agentry.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        with reenact.session(capture=f"runs/{number}", mode="record") as session:
            session.record_event("run_start", {"input": f"q{number}"})
            output = ask(f"q{number}") + "!"
            session.record_event("run_end", {"status": "ok", "output": output})
    return tmp_path / "runs"


@pytest.mark.parametrize("target", ["agentry:agent", "agentry:later"])
def test_every_recording_is_re_enacted_in_a_function(
    run: Run, recordings: Path, target: str
) -> None:
    ran = run("regress", "runs", "--target", target, "-q", "-j", 2)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "reenact: 3 recordings: 3 ok\n"


def test_what_has_one_cause_is_told_once(run: Run, recordings: Path) -> None:
    ran = run("regress", "runs", "--target", "agentry:changed", "-q")
    assert ran.code == 1
    first, second, *rest = ran.out.splitlines()
    assert first == "1 recording diverged: event_payload_mismatch network ask $.request.question"
    assert second == "  runs/1"
    assert '        - "q1"' in rest
    assert ran.err == "reenact: 3 recordings: 2 ok, 1 diverged\n"


def test_another_output_is_a_failure(run: Run, recordings: Path) -> None:
    found = run("regress", "runs", "--target", "agentry:other", "--json", "-q").json()
    assert found["counts"]["failed"] == 3
    (group,) = found["groups"]
    assert (group["cause"], group["recordings"]) == (
        "another output",
        ["runs/0", "runs/1", "runs/2"],
    )


def test_a_process_that_dies_is_replaced(run: Run, recordings: Path) -> None:
    ran = run("regress", "runs", "--target", "agentry:dies", "-q", "-j", 1)
    assert ran.code == 1
    assert ran.out.startswith("3 recordings failed: its process ended with 7\n")


def test_what_takes_too_long_is_ended(run: Run, recordings: Path) -> None:
    ran = run("regress", "runs/0", "--target", "agentry:waits", "-q", "--timeout", 0.5)
    assert ran.code == 1
    assert ran.out.startswith("1 recording timeout: no end after 0.5 s\n")


def test_a_known_cause_does_not_count_and_another_one_does(run: Run, recordings: Path) -> None:
    words = ("regress", "runs", "-q", "--baseline", "known.json", "--target")
    assert run(*words, "agentry:changed", "--update-baseline").code == 1
    ran = run(*words, "agentry:changed")
    assert (ran.code, ran.err) == (0, "reenact: 3 recordings: 2 ok, 1 known\n")
    assert run(*words, "agentry:other").code == 1


def test_a_journal_is_gone_on_with(run: Run, recordings: Path) -> None:
    words = ("regress", "runs", "-q", "--journal", "j.jsonl", "--target")
    assert run(*words, "agentry:agent").code == 0
    done = Path("j.jsonl").read_bytes().splitlines(keepends=True)
    Path("j.jsonl").write_bytes(done[0] + done[1][:10])  # killed while it wrote
    ran = run(*words, "agentry:other", "--resume")
    assert ran.err == "reenact: 3 recordings: 1 ok, 2 failed\n"
    outcomes = [json.loads(line) for line in Path("j.jsonl").read_bytes().splitlines()]
    assert sorted(one["status"] for one in outcomes) == ["failed", "failed", "ok"]


def test_it_stops_at_the_first_that_goes_wrong(run: Run, recordings: Path) -> None:
    words = ("regress", "runs", "-q", "-j", 1, "-x", "--target", "agentry:other")
    assert run(*words).err == "reenact: 1 recording: 1 failed\n"


def test_parts_are_all_there_is(run: Run, recordings: Path) -> None:
    told = [
        run("regress", "runs", "-q", "--json", "--shard", f"{part}/3", "--target", "agentry:agent")
        for part in (1, 2, 3)
    ]
    assert sum(ran.json()["counts"]["ok"] for ran in told) == 3


def test_a_program_is_run_for_each(run: Run, recordings: Path) -> None:
    ran = run("regress", "runs/1", "-q", "--", sys.executable, "program.py")
    assert (ran.code, ran.err) == (0, "reenact: 1 recording: 1 ok\n")
    ran = run("regress", "runs/1", "-q", "--", sys.executable, "program.py", "--changed")
    assert (ran.code, ran.err) == (1, "reenact: 1 recording: 1 diverged\n")
    assert "$.request.question" in ran.out


def test_what_cannot_be_read_is_told_apart(run: Run, recordings: Path) -> None:
    (recordings / "2/manifest.json").unlink()
    ran = run("regress", "runs", "-q", "--junit", "j.xml", "--target", "agentry:agent")
    assert ran.code == 3
    assert "was never finished" in ran.out
    suite = ElementTree.parse("j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("3", "1", "0")
    assert [case.get("name") for case in suite] == ["runs/0", "runs/1", "runs/2"]


@pytest.mark.parametrize(
    "words, says",
    [
        (("nowhere",), "there is nothing at nowhere"),
        (("runs", "--target", "agentry:nobody"), "agentry:nobody cannot be loaded"),
        (("runs", "--target", "agentry"), "names no function"),
        (("runs", "--resume"), "--resume needs the journal"),
        (("runs", "--shard", "4/3"), "there is no part '4/3'"),
        (("runs", "--target", "agentry:agent", "--", "x"), "exclude each other"),
    ],
    ids=["nowhere", "nobody", "no-function", "resume", "shard", "both"],
)
def test_misuse(run: Run, recordings: Path, words: tuple[str, ...], says: str) -> None:
    ran = run("regress", "-q", *words)
    assert ran.code in (2, 3)
    assert says in ran.err


def test_a_recording_that_does_not_name_its_program(run: Run, recordings: Path) -> None:
    ran = run("regress", "runs/0", "-q")
    assert ran.code == 3
    assert "does not say how its program was started" in ran.out
