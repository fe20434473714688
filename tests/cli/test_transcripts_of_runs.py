"""How commands that run programs look: their summary lines, and what they say about divergences."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Ran
from tests.cli.transcripts import transcript
from tests.contract.endpoints import ENDPOINTS
from tests.contract.server import Server
from tests.integration.running import PATIENCE, Theatre, reenact_command
from tests.snapshots import Snapshot

PROGRAM = """
    import sys
    from ask import ask
    print(ask("/json?city=" + sys.argv[1]))
    print(ask("/json?again"))
"""


class _Stage(Theatre):
    """Shows what a person sees: the command ``python`` is the one that runs this."""

    def __init__(self, server: Server, folder: Path) -> None:
        super().__init__(server, folder)
        self.write("program.py", PROGRAM)
        (folder / ".reenact").mkdir()
        self.recorded = self.see("run --capture monday -- python program.py Bern")

    def see(self, line: str) -> str:
        words = [sys.executable if word == "python" else word for word in line.split()]
        done = subprocess.run(
            reenact_command(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.folder,
            env=self.environ(CI="", COLUMNS="100", REENACT_ROOT=""),
            timeout=PATIENCE,
        )
        return transcript(line, Ran(done.returncode, done.stdout.decode(), done.stderr.decode()))

    @property
    def changing(self) -> dict[str, str]:
        """What is drawn before the calls is the library's business: so are their numbers."""
        first, second = (event.seq for event in self.calls("monday"))
        return {
            self.server.url: "http://SERVER",
            os.path.realpath(self.folder): "FOLDER",
            sys.executable: "python",
            f"event {first}": "event FIRST",
            f"event {second}": "event SECOND",
        }


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Stage]:
    server = Server(ENDPOINTS)
    yield _Stage(server, tmp_path_factory.mktemp("stage"))
    server.stop()


def test_recording_and_replaying(stage: _Stage, snapshot: Snapshot) -> None:
    lines = (
        "run --capture monday -- python program.py Bern",
        "run --replay monday -- python program.py Bern",
        "run --replay nowhere -- python program.py Bern",
    )
    text = stage.recorded + "".join(map(stage.see, lines))
    assert text.count("[exit code ") == 2
    snapshot("run", text, stage.changing)


@pytest.mark.parametrize("how", ["strict", "lenient"])
def test_diverging(how: str, stage: _Stage, snapshot: Snapshot) -> None:
    text = stage.see(f"run --replay monday --{how} -- python program.py Rome")
    assert ("[exit code 1]" in text) is (how == "strict")
    snapshot(f"run-{how}", text, stage.changing)


def test_forking(stage: _Stage, snapshot: Snapshot) -> None:
    text = stage.see("fork monday --at call:2 --into tuesday -- python program.py Bern")
    assert "[exit code" not in text
    snapshot("fork", text, stage.changing)
