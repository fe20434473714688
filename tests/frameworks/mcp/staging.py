"""Programs that talk to MCP servers: recorded with the server, replayed without one."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.format.event import Event
from tests.conftest import SOAK
from tests.frameworks.environments import ROOT
from tests.integration.running import PATIENCE, Ran
from tests.unit.policy.sets import POLICY, put_set

__all__ = ["ENVIRONMENTS", "Stage", "mostly", "serving"]

ENVIRONMENTS = {"1": "mcp1", "2": "httpx2"}
"""By the major of the SDK: an environment that has it."""


def mostly(major: str) -> pytest.MarkDecorator:
    """The test is run with this major of the SDK; in ``make soak`` with the other one, too. For what
    is decided before or below the SDK, so that one of them shows it."""
    majors = sorted(ENVIRONMENTS) if SOAK else [major]
    return pytest.mark.parametrize("stage", majors, indirect=True)


_PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass
class Stage:
    """``python`` has the SDK; ``folder`` holds programs, recordings, and the journal to which a
    server writes that it was started, and which tools it ran."""

    python: Path
    major: str
    folder: Path

    def __post_init__(self) -> None:
        for program in _PROGRAMS.glob("*.py"):
            shutil.copy(program, self.folder)

    def edit(self, program: str, *edits: tuple[str, str]) -> None:
        """Each edit replaces a text that is in the program."""
        place = self.folder / f"{program}.py"
        text = place.read_text("utf-8")
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new)
        place.write_text(text, "utf-8")

    def write(self, program: str, text: str) -> None:
        """A program of its own."""
        (self.folder / f"{program}.py").write_text(text, "utf-8")

    def policy(self, *boundaries: dict[str, Any], **more: Any) -> None:
        """The policy ``mcp``, which a run may name."""
        put_set(self.folder, {**POLICY, "id": "mcp", "boundaries": list(boundaries), **more})

    @property
    def journal(self) -> list[str]:
        """What servers have done so far."""
        place = self.folder / "journal"
        return place.read_text("utf-8").splitlines() if place.exists() else []

    def events(self, name: str = "c") -> list[Event]:
        """What was recorded."""
        with reenact.open_recording(self.folder / name) as source:
            return list(source)

    def plain(self, program: str, **environ: str) -> Ran:
        """Without us."""
        return self._start([f"{program}.py"], environ)

    def record(self, program: str, *words: str, **environ: str) -> Ran:
        """Run the program and capture it."""
        return self._run("--capture", "c", *words, program=program, environ=environ)

    def replay(self, program: str, *words: str, **environ: str) -> Ran:
        """Re-enact it; no server does anything."""
        before = self.journal
        ran = self._run("--replay", "c", *words, program=program, environ=environ)
        assert self.journal == before, "the replay went to a server"
        return ran

    def again(self, program: str, *words: str, **environ: str) -> Ran:
        """The same where a server may be asked."""
        return self._run("--replay", "c", *words, program=program, environ=environ)

    def check(self, program: str, **environ: str) -> Ran:
        """Record and replay: both must do the same. What the recorded run gave."""
        recorded = self.record(program, **environ)
        assert recorded.code == 0, recorded.err
        replayed = self.replay(program, **environ)
        assert replayed.own == recorded.own
        assert ", 0 live, 0 unused" in replayed.summary, replayed.summary
        return recorded

    def run(self, *words: str, program: str, **environ: str) -> Ran:
        """``reenact run`` with these words."""
        return self._run(*words, program=program, environ=environ)

    def _run(self, *words: str, program: str, environ: dict[str, str]) -> Ran:
        command = ["-m", "reenact", "run", *words, "--", str(self.python), f"{program}.py"]
        return self._start(command, environ)

    def _start(self, words: list[str], environ: dict[str, str]) -> Ran:
        done = subprocess.run(
            [str(self.python), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.folder,
            env=self.environ(**environ),
            timeout=PATIENCE,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode())

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of every process."""
        names = ("PATH", "REENACT_CONFIG_DIR", "TMPDIR")
        return {
            **{name: os.environ[name] for name in names if name in os.environ},
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT / "src"),
            "JOURNAL": str(self.folder / "journal"),
            **more,
        }


@contextmanager
def serving(stage: Stage, kind: str) -> Iterator[str]:
    """The address of a server that speaks ``http`` or ``sse``, while it is there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = listening.fileno()
        process = subprocess.Popen(
            [str(stage.python), "server.py", kind, str(number)],
            cwd=stage.folder,
            env={**stage.environ(), "PYTHONPATH": ""},
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield address
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
