"""Jobs of a regression, and performers that replay one recording with a program or a function."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from reenact._system import monotonic
from reenact.engine.divergence.model import Divergence
from reenact.errors import RecordingError, UsageError
from reenact.runs.command import decode_argv
from reenact.runs.regression.child_process import ChildProcess, kill_group, wait_for_end
from reenact.runs.regression.outcomes import Outcome, Status, diverged, name_of, unreadable
from reenact.runs.remote.location import Location
from reenact.store.reader import open_recording

__all__ = [
    "CommandPerformer",
    "Engine",
    "FunctionPerformer",
    "Job",
    "Performer",
    "make_performer",
    "read_run_marks",
]


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Job for each recording: call ``target``, or run ``command``, or run the recorded command."""

    target: str | None = None
    command: tuple[str, ...] = ()
    policy: str | None = None
    allow: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    timeout: float | None = None
    """Seconds."""


class Performer(Protocol):
    """Performer that replays recordings on this machine. Thread-safe."""

    def __call__(self, recording: Path, given: bytes | None = None) -> Outcome:
        """Replay a recording.

        ``given`` is the input of the function as JSON, for a recording that does not contain it.
        Raises :class:`UsageError` for an invalid job.
        """

    def stop(self) -> None:
        """End the replays in progress. Each caller gets an outcome, and no new replay starts."""

    def close(self) -> None:
        """Release all resources. Called when no replay is in progress."""


class Engine(Protocol):
    """Engine that replays many recordings, several at a time."""

    def perform(self, recordings: Sequence[Location]) -> Generator[Outcome, None, None]:
        """Yield outcomes as they arrive. Closing the generator cancels the replays in progress."""


def make_performer(job: Job) -> Performer:
    """Return a local performer for ``job``."""
    if job.target is not None:
        return FunctionPerformer(job.target, job.policy, job.timeout)

    flags = [] if job.policy is None else ["--policy", job.policy]
    for flag, values in (("--allow", job.allow), ("--boundary", job.boundaries)):
        flags += [word for one in values for word in (flag, one)]
    return CommandPerformer(job.command, flags, job.timeout)


_UNREADABLE = 3


class CommandPerformer:
    """Performer that runs a command, or the recorded one, with ``reenact run --replay``."""

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
        """Replay a recording with the command. ``given`` is ignored."""
        start = monotonic()
        try:
            begun, ended = read_run_marks(recording)
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
            code, output = self._performed(line)
            found = _report(report)
        name = name_of(recording)
        if code is None:
            cause = f"no end after {self._timeout or 0:g} s"
            return Outcome(recording=name, status="timeout", cause=cause, detail=output)
        if found is None:
            status: Status = "unreadable" if code == _UNREADABLE else "failed"
            cause = _last_line(output) or f"exit code {code}"
            return Outcome(recording=name, status=status, cause=cause, detail=output)
        served = int(found["counts"]["served"])
        if found["status"] == "diverged":
            return diverged(recording, Divergence.from_json(found["divergences"][0]), served)
        then = ended.get("exitCode", 0)
        if code != then:
            cause = f"exit code {code}, recorded {then}"
            return Outcome(
                recording=name, status="failed", served=served, cause=cause, detail=output
            )
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
                return wait_for_end(process, self._timeout)
            finally:
                with self._lock:
                    self._running.discard(process)

    def stop(self) -> None:
        """Kill the running commands. Later calls raise :class:`UsageError`."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                kill_group(process)

    def close(self) -> None:
        """Kill the running commands."""
        self.stop()


def read_run_marks(recording: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data of ``run_start`` and ``run_end``.

    They are empty if the first or last event has a different type.
    """
    with open_recording(recording) as source:
        count = len(source)
        first = source.at(1) if count else None
        last = source.at(count) if count else None
        begun = first.data if first is not None and first.type == "run_start" else {}
        ended = last.data if last is not None and last.type == "run_end" else {}
    return begun, ended


def _recorded_command(recording: Path, begun: dict[str, Any]) -> list[str]:
    argv = decode_argv(begun.get("argv"))
    if not argv:
        raise UsageError(
            f"{recording} does not contain the command of its program",
            hint="give it: reenact regress … -- CMD, or --target MODULE:FUNCTION",
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


_WORKER = "reenact.runs.regression.worker"
_decode = msgspec.json.Decoder(Outcome)


class FunctionPerformer:
    """Performer that calls a function in one process per thread.

    A process that dies, or takes longer than ``timeout`` seconds, is replaced. A call raises
    :class:`UsageError` if the function cannot be loaded.
    """

    def __init__(
        self, target: str, policy: str | None = None, timeout: float | None = None
    ) -> None:
        self._words = (target, *([] if policy is None else [policy]))
        self._timeout = timeout
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: set[_Worker] = set()
        self._stopped = False

    def __call__(self, recording: Path, given: bytes | None = None) -> Outcome:
        """Replay a recording in the process of this thread."""
        start = monotonic()
        worker: _Worker = getattr(self._local, "worker", None) or self._started()
        outcome = worker.ask(recording, given, self._timeout)
        if outcome is None and worker.done and not worker.late:
            # An earlier recording may have damaged the process. A new one rules that out.
            self._drop(worker)
            worker = self._started()
            outcome = worker.ask(recording, given, self._timeout)
        if outcome is None:
            outcome = worker.last_words(recording, self._timeout)
            self._drop(worker)
        outcome.seconds = round(monotonic() - start, 3)
        return outcome

    def _started(self) -> _Worker:
        with self._lock:
            if self._stopped:
                raise UsageError("the regression has been stopped", hint="start it again")
            worker = self._local.worker = _Worker(self._words)
            self._all.add(worker)
        try:
            worker.loaded()
        except UsageError:
            self._drop(worker)
            raise
        return worker

    def _drop(self, worker: _Worker) -> None:
        self._local.worker = None
        worker.close()
        with self._lock:
            self._all.discard(worker)

    def stop(self) -> None:
        """Kill all processes. A new process cannot be started afterwards."""
        with self._lock:
            self._stopped = True
            for worker in self._all:
                worker.end()

    def close(self) -> None:
        """Kill all processes and close their pipes."""
        self.stop()
        while self._all:
            self._all.pop().close()


class _Worker:
    def __init__(self, words: tuple[str, ...]) -> None:
        self._child = ChildProcess(_WORKER, *words)
        self.done = 0
        self.late = False

    def loaded(self) -> None:
        """Wait until the process is ready.

        Raises :class:`UsageError` if it cannot load the function.
        """
        refused = msgspec.json.decode(self._child.line(None) or b'{"message": "its process died"}')
        if refused:
            hint = refused.get("hint") or self._child.said.strip()[-500:] or "run it by hand"
            raise UsageError(refused["message"], hint=hint)

    def ask(self, recording: Path, given: bytes | None, timeout: float | None) -> Outcome | None:
        """Return the outcome; None if the process ended or timed out."""
        self._child.said = ""
        words = [os.fsencode(recording)] if given is None else [os.fsencode(recording), given]
        try:
            self._child.write(" ".join(word.hex() for word in words).encode() + b"\n")
            line = self._child.line(timeout)
        except TimeoutError:
            self.late = True
            return None
        except BrokenPipeError:
            return None
        if line is None:
            return None
        self.done += 1
        outcome = _decode.decode(line)
        outcome.recording = name_of(recording)
        return outcome

    def last_words(self, recording: Path, timeout: float | None) -> Outcome:
        """Return the outcome of a recording whose process ended or timed out."""
        output, name = self._child.said, name_of(recording)
        if self.late:
            cause = f"no end after {timeout or 0:g} s"
            return Outcome(recording=name, status="timeout", cause=cause, detail=output)
        cause = f"its process ended with {self._child.wait()}"
        return Outcome(recording=name, status="failed", cause=cause, detail=output)

    def end(self) -> None:
        """Kill the process. Its caller then gets an outcome."""
        self._child.kill()

    def close(self) -> None:
        """Kill the process and close its pipes."""
        self._child.close()
