"""Regression over many recordings, and the journal from which it can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

import msgspec

from reenact._system import monotonic
from reenact.errors import UsageError
from reenact.runs.regression.baseline import Baseline
from reenact.runs.regression.jobs import Engine, Job
from reenact.runs.regression.outcomes import Outcome, Tally, as_line, name_of
from reenact.runs.regression.report import Header
from reenact.runs.remote.location import Location
from reenact.store.files import replace_file

__all__ = [
    "Journal",
    "Regression",
]


class Regression:
    """Regression. ``account`` and ``tally`` contain its progress, also after an interruption."""

    def __init__(self, account: Header, known: Baseline, journal: Journal | None = None) -> None:
        self.account = account
        self.tally = Tally()
        self._known = known
        self._journal = journal

    def resume(self, recordings: Sequence[Location]) -> list[Location]:
        """Load finished outcomes from the journal and return the remaining recordings.

        Recordings that could not be downloaded remain.
        """
        kept = {} if self._journal is None else self._journal.read()
        done = {name: outcome for name, outcome in kept.items() if not outcome.away}
        for one in recordings:
            outcome = done.get(name_of(one))
            if outcome is not None:
                outcome.known = self._known.has(outcome)  # according to the current baseline
                self.tally.add(outcome)
        self.account.resumed = len(self.tally)
        return [one for one in recordings if name_of(one) not in done]

    def perform(
        self,
        recordings: Sequence[Location],
        engine: Engine,
        *,
        fail_fast: bool,
        step: Callable[[Tally], None],
    ) -> None:
        """Replay the recordings and call ``step`` after each. ``fail_fast`` stops at the first
        failure.

        A :class:`KeyboardInterrupt` propagates after all replays have ended.
        """
        start = monotonic()
        self.account.ended = "interrupted"
        try:
            with closing(engine.perform(recordings)) as coming:
                for outcome in coming:
                    outcome.known = self._known.has(outcome)
                    self._add(outcome)
                    step(self.tally)
                    if fail_fast and outcome.is_bad:
                        break
            whole = len(self.tally) == self.account.total
            self.account.ended = "complete" if whole else "stopped"
        finally:
            self.account.seconds = round(monotonic() - start, 3)
            if self._journal is not None:
                self._journal.close()

    def _add(self, outcome: Outcome) -> None:
        line = as_line(outcome)  # before the tally deletes its details
        self.tally.add(outcome)
        if self._journal is not None:
            self._journal.add(line)


_VERSION = 1
_outcome = msgspec.json.Decoder(Outcome)


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    job: Job


class Journal:
    """File with the job in the first line and one outcome in each further line.

    An incomplete last line is ignored, so its recording is replayed again.
    """

    def __init__(self, path: Path, job: Job) -> None:
        self._path, self._job = path, job
        self._file: IO[bytes] | None = None
        self._kept: dict[str, Outcome] = {}

    def read(self) -> dict[str, Outcome]:
        """Return the finished outcomes by recording.

        Raises :class:`UsageError` for a file that is not a journal, has a different version, or
        belongs to a different job.
        """
        head, *lines = self._path.read_bytes().split(b"\n") if self._path.exists() else [b""]
        if not lines:
            return {}
        try:
            self._check(_head.decode(head))
            outcomes = [_outcome.decode(line) for line in lines[:-1]]
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{self._path} is not a regression journal: {error}",
                hint="name another file, or remove this one",
            ) from None
        self._kept = {one.recording: one for one in outcomes}
        return dict(self._kept)

    def _check(self, head: _Head) -> None:
        if head.version != _VERSION:
            raise UsageError(
                f"{self._path} has version {head.version}, but only version {_VERSION} is supported",
                hint="begin a new one: without --resume",
            )
        if head.job != self._job:
            raise UsageError(
                f"{self._path} is the journal of a different job: {msgspec.json.encode(head.job).decode()}",
                hint="resume with the same target or program, policy and timeout; or start "
                "again without --resume",
            )

    def add(self, line: bytes) -> None:
        """Append an outcome.

        It is in the file even if this process is killed immediately afterwards.
        """
        if self._file is None:
            self._file = self._begun()
        self._file.write(line)

    def _begun(self) -> IO[bytes]:
        """Write the job and the outcomes read before, and open the file for appending.

        It is called with the first outcome, so a job that cannot start leaves the old journal
        unchanged.
        """
        head = msgspec.json.encode(_Head(_VERSION, self._job)) + b"\n"
        replace_file(self._path, head + b"".join(map(as_line, self._kept.values())), sync=False)
        return self._path.open("ab", buffering=0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


_head = msgspec.json.Decoder(_Head)
