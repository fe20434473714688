"""Somebody at a machine, who runs commands, and programs beside them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["EMAIL", "PATIENCE", "Desk", "Program"]

EMAIL = "ann@acme.example"
PATIENCE = 60.0


class Program:
    """A program that runs beside the test, and what it says."""

    def __init__(self, words: list[str], folder: Path, environ: dict[str, str]) -> None:
        self.said: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.said.append(line)
                self._news.notify_all()
        with self._news:
            self.said.append("(it has ended)\n")
            self._news.notify_all()

    def until(self, pattern: str) -> str:
        """What matches ``pattern``, as soon as it was said."""

        def found() -> Any:
            return re.search(pattern, "".join(self.said)) or "(it has ended)\n" in self.said

        with self._news:
            self._news.wait_for(found, PATIENCE)
            match = re.search(pattern, "".join(self.said))
        assert match, "".join(self.said)
        return match[0]

    def stop(self) -> int:
        """Told to end; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


class Desk:
    """Somebody's folder on a machine, and the commands that they run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            **{name: text for name, text in os.environ.items() if not name.startswith("REENACT_")},
            "REENACT_CONFIG_DIR": str(folder / "config"),
            "COLUMNS": "100",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def ran(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command, once it has ended."""
        return subprocess.run(
            [sys.executable, "-m", "reenact", *words],
            cwd=self.folder,
            env=self.environ,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )

    def run(self, *words: str, code: int = 0, stdin: str = "") -> str:
        """What it printed. It has to exit with ``code``."""
        done = self.ran(*words, stdin=stdin)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def listed(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self.run(*words, "--json").splitlines()]

    @contextmanager
    def program(self, *words: str, **environ: str) -> Iterator[Program]:
        program = Program([*words], self.folder, {**self.environ, **environ})
        try:
            yield program
        finally:
            program.close()

    def until_listed(self, *words: str) -> Any:
        """The one thing that is listed, as soon as it is: an app sends when it finds the time."""
        pause = threading.Event()
        for _ in range(int(PATIENCE * 10)):
            if found := self.listed(*words):
                (one,) = found
                return one
            pause.wait(0.1)
        raise AssertionError(f"{words} lists nothing")
