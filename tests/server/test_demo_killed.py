"""A demo that is killed takes its apps with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_nothing_of_a_demo_that_was_killed_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-m", "reenact", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as demo:
        assert demo.stderr is not None
        assert next(line for line in demo.stderr if "/demo?token=" in line)
        demo.kill()
        _, rest = demo.communicate(timeout=60)  # ends when nobody has the pipe any more
    assert "Traceback" not in rest
