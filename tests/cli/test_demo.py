"""``make demo`` works, says the same every time, and cleans up behind itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CHANGING = re.compile(
    r"""(?<=127\.0\.0\.1:)\d+ | (?<=\ sha256:)\w+ | \ +[\d.]+\ Ki?B?\b | \ +\d+\ B\b
    | ^\ +\d+\ +\d+\.\d{3}
    | \b(?:ex|rpl|usr|key|agt)_\w+ | \breenact-[0-9a-f]+\.internal
    | \d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d\ UTC | (?<=completed\ \ 200\ )\ *[\d.,]+$ | [\d.,]+(?=\ ms)
    | \b\d+(?=\ (?:records|heads)) | ^\d+\ (?=\ ) | (?<=record\ )\d+""",
    re.MULTILINE | re.VERBOSE,
)


def _run(folder: Path, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "demo.py"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env={
            **os.environ,
            "COLUMNS": "160",  # said here: fixtures of a module come before the wide screen of a test
            "TMPDIR": str(folder),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **environ,
        },
        cwd=folder,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def said(place: Path) -> str:
    """What it says where nothing is unusual."""
    return _run(place, CI="")


@pytest.mark.slow
def test_demo_comes_out_as_it_should(place: Path, said: str) -> None:
    assert str(place) not in said
    assert list(place.iterdir()) == []

    answer = "Yes, it is 21 degrees. A table for two is booked."
    assert re.findall(r"^Yes, .*$", said, re.MULTILINE) == [answer] * 2
    assert re.findall(r"requests that reached the server: (\d+)", said) == ["5", "1", "0"]
    assert re.findall(r"tables booked: (\d+)", said) == ["1", "1"]
    assert "reenact: recorded 5 calls in 1 lane to run" in said
    assert re.search(r"^reenact: fork at event \d+ \(llm_request .*\), call 5 of 5$", said, re.M)
    assert "reenact: forked: 5 calls in 1 lane, 1 live, to fork" in said
    assert "      [-small-]{+large+}-1\n" in said
    assert "{+in Bern, so I have booked a+}" in said
    assert "reenact: replayed 5 calls in 1 lane, 0 live, 0 unused" in said
    assert "divergence: event_payload_mismatch, lane 0, event " in said
    assert '- "Book a table in Bern if it is warm"' in said
    assert '+ "Book a table in Rome if it is warm"' in said
    assert re.search(r"copy: damaged at events.jsonl line \d", said)

    assert "diverged: 4 changed\n" in said
    assert "  /request/body/amount is 5, recorded 100\n  the recorded answer was given\n" in said
    assert re.findall(r"payments at the bank: (\d+)", said) == ["1"]
    assert re.search(r"^replay rpl_\w+ of ex_\w+: verified$", said, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.soak_only
def test_demo_says_the_same_every_time(tmp_path: Path, said: str) -> None:
    """But for times, ports and hashes; wherever it runs, and with a proxy in the way."""
    first = _run(tmp_path, CI="1", http_proxy="http://127.0.0.1:9")
    assert CHANGING.sub("", first) == CHANGING.sub("", said)
    assert CHANGING.search(first)
