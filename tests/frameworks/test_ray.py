"""``reenact regress --engine ray``, on a real Ray of this machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.frameworks.environments import ROOT, build
from tests.frameworks.servers import available

PROGRAM = Path(__file__).with_name("on_ray.py")
_PATIENCE = 600


@pytest.mark.slow
def test_it_finds_what_is_found_here(tmp_path: Path) -> None:
    with available():
        python = build("ray")
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "src")))
    done = subprocess.run(
        [python, PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=_PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["far"]["counts"] == {
        "ok": 2, "diverged": 1, "failed": 1, "unreadable": 0, "timeout": 0, "known": 0,
    }  # fmt: skip
    assert found["far"] == found["near"] == found["resumed"]
    assert (found["stopped"]["ended"], found["stopped"]["notRun"]) == ("stopped", 2)
    assert found["program"]["counts"]["ok"] == 1, found["program"]
    code, _, said = found["nobody"]
    assert code == 2
    assert "agentry:nobody cannot be loaded" in said
    (lost, missing) = sorted(found["lost"])
    assert lost[:3] == ["runs/0", "failed", "its worker was lost"]
    assert missing[:3] == ["runs/nowhere", "unreadable", "not on the machine of the worker"]
    assert "ray job submit --working-dir" in missing[3]
