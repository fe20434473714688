"""Re-enacts recordings in a function: a few processes that do one after the other."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec

from reenact._system import monotonic
from reenact.errors import UsageError
from reenact.runs.regression.child import Child
from reenact.runs.regression.outcome import Outcome, name_of

__all__ = ["Targets"]

_WORKER = "reenact.runs.regression.worker"
_decode = msgspec.json.Decoder(Outcome)


class Targets:
    """A performer: each thread has a process of its own. One that dies, or takes longer than
    ``timeout`` seconds, is replaced. Raises :class:`UsageError` when the function cannot be
    loaded."""

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
        """See :class:`Performer`."""
        start = monotonic()
        worker: _Worker = getattr(self._local, "worker", None) or self._started()
        outcome = worker.ask(recording, given, self._timeout)
        if outcome is None and worker.done and not worker.late:
            # What it did before may be what killed it: in a new one it is this recording.
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
        """See :class:`Performer`."""
        with self._lock:
            self._stopped = True
            for worker in self._all:
                worker.end()

    def close(self) -> None:
        """See :class:`Performer`."""
        self.stop()
        while self._all:
            self._all.pop().close()


class _Worker:
    def __init__(self, words: tuple[str, ...]) -> None:
        self._child = Child(_WORKER, *words)
        self.done = 0
        self.late = False

    def loaded(self) -> None:
        """Wait until it is ready."""
        refused = msgspec.json.decode(self._child.line(None) or b'{"message": "its process died"}')
        if refused:
            hint = refused.get("hint") or self._child.said.strip()[-500:] or "run it by hand"
            raise UsageError(refused["message"], hint=hint)

    def ask(self, recording: Path, given: bytes | None, timeout: float | None) -> Outcome | None:
        """The outcome; None when there will be none."""
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
        """What became of it instead."""
        said, name = self._child.said, name_of(recording)
        if self.late:
            cause = f"no end after {timeout or 0:g} s"
            return Outcome(recording=name, status="timeout", cause=cause, detail=said)
        cause = f"its process ended with {self._child.wait()}"
        return Outcome(recording=name, status="failed", cause=cause, detail=said)

    def end(self) -> None:
        """Kill it; whoever waits for it notices."""
        self._child.kill()

    def close(self) -> None:
        """Kill it, and let go of what belongs to it."""
        self._child.close()
