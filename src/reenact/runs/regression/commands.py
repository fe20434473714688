"""Re-enacts a recording by running a program: a process for each, as ``reenact run`` does it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reenact._system import monotonic
from reenact.engine.divergence.model import Divergence
from reenact.errors import RecordingError, UsageError
from reenact.runs.regression.child import kill_group, performed
from reenact.runs.regression.outcome import Outcome, Status, diverged, name_of, unreadable
from reenact.runs.words import load_words
from reenact.store.reader import open_recording

__all__ = ["Commands", "read_marks"]

_UNREADABLE = 3


class Commands:
    """A performer."""

    def __init__(
        self, command: Sequence[str], flags: Sequence[str] = (), timeout: float | None = None
    ) -> None:
        self._command = tuple(command)
        self._flags = tuple(flags)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def __call__(self, recording: Path, given: bytes | None = None) -> Outcome:
        """See :class:`Performer`. A program is given nothing but its command line."""
        start = monotonic()
        try:
            begun, ended = read_marks(recording)
            words = self._command or _recorded_command(recording, begun)
        except (RecordingError, UsageError) as error:
            return unreadable(recording, error)
        outcome = self._run(recording, words, ended)
        outcome.seconds = round(monotonic() - start, 3)
        return outcome

    def _run(self, recording: Path, words: Sequence[str], ended: dict[str, Any]) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="reenact-regress-") as folder:
            report = Path(folder) / "report.json"
            line = [sys.executable, "-m", "reenact", "run", "--replay", str(recording), "--strict"]
            line += ["--quiet", "--report", str(report), *self._flags, "--", *words]
            code, said = self._performed(line)
            told = _report(report)
        name = name_of(recording)
        if code is None:
            cause = f"no end after {self._timeout or 0:g} s"
            return Outcome(recording=name, status="timeout", cause=cause, detail=said)
        if told is None:
            status: Status = "unreadable" if code == _UNREADABLE else "failed"
            cause = _last_line(said) or f"exit code {code}"
            return Outcome(recording=name, status=status, cause=cause, detail=said)
        served = int(told["counts"]["served"])
        if told["status"] == "diverged":
            return diverged(recording, Divergence.from_json(told["divergences"][0]), served)
        then = ended.get("exitCode", 0)
        if code != then:
            cause = f"exit code {code}, recorded {then}"
            return Outcome(recording=name, status="failed", served=served, cause=cause, detail=said)
        return Outcome(recording=name, status="ok", served=served)

    def _performed(self, line: Sequence[str]) -> tuple[int | None, str]:
        with self._lock:
            if self._stopped:
                raise UsageError("the regression has been stopped", hint="start it again")
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
        with process:
            try:
                return performed(process, self._timeout)
            finally:
                with self._lock:
                    self._running.discard(process)

    def stop(self) -> None:
        """See :class:`Performer`."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                kill_group(process)

    def close(self) -> None:
        """See :class:`Performer`."""
        self.stop()


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
    argv = load_words(begun.get("argv"))
    if not argv:
        raise UsageError(
            f"{recording} does not say how its program was started",
            hint="say it: reenact regress … -- CMD, or --target MODULE:FUNCTION",
        )
    return argv


def _report(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
    return lines[-1][:200] if lines else ""
