"""``make demo`` works, and cleans up behind itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_demo_comes_out_as_it_should(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "demo.py"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env=environ,
        cwd=tmp_path,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert str(tmp_path) not in done.stdout
    assert list(tmp_path.iterdir()) == []
