"""Running the command line, in this process and in its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reenact.cli.main import main


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


@pytest.fixture(autouse=True)
def _wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
