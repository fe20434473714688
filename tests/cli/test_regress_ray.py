"""``reenact regress --engine ray``, on a real Ray of this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import reenact
from tests.cli.conftest import Run

HINT = "pip install 'reenact[ray]'"

AGENT = """
import os
import reenact

@reenact.boundary
def ask(question):
    raise AssertionError("asked for real")

def agent(question):
    if question == "q1":
        return ask("something else")
    if question == "q2":
        os._exit(7)
    return ask(question)

def kills(question):
    os.kill(os.getppid(), 9)
"""


@reenact.boundary
def ask(question: str) -> str:
    return question.upper()


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Skips where it is not installed; in CI that is an error."""
    if find_spec("ray") is None:
        if os.environ.get("CI"):
            pytest.fail(f"ray is not installed (hint: {HINT})")
        pytest.skip(f"ray is not installed: {HINT}")
    ray = import_module("ray")
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=80 * 1024 * 1024,
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of them, of which two go wrong; and the program ``agentry:agent``."""
    (tmp_path / "agentry.py").write_text(AGENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for number in range(4):
        with reenact.session(capture=f"runs/{number}", mode="record") as session:
            session.record_event("run_start", {"input": f"q{number}"})
            session.record_event("run_end", {"status": "ok", "output": ask(f"q{number}")})


def _told(run: Run, *words: str) -> dict[str, Any]:
    """What it says, but for what is another each time."""
    told: dict[str, Any] = run("regress", "runs", "-q", "--json", *words).json()
    del told["seconds"]
    ended = told.pop("run")["ended"]
    for group in told["groups"]:
        group["first"].pop("seconds")
    return {**told, "ended": ended}


@pytest.mark.slow
def test_it_finds_what_is_found_here(run: Run, ray: Any, recordings: None) -> None:
    words = ("--target", "agentry:agent", "-j", "1")
    far = ("--engine", "ray", "--journal", "j.jsonl")
    told = _told(run, *words, *far)
    assert told["counts"] == {
        "ok": 2, "diverged": 1, "failed": 1, "unreadable": 0, "timeout": 0, "known": 0,
    }  # fmt: skip
    assert told == _told(run, *words)
    lines = Path("j.jsonl").read_bytes().splitlines(keepends=True)
    Path("j.jsonl").write_bytes(b"".join(lines[:3]))
    assert told == _told(run, *words, *far, "--resume")
    stopped = _told(run, *words, "--engine", "ray", "-x")
    assert (stopped["ended"], stopped["notRun"]) == ("stopped", 2)


@pytest.mark.slow
def test_a_program_and_a_job_that_makes_no_sense(run: Run, ray: Any, recordings: None) -> None:
    program = (sys.executable, "-c", "from agentry import agent; agent('q0')")
    found = run("regress", "runs/0", "-q", "--json", "--engine", "ray", "--", *program).json()
    assert found["counts"]["ok"] == 1, found
    ran = run("regress", "runs", "-q", "--engine", "ray", "--target", "agentry:nobody")
    assert ran.code == 2
    assert "agentry:nobody cannot be loaded" in ran.err


@pytest.mark.slow
def test_a_worker_that_is_lost_and_recordings_that_are_not_there(
    ray: Any, recordings: None
) -> None:
    from reenact.runs.regression.job import Job
    from reenact.runs.regression.on_ray import OnRay

    job = Job(target="agentry:kills")
    found = list(OnRay(job, 1, None).perform([Path("runs/0"), Path("runs/nowhere")]))
    assert {one.recording: (one.status, one.cause) for one in found} == {
        "runs/0": ("failed", "its worker was lost"),
        "runs/nowhere": ("unreadable", "not on the machine of the worker"),
    }
    (missing,) = (one for one in found if one.status == "unreadable")
    assert "ray job submit --working-dir" in missing.detail


def test_without_ray_it_says_how_to_get_it(spawn: Run, recordings: None, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('not here')", encoding="utf-8")
    words = ("runs", "--target", "agentry:agent", "-q", "--json")
    ran = spawn("regress", *words, "--engine", "ray", PYTHONPATH=_path(tmp_path))
    assert ran.code == 2
    assert json.loads(ran.out)["error"]["message"] == "ray cannot be loaded: not here"
    assert ran.hint == HINT
    here = ("runs/0", "--target", "agentry:agent", "-q")
    assert spawn("regress", *here, PYTHONPATH=_path(tmp_path)).code == 0, "nobody loads it"


def _path(first: Path) -> str:
    return os.pathsep.join([str(first), *filter(None, [os.environ.get("PYTHONPATH")])])
