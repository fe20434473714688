"""``make demo`` works, says the same every time, and cleans up behind itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TIME = re.compile(r"^( +\d+ +)\d+\.\d{3}", re.MULTILINE)


def _run(folder: Path, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "demo.py"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env={
            **os.environ,
            "TMPDIR": str(folder),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **environ,
        },
        cwd=folder,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@pytest.mark.slow
def test_demo_comes_out_as_it_should(tmp_path: Path) -> None:
    said = _run(tmp_path)
    assert str(tmp_path) not in said
    assert list(tmp_path.iterdir()) == []

    live, offline = re.findall(r"^A: (.*)$", said, re.MULTILINE)
    assert live == offline == "Yes, it is 21 degrees."
    assert re.findall(r"requests that reached the server: (\d+)", said) == ["3", "0"]
    assert "calls answered from the recording: 3, made for real: 0" in said
    assert "divergence: event_payload_mismatch, lane 0, event 1" in said
    assert '- "Is it warm in Bern?"' in said
    assert '+ "Is it warm in Rome?"' in said
    assert "copy: damaged at events.jsonl line 3" in said


@pytest.mark.slow
def test_demo_says_the_same_every_time(tmp_path: Path) -> None:
    """But for the times in the table; wherever it runs, and with a proxy in the way."""
    first = _run(tmp_path, CI="1", http_proxy="http://127.0.0.1:9")
    second = _run(tmp_path, CI="")
    assert TIME.sub(r"\1", first) == TIME.sub(r"\1", second)
    assert TIME.search(first)
