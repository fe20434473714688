"""Model servers that nobody here wrote: aimock (npm) with its journal, llmock (PyPI) with its faults.

Both listen on a port of their own choice and live as long as the test session. Their fixtures can be
used by any test: import them in the ``conftest.py`` beside it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.environments import CACHE, IN_CI, Unavailable, build, locked, run_tool

__all__ = ["AIMOCK", "Aimock", "Llmock", "_aimock", "_llmock", "aimock", "available", "llmock"]

AIMOCK = "1.43.0"
"""The version of ``@copilotkit/aimock``."""

_ANSWERS = Path(__file__).resolve().parent / "answers.json"
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:([1-9][0-9]*)")


@contextmanager
def available() -> Iterator[None]:
    """What cannot be had is an error in CI, and else the reason to skip a test."""
    try:
        yield
    except Unavailable as error:
        if IN_CI:
            raise
        pytest.skip(str(error))


_READER = """
import os, re, sys

for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    if re.search(rb"http://127[.]0[.]0[.]1:[1-9]", line):
        break
sys.stdout.flush()
os.close(1)
for line in sys.stdin.buffer:
    pass
"""
"""Passes on what a server says until it has told its address. Not a thread: tests that look for
threads would find it."""


class _Listening:
    """A server process. It tells its address on its output; the rest of that is thrown away."""

    def __init__(self, command: Sequence[str | Path], **environ: str) -> None:
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environ},
        )
        self._reader = subprocess.Popen(
            [sys.executable, "-I", "-c", _READER],
            stdin=self._process.stdout,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.close()
        assert self._reader.stdout is not None
        with self._reader.stdout as output:
            said = output.read()
        found = _ADDRESS.search(said)
        assert found is not None, said.decode("utf-8", "replace")
        self.port = int(found[1])
        self.address = f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request by the test itself, and the JSON of its answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status < 400, (method, path, answer.status, text)
        return json.loads(text) if text else None

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._reader.wait()


class Aimock(_Listening):
    """``@copilotkit/aimock``: every provider at one address. Ids are fresh in every answer."""

    def __init__(self) -> None:
        home = install_aimock()
        words = ["--port", "0", "--log-level", "info", "--journal-max", "0"]
        super().__init__(["node", home / "dist" / "cli.js", *words, "--fixtures", _ANSWERS])

    def journal(self) -> list[Any]:
        """Every request that has come since the last reset, in order."""
        found: list[Any] = self.ask("GET", "/__aimock/journal")
        return found

    def reset(self, *fixtures: Any) -> None:
        """Forget all requests. ``fixtures`` are tried before those of ``answers.json``."""
        self.ask("POST", "/__aimock/reset")
        known = json.loads(_ANSWERS.read_text("utf-8"))["fixtures"]
        self.ask("POST", "/__aimock/fixtures", {"fixtures": [*fixtures, *known]})


class Llmock(_Listening):
    """``llmock``: a server that breaks as it is told."""

    def __init__(self) -> None:
        python = build("llmock")
        super().__init__([python.parent / "llmock", "serve", "--port", "0"])

    def journal(self) -> list[Any]:
        """Every request that has come since the last reset, in order."""
        found: list[Any] = self.ask("GET", "/_llmock/requests")["requests"]
        return found

    def reset(self, *behaviors: Any) -> None:
        """Forget all requests, and do ``behaviors`` from now on: ``{"type": "fail", "status":
        429, "times": 2}``."""
        self.ask("POST", "/_llmock/reset")
        if behaviors:
            self.ask("POST", "/_llmock/scenario", {"behaviors": behaviors})


def install_aimock() -> Path:
    """The folder of aimock, which is installed first where it is not there."""
    folder = CACHE / "npm" / f"aimock-{AIMOCK}"
    home = folder / "node_modules" / "@copilotkit" / "aimock"
    with locked(folder):
        if not (folder / "complete").exists():
            _need_node()
            folder.mkdir(parents=True, exist_ok=True)
            said = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-save"]
            hint = "hint: is the npm registry of this machine reachable?"
            wanted = f"@copilotkit/aimock@{AIMOCK}"
            run_tool(["npm", "install", *said, "--prefix", folder, wanted], hint)
            (folder / "complete").touch()
    return home


def _need_node() -> None:
    if shutil.which("node") and shutil.which("npm"):
        return
    hint = "hint: on Debian and Ubuntu: apt-get install nodejs npm"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Unavailable(f"node and npm are not installed\n{hint}")
    said = ["-y", "-q", "--no-install-recommends", "nodejs", "npm"]
    run_tool(["apt-get", "install", *said], hint, DEBIAN_FRONTEND="noninteractive")


@pytest.fixture(scope="session")
def _aimock() -> Iterator[Aimock]:
    with available():
        server = Aimock()
    yield server
    server.stop()


@pytest.fixture
def aimock(_aimock: Aimock) -> Aimock:
    """A model server that has forgotten everything."""
    _aimock.reset()
    return _aimock


@pytest.fixture(scope="session")
def _llmock() -> Iterator[Llmock]:
    with available():
        server = Llmock()
    yield server
    server.stop()


@pytest.fixture
def llmock(_llmock: Llmock) -> Llmock:
    """A model server that breaks on purpose, and has forgotten everything."""
    _llmock.reset()
    return _llmock
