"""``reenact run --isolate``: any program, and no way out."""

from __future__ import annotations

import shutil
import sys

import pytest

from reenact.hermetic.isolation import isolation_available, isolation_obstacle
from tests.integration.running import Ran, Theatre

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not isolation_available(), reason=isolation_obstacle()),
]


@pytest.fixture(scope="module")
def recorded(stage: Theatre) -> Ran:
    stage.write("program.py", "import sys\nfrom ask import ask\nprint(ask('/json'))\nsys.exit(3)")
    return stage.record("program.py")


def _replay(stage: Theatre, *words: str) -> Ran:
    connections = stage.server.connections
    ran = stage.run("--replay", "c", "--isolate", *words)
    assert stage.server.connections == connections
    return ran


def test_a_python_program_replays(recorded: Ran, stage: Theatre) -> None:
    ran = _replay(stage, "--", sys.executable, "program.py")
    assert ran.own == recorded.own
    assert ran.summary == "replayed 1 call in 1 lane, 0 live, 0 unused"


def test_a_divergence_is_one_here_too(recorded: Ran, stage: Theatre) -> None:
    code = "from ask import ask\ntry: ask('/json?other')\nexcept BaseException: pass"
    ran = _replay(stage, "--", sys.executable, "-c", code)
    assert ran.code == 1
    assert "event_payload_mismatch" in ran.err


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_a_program_that_is_not_python_gets_nowhere(recorded: Ran, stage: Theatre) -> None:
    port = stage.server.url.rpartition(":")[2]
    script = f"echo started; exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected; exit 6"
    ran = _replay(stage, "--lenient", "--", "bash", "-c", script)
    assert (ran.code, ran.out) == (6, b"started\n")
    assert "event_missing" in ran.err
