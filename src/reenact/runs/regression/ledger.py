"""What is kept of a regression: outcomes as they come, to resume from; and what is known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from reenact.errors import UsageError
from reenact.runs.regression.outcome import BAD, Outcome
from reenact.store.files import replace_file

__all__ = ["Baseline", "Journal"]

_VERSION = 1
_outcome = msgspec.json.Decoder(Outcome)


class Journal:
    """A file with one outcome per line. A line that a kill tore is made again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Outcome]:
        """What has been done, by recording."""
        found: dict[str, Outcome] = {}
        lines = self._path.read_bytes().split(b"\n") if self._path.exists() else []
        for line in lines[:-1]:
            try:
                outcome = _outcome.decode(line)
            except msgspec.DecodeError as error:
                raise UsageError(
                    f"{self._path} is no journal of a regression: {error}",
                    hint="name another file, or remove this one",
                ) from None
            found[outcome.recording] = outcome
        return found

    def begin(self, done: Iterable[Outcome]) -> None:
        """Start with ``done``."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, b"".join(map(_line, done)))

    def add(self, outcome: Outcome) -> None:
        """One more."""
        with self._path.open("ab") as file:
            file.write(_line(outcome))


def _line(outcome: Outcome) -> bytes:
    return msgspec.json.encode(outcome) + b"\n"


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

    @staticmethod
    def write(path: Path, outcomes: Iterable[Outcome]) -> int:
        """Take what goes wrong now as known. How many that are."""
        known = {one.recording: one.cause for one in outcomes if one.status in BAD}
        content = msgspec.json.encode(_Known(_VERSION, dict(sorted(known.items()))))
        replace_file(path, msgspec.json.format(content, indent=2) + b"\n")
        return len(known)
