"""Running the command line, in this process and in its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reenact.cli.main import main
from tests.cli.programs import COMMAND, PROGRAM
from tests.contract.endpoints import ENDPOINTS
from tests.contract.server import Server
from tests.integration.running import Ran as Whole
from tests.integration.running import Theatre
from tests.snapshots import Snapshot, snapshots_beside


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one JSON value on stdout."""
        (value,) = self.json_lines()
        return value

    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def hint(self) -> str:
        """The last line on stderr, which for an error is its hint."""
        last = self.err.splitlines()[-1]
        assert last.startswith("hint: "), self.err
        return last.removeprefix("hint: ")


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """``run("show", path)``: the command in this process."""

    def call(*words: str | Path | int) -> Ran:
        code = main([str(word) for word in words])
        return Ran(code, *capsys.readouterr())

    return call


def command(*words: str | Path) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-m", "reenact", *map(str, words)]


@pytest.fixture
def spawn() -> Run:
    """``spawn("show", path, LC_ALL="C")``: the command in a process of its own."""

    def call(*words: str | Path, **environ: str) -> Ran:
        done = subprocess.run(
            command(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **environ},
            timeout=60,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def snapshot() -> Snapshot:
    """``snapshot("diff-changed", ran.out)``: it says what it said when somebody last looked."""
    return snapshots_beside(Path(__file__))


@pytest.fixture(autouse=True)
def _wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


# Programs under ``reenact run``


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(ENDPOINTS)
    yield server
    server.stop()


def _theatre(server: Server, folder: Path) -> Theatre:
    theatre = Theatre(server, folder)
    theatre.write("program.py", PROGRAM)
    (folder / ".reenact").mkdir()
    return theatre


@pytest.fixture
def theatre(server: Server, tmp_path: Path) -> Theatre:
    return _theatre(server, tmp_path)


@pytest.fixture(scope="module")
def stage(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Theatre:
    """Shared by the tests that do not change what is recorded there."""
    return _theatre(server, tmp_path_factory.mktemp("stage"))


@pytest.fixture(scope="module")
def recorded(stage: Theatre) -> Whole:
    """The program of ``stage`` as it was recorded, to ``c``."""
    return stage.run("--capture", "c", *COMMAND)


@pytest.fixture
def copy(recorded: Whole, stage: Theatre, theatre: Theatre) -> Theatre:
    """A theatre with a recording of its own."""
    shutil.copytree(stage.folder / "c", theatre.folder / "c")
    return theatre
