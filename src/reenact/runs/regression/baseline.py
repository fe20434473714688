"""Baseline of known failures. A known failure does not count while it fails in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reenact.errors import UsageError
from reenact.runs.regression.outcomes import BAD, Outcome
from reenact.runs.remote.location import is_remote
from reenact.store.files import replace_file

__all__ = ["Baseline", "BaselineUpdate", "KnownFailure"]

_VERSION = 1


class KnownFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Known failure of a recording. ``paths`` contains the kind and path of each difference."""

    cause: str
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome) -> KnownFailure:
        return cls(outcome.cause, outcome.paths)

    def is_of(self, outcome: Outcome) -> bool:
        """Return True if ``outcome`` failed in this way."""
        return self == KnownFailure.of(outcome)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    known: dict[str, KnownFailure]


class BaselineUpdate(NamedTuple):
    """Counts of a baseline update: all entries, new or changed entries, and removed entries."""

    known: int
    new: int
    gone: int


class Baseline:
    """Known failures of recordings, by name."""

    def __init__(self, known: Mapping[str, KnownFailure]) -> None:
        self._known = dict(known)

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """Read the file at ``path``.

        Raises :class:`UsageError` if it cannot be read or is invalid.
        """
        try:
            found = msgspec.json.decode(path.read_bytes())
            _check_version(found, path)
            return cls(msgspec.convert(found, _File).known)
        except OSError as error:
            raise UsageError(
                f"the baseline {path} cannot be read: {error.strerror}",
                hint="create it: --update-baseline",
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} is not a baseline: {error}", hint="write it again: --update-baseline"
            ) from None

    def has(self, outcome: Outcome) -> bool:
        """Return True if ``outcome`` is a known failure. Failed downloads are never known."""
        known = self._known.get(outcome.recording)
        bad = outcome.status in BAD and not outcome.away
        return bad and known is not None and known.is_of(outcome)

    def updated(self, outcomes: Iterable[Outcome]) -> Baseline:
        """Return a baseline with the current failures.

        Entries of recordings that were not replayed are unchanged, unless the recording was
        deleted.
        """
        found = {one.recording: one for one in outcomes if not one.away}
        stays = {
            name: known
            for name, known in self._known.items()
            if name not in found and (is_remote(name) or Path(name).exists())
        }
        wrong = {name: KnownFailure.of(one) for name, one in found.items() if one.status in BAD}
        return Baseline({**stays, **wrong})

    def write(self, path: Path, before: Baseline) -> BaselineUpdate:
        """Write the baseline and return the changes since ``before``."""
        content = msgspec.json.encode(_File(_VERSION, dict(sorted(self._known.items()))))
        replace_file(path, msgspec.json.format(content, indent=2) + b"\n", private=False)
        new = [name for name, known in self._known.items() if before._known.get(name) != known]
        return BaselineUpdate(
            len(self._known), len(new), len(before._known.keys() - self._known.keys())
        )


def _check_version(found: Any, path: Path) -> None:
    version = found.get("version") if isinstance(found, dict) else None
    if isinstance(version, int) and version != _VERSION:
        raise UsageError(
            f"{path} has version {version}, but only version {_VERSION} is supported",
            hint="write it again: --update-baseline",
        )
