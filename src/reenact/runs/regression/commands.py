"""Re-enacts a recording by running a program: a process for each, as ``reenact run`` does it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reenact._system import monotonic
from reenact.engine.divergence import Divergence
from reenact.engine.rendering import render
from reenact.errors import RecordingError, UsageError
from reenact.runs.regression.outcome import Outcome, Status, cause_of
from reenact.store.reading import open_recording

__all__ = ["Commands", "read_marks"]

_LAST_WORDS = 2_000
_UNREADABLE = 3


class Commands:
    """Callable with a recording, from any thread."""

    def __init__(
        self, command: Sequence[str], flags: Sequence[str] = (), timeout: float | None = None
    ) -> None:
        self._command = tuple(command)
        self._flags = tuple(flags)
        self._timeout = timeout

    def __call__(self, recording: Path) -> Outcome:
        start = monotonic()
        try:
            begun, ended = read_marks(recording)
            words = self._command or _recorded_command(recording, begun)
        except (RecordingError, UsageError) as error:
            return Outcome(
                recording=str(recording),
                status="unreadable",
                cause=type(error).__name__,
                detail=f"{error.message}\n{error.hint}".rstrip(),
            )
        outcome = self._run(recording, words, ended)
        outcome.seconds = round(monotonic() - start, 3)
        return outcome

    def _run(self, recording: Path, words: Sequence[str], ended: dict[str, Any]) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="reenact-regress-") as folder:
            report = Path(folder) / "report.json"
            line = [sys.executable, "-m", "reenact", "run", "--replay", str(recording), "--strict"]
            line += ["--quiet", "--report", str(report), *self._flags, "--", *words]
            code, said = _performed(line, self._timeout)
            told = _report(report)
        name = str(recording)
        if code is None:
            cause = f"no end after {self._timeout:g} s"
            return Outcome(recording=name, status="timeout", cause=cause, detail=said)
        if told is None:
            status: Status = "unreadable" if code == _UNREADABLE else "failed"
            cause = _last_line(said) or f"exit code {code}"
            return Outcome(recording=name, status=status, cause=cause, detail=said)
        served = int(told["counts"]["served"])
        if told["status"] == "diverged":
            first = Divergence.from_json(told["divergences"][0])
            return Outcome(
                recording=name,
                status="diverged",
                served=served,
                cause=cause_of(first),
                detail=render(first),
                divergence=told["divergences"][0],
            )
        then = ended.get("exitCode", 0)
        if code != then:
            cause = f"exit code {code}, recorded {then}"
            return Outcome(recording=name, status="failed", served=served, cause=cause, detail=said)
        return Outcome(recording=name, status="ok", served=served)


def read_marks(recording: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The data of the first event and of the last, where they are how the run began and ended."""
    with open_recording(recording) as source:
        count = len(source)
        first = source.at(1) if count else None
        last = source.at(count) if count else None
        begun = first.data if first is not None and first.type == "run_start" else {}
        ended = last.data if last is not None and last.type == "run_end" else {}
    return begun, ended


def _recorded_command(recording: Path, begun: dict[str, Any]) -> list[str]:
    argv = begun.get("argv")
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv) or not argv:
        raise UsageError(
            f"{recording} does not say how its program was started",
            hint="say it: reenact regress … -- CMD, or --target MODULE:FUNCTION",
        )
    return argv


def _performed(line: Sequence[str], timeout: float | None) -> tuple[int | None, str]:
    """The exit code and the last that was printed; None when it had to be ended."""
    with subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=timeout)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            code = None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return code, said.decode("utf-8", "replace")[-_LAST_WORDS:]


def _report(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
    return lines[-1][:200] if lines else ""
