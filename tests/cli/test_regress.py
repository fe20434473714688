"""``reenact regress``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import reenact
from tests.cli.conftest import Run
from tests.snapshots import Snapshot

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

def several(question):
    return (other if question == "q0" else changed)(question)

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
    ran = run(*words, "agentry:changed", "--update-baseline")
    assert (ran.code, ran.err.splitlines()) == (
        0,
        [
            "reenact: known.json written: 1 recording known to go wrong, 1 new",
            "reenact: 3 recordings: 2 ok, 1 diverged",
        ],
    )
    ran = run(*words, "agentry:changed")
    assert (ran.code, ran.err) == (0, "reenact: 3 recordings: 2 ok, 1 known\n")
    assert run(*words, "agentry:other").code == 1


def test_a_new_baseline_keeps_what_was_not_run(run: Run, recordings: Path) -> None:
    words = ("regress", "-q", "--baseline", "known.json", "--update-baseline", "--target")
    assert run(*words, "agentry:other", "runs/0").code == 0
    assert run(*words, "agentry:changed", "runs/1").code == 0
    known = json.loads(Path("known.json").read_bytes())["known"]
    assert {name: one["cause"].split()[0] for name, one in known.items()} == {
        "runs/0": "another",
        "runs/1": "event_payload_mismatch",
    }
    assert known["runs/1"]["paths"] == ["changed $.request.question"]
    ran = run(*words, "agentry:agent", "runs")
    assert (ran.code, ran.err.splitlines()[0]) == (
        0,
        "reenact: known.json written: 0 recordings known to go wrong, 2 gone",
    )


def test_a_journal_is_gone_on_with(run: Run, recordings: Path) -> None:
    words = ("regress", "runs", "-q", "--journal", "j.jsonl", "--target")
    assert run(*words, "agentry:agent").code == 0
    head, first, second, _ = Path("j.jsonl").read_bytes().splitlines(keepends=True)
    done = first.replace(b'"served":1', b'"served":41')
    Path("j.jsonl").write_bytes(head + done + second[:10])  # killed while it wrote
    ran = run(*words, "agentry:agent", "--resume")
    assert ran.err == "reenact: 3 recordings: 3 ok\n"
    _, *lines = Path("j.jsonl").read_bytes().splitlines(keepends=True)
    assert lines[0] == done, "what was done is not done again"
    assert sorted(json.loads(line)["recording"] for line in lines) == ["runs/0", "runs/1", "runs/2"]


def test_a_journal_of_another_job_is_not_gone_on_with(run: Run, recordings: Path) -> None:
    words = ("regress", "runs", "-q", "--journal", "j.jsonl", "--target")
    assert run(*words, "agentry:agent").code == 0
    before = Path("j.jsonl").read_bytes()
    ran = run(*words, "agentry:other", "--resume")
    assert ran.code == 2
    assert 'the journal of a different job: {"target":"agentry:agent"}' in ran.err
    assert run(*words, "agentry:nobody").code == 2
    assert Path("j.jsonl").read_bytes() == before, "nothing was run"


def test_it_stops_at_the_first_that_goes_wrong(run: Run, recordings: Path) -> None:
    words = ("regress", "runs", "-q", "-j", 1, "-x", "--target", "agentry:other")
    assert run(*words).err.splitlines() == [
        "reenact: 1 recording: 1 failed",
        "reenact: stopped at the first that went wrong: 2 recordings not re-enacted",
    ]


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
        (("runs", "--shard", "4/3"), "invalid shard '4/3'"),
        (("runs", "--target", "agentry:agent", "--", "x"), "exclude each other"),
        (("runs", "--policy", "nobody"), "nobody"),
        (("runs", "--address", "auto"), "--address requires the engine ray"),
        ((), "no recordings are given"),
        (("runs", "--since", "1d"), "--since requires --from-server"),
        (("--from-server", "--app", "shop"), "--app finds exchanges"),
        (("--from-server", "exchanges", "--saved", "x", "--app", "a"), "--saved has its own"),
        (("--from-server",), "no server is specified"),
        (("capture:cap_1",), "no server is specified"),
        (("s3://",), "s3:// has no bucket name"),
        (
            ("runs", "-x", "--baseline", "b", "--update-baseline"),
            "--update-baseline requires a complete run",
        ),
    ],
    ids=[
        "nowhere",
        "nobody",
        "no-function",
        "resume",
        "shard",
        "both",
        "policy",
        "address",
        "none",
        "since",
        "captures",
        "saved",
        "server",
        "capture",
        "bucket",
        "part",
    ],
)
def test_misuse(run: Run, recordings: Path, words: tuple[str, ...], says: str) -> None:
    ran = run("regress", "-q", *words)
    assert ran.code in (2, 3)
    assert says in ran.err


def test_a_recording_that_does_not_name_its_program(run: Run, recordings: Path) -> None:
    ran = run("regress", "runs/0", "-q")
    assert ran.code == 3
    assert "does not contain the command of its program" in ran.out


@pytest.mark.parametrize(
    "words, says",
    [
        (("--html", "runs"), "--html cannot be written to runs: it is a folder"),
        (("--junit", "program.py/x.xml"), "--junit cannot be written to program.py/x.xml: "),
        (("--report", "x", "--html", "./x"), "--report and --html are both to be written to ./x"),
        (("--journal", "a\0b"), "--journal cannot be written"),
        (("--update-baseline", "--baseline", "/dev/full/x"), "--baseline cannot be written"),
    ],
    ids=["folder", "under-a-file", "twice", "nul", "baseline"],
)
def test_places_are_looked_at_before_anything_runs(
    run: Run, recordings: Path, words: tuple[str, ...], says: str
) -> None:
    ran = run("regress", "-q", "runs", "--target", "agentry:nobody", *words)
    assert ran.code == 2
    assert says in ran.err
    assert "nobody" not in ran.err


def test_folders_of_reports_are_made(run: Run, recordings: Path) -> None:
    words = ("--junit", "a/j.xml", "--report", "b/c/r.json", "--html", "d/p.html")
    assert run("regress", "-q", "runs/0", "--target", "agentry:agent", *words).code == 0
    report = json.loads(Path("b/c/r.json").read_bytes())
    assert (report["run"]["total"], report["run"]["ended"]) == (1, "complete")
    assert 'tests="1"' in Path("a/j.xml").read_text(encoding="utf-8")
    assert "<title>reenact regress</title>" in Path("d/p.html").read_text(encoding="utf-8")


def test_what_it_says(run: Run, snapshot: Snapshot, recordings: Path) -> None:
    (recordings / "2/manifest.json").unlink()
    Path("known.json").write_text(
        '{"version": 1, "known": {"runs/0": {"cause": "another output"}}}', encoding="utf-8"
    )
    words = ("runs", "--target", "agentry:several", "--baseline", "known.json", "-q")
    ran = run("regress", *words)
    assert ran.code == 1
    snapshot("regress", ran.out + ran.err)


def test_names_that_are_no_text_and_folders_that_are_named_twice(
    run: Run, recordings: Path
) -> None:
    odd = os.fsdecode(b"runs/\xff\n\x1b[31mred")
    (recordings / "1").rename(odd)
    (recordings / "again").symlink_to(recordings, target_is_directory=True)
    words = ("runs", recordings, "runs/../runs/0", "--target", "agentry:changed", "-q")
    ran = run("regress", *words, "--html", "p.html", "--junit", "j.xml", "--journal", "j.jsonl")
    assert ran.err == "reenact: 3 recordings: 2 ok, 1 diverged\n"
    assert ran.out.splitlines()[1] == "  runs/\\xff\\n\\u001b[31mred"
    assert ElementTree.parse("j.xml").getroot()[0].get("tests") == "3"


ODD = """
import asyncio, os, signal, sys, threading
import agentry

def exits(q): os._exit(7)
def killed(q): os.kill(os.getpid(), signal.SIGKILL)
def leaves(q): sys.exit("so long")
def deep(q): return deep(q)
def half(q): raise ValueError("half \\ud800")
def swallows(q):
    try:
        return agentry.ask("something else")
    except Exception as error:
        raise RuntimeError("wrapped") from None
def loud(q):
    print("x" * 1_000_000)
    print("y" * 1_000_000, file=sys.stderr)
    return agentry.agent(q)
def wanders(q):
    os.chdir("/")
    return agentry.agent(q)
def threads(q):
    threading.Thread(target=threading.Event().wait).start()
    return agentry.agent(q)
async def tasks(q):
    await asyncio.sleep(0)
    return await agentry.later(q)
def once(q):
    if agentry.__dict__.setdefault("seen", q) != q:
        os._exit(3)
    return agentry.agent(q)

def any_of_them(q):
    return globals()[q.split()[1]](q)
"""


def test_whatever_a_function_does_the_others_are_not_touched(run: Run, recordings: Path) -> None:
    Path("oddities.py").write_text(ODD, encoding="utf-8")
    wanted = {
        "exits": "failed: its process ended with 7",
        "killed": "failed: its process ended with -9",
        "leaves": "failed: SystemExit: so long",
        "deep": "failed: RecursionError: maximum recursion depth exceeded",
        "half": "failed: ValueError: half \\ud800",
        "swallows": "diverged: event_payload_mismatch network ask $.request.question",
        "loud": "ok: ",
        "wanders": "ok: ",
        "threads": "ok: ",
        "tasks": "ok: ",
        "once": "ok: ",
        "once ": "ok: ",
    }
    for number, name in enumerate(wanted):
        with reenact.session(capture=f"odd/{number:02}-{name}", mode="record") as session:
            session.record_event("run_start", {"input": f"q {name}"})
            output = ask(f"q {name}") + "!"
            session.record_event("run_end", {"status": "ok", "output": output})
    words = ("odd", "--target", "oddities:any_of_them", "-q", "-j", 1, "--journal", "j.jsonl")
    assert run("regress", *words).code == 1
    _, *lines = Path("j.jsonl").read_text(encoding="utf-8").splitlines()
    found = {one["recording"]: one for one in map(json.loads, lines)}
    told = {
        name.partition("-")[2]: f"{one['status']}: {one.get('cause', '')}"
        for name, one in found.items()
    }
    assert told == wanted


STOPS = """
import os, signal
from agentry import agent, changed

def stops(question):
    if question == "q1" and not os.path.exists("go on"):
        while not os.path.exists("j.jsonl") or len(open("j.jsonl", "rb").readlines()) < 2:
            pass
        os.kill(os.getppid(), getattr(signal, os.environ["SIGNAL"]))
        signal.pause()
    return changed(question)
"""


STOPPED = ("runs", "-q", "-j", "1", "--target", "stopping:stops", "--journal", "j.jsonl")


@pytest.mark.parametrize("name, code", [("SIGINT", 130), ("SIGTERM", 143)])
def test_what_is_done_when_it_is_interrupted_is_kept(
    spawn: Run, recordings: Path, name: str, code: int
) -> None:
    Path("stopping.py").write_text(STOPS, encoding="utf-8")
    reports = ("--report", "r.json", "--junit", "j.xml", "--html", "p.html")
    ran = spawn("regress", *STOPPED, *reports, SIGNAL=name, LC_ALL="C")
    assert ran.code == code, ran.err
    assert ran.err.splitlines() == [
        "reenact: 1 recording: 1 ok",
        "reenact: interrupted: 2 recordings not re-enacted",
    ]
    report = json.loads(Path("r.json").read_bytes())
    assert (report["run"]["ended"], report["notRun"]) == ("interrupted", 2)
    assert ElementTree.parse("j.xml").getroot()[0].get("tests") == "1"
    assert '"notRun":2' in Path("p.html").read_text(encoding="utf-8")
    assert len(Path("j.jsonl").read_bytes().splitlines()) == 2


def test_a_run_that_is_gone_on_with_is_like_one_that_was_not_interrupted(
    run: Run, recordings: Path
) -> None:
    Path("stopping.py").write_text(STOPS, encoding="utf-8")
    Path("go on").touch()
    whole = run("regress", *STOPPED, "--json").json()
    head, first, *_ = Path("j.jsonl").read_bytes().splitlines(keepends=True)
    Path("j.jsonl").write_bytes(head + first)
    resumed = run("regress", *STOPPED, "--resume", "--json").json()
    assert (resumed["run"]["resumed"], whole["run"]["resumed"]) == (1, 0)
    for one in (resumed, whole):
        del one["run"], one["seconds"]
        for group in one["groups"]:
            del group["first"]["seconds"]
    assert resumed == whole


def test_without_ray_it_says_how_to_get_it(spawn: Run, recordings: Path) -> None:
    (recordings.parent / "ray.py").write_text("raise ImportError('not here')", encoding="utf-8")
    words = ("regress", "runs", "--target", "agentry:agent", "-q")
    path = os.pathsep.join([str(recordings.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = spawn(*words, "--json", "--engine", "ray", PYTHONPATH=path)
    assert ran.code == 2
    assert ran.json()["error"]["message"] == "ray cannot be loaded: not here"
    assert ran.hint == "pip install 'reenact[ray]'"
    assert spawn(*words, PYTHONPATH=path).code == 0, "nobody loads it"
