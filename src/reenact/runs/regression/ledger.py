"""What is kept of a regression: outcomes as they come, to resume from."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import msgspec

from reenact.errors import UsageError
from reenact.runs.regression.job import Job
from reenact.runs.regression.outcome import Outcome, as_line
from reenact.store.files import replace_file

__all__ = ["Journal"]

_VERSION = 1
_outcome = msgspec.json.Decoder(Outcome)


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    job: Job


class Journal:
    """A file with what the job is in its first line, and one outcome per line after it. A line that
    a kill tore is made again."""

    def __init__(self, path: Path, job: Job) -> None:
        self._path, self._job = path, job
        self._file: IO[bytes] | None = None
        self._kept: dict[str, Outcome] = {}

    def read(self) -> dict[str, Outcome]:
        """What has been done, by recording. Raises :class:`UsageError` for what is no journal, and
        for the journal of another job."""
        head, *lines = self._path.read_bytes().split(b"\n") if self._path.exists() else [b""]
        if not lines:
            return {}
        try:
            self._check(_head.decode(head))
            outcomes = [_outcome.decode(line) for line in lines[:-1]]
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{self._path} is no journal of a regression: {error}",
                hint="name another file, or remove this one",
            ) from None
        self._kept = {one.recording: one for one in outcomes}
        return dict(self._kept)

    def _check(self, head: _Head) -> None:
        if head.version != _VERSION:
            raise UsageError(
                f"{self._path} has version {head.version}, and {_VERSION} is known here",
                hint="begin a new one: without --resume",
            )
        if head.job != self._job:
            raise UsageError(
                f"{self._path} is the journal of another job: {msgspec.json.encode(head.job).decode()}",
                hint="resume with the same target or program, policy and timeout; or begin anew "
                "without --resume",
            )

    def add(self, line: bytes) -> None:
        """One more outcome. It is there even if this process is killed in the next moment."""
        if self._file is None:
            self._file = self._begun()
        self._file.write(line)

    def _begun(self) -> IO[bytes]:
        """Only now: a job that cannot even begin leaves the old journal as it is."""
        head = msgspec.json.encode(_Head(_VERSION, self._job)) + b"\n"
        replace_file(self._path, head + b"".join(map(as_line, self._kept.values())), sync=False)
        return self._path.open("ab", buffering=0)

    def close(self) -> None:
        """No more."""
        if self._file is not None:
            self._file.close()


_head = msgspec.json.Decoder(_Head)
