"""Run in an environment with Ray: regressions on a real Ray of this machine, told as one JSON object.

python on_ray.py            in an empty folder; with an environment on standard input, as JSON, that
                            is set when Ray runs already: it comes to workers from us, or not at all
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import reenact
from reenact.cli.main import main
from reenact.runs.regression.executors import RayEngine
from reenact.runs.regression.jobs import Job

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
    if question == "q9":
        raise RuntimeError(f"I know {os.environ['REENACT_API_KEY']}")
    return ask(question)

def kills(question):
    os.kill(os.getppid(), 9)
"""
WORDS = ("--target", "agentry:agent", "-j", "1")
FAR = ("--engine", "ray", "--journal", "journal.jsonl")


@reenact.boundary
def ask(question: str) -> str:
    return question.upper()


def record() -> None:
    """Four recordings, of which two go wrong; and the program ``agentry:agent``."""
    Path("agentry.py").write_text(AGENT, encoding="utf-8")
    for number in range(4):
        with reenact.session(capture=f"runs/{number}", mode="record") as session:
            session.record_event("run_start", {"input": f"q{number}"})
            session.record_event("run_end", {"status": "ok", "output": ask(f"q{number}")})


def regress(*words: str) -> tuple[int, str, str]:
    """The exit code, and what is printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["regress", *words])
    return code, out.getvalue(), err.getvalue()


def told(*words: str) -> dict[str, Any]:
    """What it says, but for what is another each time."""
    said: dict[str, Any] = json.loads(regress("runs", "-q", "--json", *words)[1])
    del said["seconds"]
    said["ended"] = said.pop("run")["ended"]
    for group in said["groups"]:
        group["first"].pop("seconds")
    return said


def resumed() -> dict[str, Any]:
    """As if the first run had been interrupted after two."""
    journal = Path("journal.jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    return told(*WORDS, *FAR, "--resume")


def try_afar() -> dict[str, Any]:
    """Recordings on a server and in a store, which are not in any folder here."""
    reports = ("--html", "p.html", "--junit", "j.xml", "--report", "r.json", "--journal", "j.jsonl")
    words = (*WORDS, "--engine", "ray", "--cache", "cache", "-q", "--json", *reports)
    found = json.loads(regress("s3://recordings/runs", "--from-server", *words)[1])
    secrets = [os.environ[name].encode() for name in ("REENACT_API_KEY", "AWS_SECRET_ACCESS_KEY")]
    found["leaks"] = [str(file) for file in _files() for secret in secrets if secret in _read(file)]
    return found


def _files() -> list[Path]:
    """What we have written, and what Ray has."""
    session = import_module("ray")._private.worker._global_node.get_session_dir_path()
    return [one for folder in (".", session) for one in Path(folder).rglob("*") if one.is_file()]


def _read(file: Path) -> bytes:
    with contextlib.suppress(OSError):
        return file.read_bytes()
    return b""


def try_all() -> dict[str, Any]:
    program = (sys.executable, "-c", "from agentry import agent; agent('q0')")
    lost = RayEngine(Job(target="agentry:kills"), 1, None)
    return {
        "afar": try_afar(),
        "far": told(*WORDS, *FAR),
        "near": told(*WORDS),
        "resumed": resumed(),
        "stopped": told(*WORDS, "--engine", "ray", "-x"),
        "program": json.loads(
            regress("runs/0", "-q", "--json", "--engine", "ray", "--", *program)[1]
        ),
        "nobody": regress("runs", "-q", "--engine", "ray", "--target", "agentry:nobody"),
        "lost": [
            (one.recording, one.status, one.cause, one.detail)
            for one in lost.perform([Path("runs/0"), Path("runs/nowhere")])
        ],
    }


if __name__ == "__main__":
    record()
    ray = import_module("ray")
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=80 * 1024 * 1024,
    )
    os.environ.update(json.load(sys.stdin))
    found = try_all()
    ray.shutdown()
    print(json.dumps(found))
