"""Re-enacts recordings in a function: a few processes that do one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from select import select

import msgspec

from reenact._system import monotonic
from reenact.errors import UsageError
from reenact.runs.regression.outcome import Outcome

__all__ = ["Targets"]

_WORKER = "reenact.runs.regression.worker"
_decode = msgspec.json.Decoder(Outcome)


class Targets:
    """Callable with a recording, from any thread: each has a process of its own. A process that
    dies, or takes longer than ``timeout`` seconds, is replaced. Raises :class:`UsageError` when the
    function cannot be loaded."""

    def __init__(
        self, target: str, policy: str | None = None, timeout: float | None = None
    ) -> None:
        self._words = (target, policy)
        self._timeout = timeout
        self._local = threading.local()
        self._all: list[_Worker] = []

    def __call__(self, recording: Path) -> Outcome:
        start = monotonic()
        worker: _Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            worker = self._local.worker = _Worker(*self._words)
            self._all.append(worker)
        outcome = worker.ask(recording, self._timeout)
        if outcome is None:
            outcome = worker.last_words(recording, self._timeout)
            self._local.worker = None
        outcome.seconds = round(monotonic() - start, 3)
        return outcome

    def close(self) -> None:
        """Let all processes go."""
        for worker in self._all:
            worker.close()


class _Worker:
    def __init__(self, target: str, policy: str | None) -> None:
        self._read, write = os.pipe()
        words = [sys.executable, "-m", _WORKER, target, str(write)]
        self._process = subprocess.Popen(
            [*words, *([] if policy is None else [policy])],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(write,),
        )
        os.close(write)
        self._rest = b""
        self._late = False
        refused = msgspec.json.decode(self._line(None) or b'{"message": "its process died"}')
        if refused:
            self.close()
            raise UsageError(refused["message"], hint=refused.get("hint", ""))

    def ask(self, recording: Path, timeout: float | None) -> Outcome | None:
        """The outcome; None when there will be none."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(os.fsencode(recording) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._line(timeout)
        return None if line is None else _decode.decode(line)

    def _line(self, timeout: float | None) -> bytes | None:
        """What the process writes next; None when it takes too long, or is gone."""
        end = None if timeout is None else monotonic() + timeout
        while b"\n" not in self._rest:
            left = None if end is None else max(0.0, end - monotonic())
            if not select([self._read], [], [], left)[0]:
                self._late = True
                return None
            more = os.read(self._read, 1 << 16)
            if not more:
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def last_words(self, recording: Path, timeout: float | None) -> Outcome:
        """What became of it instead."""
        if self._late:
            self.close()
            cause = f"no end after {timeout or 0:g} s"
            return Outcome(recording=str(recording), status="timeout", cause=cause)
        _, said = self._process.communicate()
        os.close(self._read)
        self._read = -1
        text = said.decode("utf-8", "replace")[-2_000:]
        cause = f"its process ended with {self._process.returncode}"
        return Outcome(recording=str(recording), status="failed", cause=cause, detail=text)

    def close(self) -> None:
        """End the process, if it is there."""
        if self._read >= 0:
            os.close(self._read)
            self._read = -1
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
