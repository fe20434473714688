"""Files and whole folders of foreign recordings, each onto a tape of its own.

Originals are never touched. A tape that is there already is kept, unless it is to be replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from reenact.errors import RecordingDamaged, RecordingError, ReenactError, UsageError
from reenact.interop.documents import check_size
from reenact.interop.foreign import is_another
from reenact.interop.formats import FORMATS, Format, format_named, guess, read_content
from reenact.interop.losses import Loss
from reenact.interop.taking import Origin, take
from reenact.policy.redaction import Profile
from reenact.policy.rules import Pinned
from reenact.store.files import read_regular
from reenact.store.reader import unreadable

__all__ = ["TAPE", "Job", "Moved", "jobs", "move"]

TAPE = ".jsonl"


class Job(msgspec.Struct, frozen=True):
    """One file, and where its tape goes. In a folder other files may lie that are none."""

    source: Path
    target: Path
    format: Format | None
    among_others: bool = False


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file: ``kept`` is one whose tape is there already, ``skipped`` no recording."""

    source: Path
    target: Path
    status: Literal["imported", "kept", "skipped", "failed"]
    format: str = ""
    calls: int = 0
    hidden: int = 0
    losses: tuple[Loss, ...] = ()
    error: ReenactError | None = None

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        found: dict[str, Any] = {
            "source": str(self.source),
            "path": str(self.target),
            "status": self.status,
            "format": self.format,
            "calls": self.calls,
            "hidden": self.hidden,
            "losses": [loss.to_json() for loss in self.losses],
        }
        if self.error is not None:
            found["error"] = self.error.to_json()
        return found


def jobs(source: Path, target: Path | None, wanted: Format | None) -> Iterator[Job]:
    """What there is to do. Tapes keep the relative names of their originals, beside them or under
    ``target``, which for a single file is the tape itself, or a folder that is there."""
    if not source.exists():
        raise RecordingError(f"there is nothing at {source}", hint="check the path")
    if not source.is_dir():
        yield Job(source, _single(source, target), _format_of(source, wanted))
        return
    if target is not None and target.is_file():
        raise UsageError(
            f"{target} is a file, and {source} a folder", hint="give a folder for the tapes"
        )
    suffixes = _suffixes(wanted)
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.suffix.lower() in suffixes:
            place = path if target is None else target / path.relative_to(source)
            known = _format_of(path, wanted)
            yield Job(path, place.with_suffix(TAPE), known, among_others=True)


def _suffixes(wanted: Format | None) -> frozenset[str]:
    """Of the files in a folder that are looked at."""
    if wanted is None:
        return frozenset(suffix for one in FORMATS for suffix in one.suffixes)
    return frozenset((*wanted.suffixes, ".json") if wanted.name == "vcr" else wanted.suffixes)


def _format_of(path: Path, wanted: Format | None) -> Format | None:
    """A suite of vcrpy may have cassettes of both serializers."""
    if wanted is not None and wanted.name == "vcr" and path.suffix.lower() == ".json":
        return format_named("vcr-json")
    return wanted


def _single(source: Path, target: Path | None) -> Path:
    if target is None:
        return source.with_suffix(TAPE)
    return target / source.with_suffix(TAPE).name if target.is_dir() else target


def move(
    job: Job, pinned: Pinned, *, redaction: Profile | None = None, replace: bool = False
) -> Moved:
    """Import one file. What is wrong with it is said in the result, not raised."""
    try:
        return _move(job, pinned, redaction, replace)
    except ReenactError as error:
        problem = error
    except OSError as error:
        problem = unreadable(job.source, error)
    return Moved(source=job.source, target=job.target, status="failed", error=problem)


def _move(job: Job, pinned: Pinned, redaction: Profile | None, replace: bool) -> Moved:
    source, target = job.source, job.target
    if target.exists() and not replace:
        return Moved(source=source, target=target, status="kept")
    state = source.stat()
    check_size(state.st_size)
    content = read_regular(source)
    one = job.format or guess(source, content)
    if one is None:
        raise UsageError(
            f"cannot tell what {source} is by its name", hint="say it: --format vcr, har, …"
        )
    try:
        found = read_content(one, content, str(source))
    except RecordingDamaged as error:
        if job.among_others and is_another(error):
            return Moved(source=source, target=target, status="skipped")
        raise
    origin = Origin(one.name, content, int(state.st_mtime * 1000))
    taken = take(found, target, origin, pinned=pinned, redaction=redaction, replace=replace)
    return Moved(
        source=source,
        target=target,
        status="imported",
        format=one.name,
        calls=taken.calls,
        hidden=taken.hidden,
        losses=(*found.losses, *taken.losses),
    )
