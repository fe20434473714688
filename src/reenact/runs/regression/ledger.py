"""What is kept of a regression: outcomes as they come, to resume from; and what is known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec

from reenact.errors import UsageError
from reenact.runs.regression.job import Job
from reenact.runs.regression.outcome import BAD, Outcome, as_line
from reenact.store.files import replace_file

__all__ = ["Baseline", "Journal"]

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


class _Known(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    known: dict[str, str]


class Baseline:
    """Recordings that are known to go wrong, each with its cause: they do not count, as long as it
    is the same one."""

    def __init__(self, known: dict[str, str]) -> None:
        self._known = known

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """Raises :class:`UsageError` for what is no baseline."""
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_Known)
        except OSError as error:
            raise UsageError(
                f"the baseline {path} cannot be read: {error.strerror}",
                hint="write one: --update-baseline",
            ) from None
        except msgspec.DecodeError as error:
            raise UsageError(f"{path} is no baseline: {error}", hint="--update-baseline") from None
        if found.version != _VERSION:
            raise UsageError(
                f"{path} has version {found.version}, and {_VERSION} is known here",
                hint="write it anew: --update-baseline",
            )
        return cls(found.known)

    def has(self, outcome: Outcome) -> bool:
        """Is this how it is known to go wrong?"""
        return outcome.status in BAD and self._known.get(outcome.recording) == outcome.cause

    def updated(self, outcomes: Iterable[Outcome]) -> Baseline:
        """With what goes wrong now. What was not run stays as it was, if its recording is there."""
        found = {one.recording: one for one in outcomes}
        stays = {
            name: cause
            for name, cause in self._known.items()
            if name not in found and Path(name).exists()
        }
        wrong = {name: one.cause for name, one in found.items() if one.status in BAD}
        return Baseline({**stays, **wrong})

    def write(self, path: Path) -> int:
        """Returns how many it knows."""
        content = msgspec.json.encode(_Known(_VERSION, dict(sorted(self._known.items()))))
        replace_file(path, msgspec.json.format(content, indent=2) + b"\n")
        return len(self._known)
