"""Cassettes in a folder tree: their status, age, policy, and the tests that use them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.errors import (
    RecordingError,
    RecordingOutdated,
    RecordingTooNew,
    RecordingUnfinished,
    ReenactError,
    UsageError,
)
from reenact.format.manifest import FORMAT, Flag, Manifest
from reenact.policy.model import DEFAULT, Pinned
from reenact.policy.paths import FOLDER, has_policies
from reenact.runs.reports import count_calls
from reenact.store.reader import open_tape, part_path, tape_blobs

__all__ = [
    "Cassette",
    "CassetteUsage",
    "Project",
    "Status",
    "collect_usage",
    "files_of",
    "find_tapes",
    "inspect_cassette",
    "leftovers",
    "read_report",
    "status_of",
]

Status = Literal["ok", "damaged", "unfinished", "too new", "outdated"]

_TAPE = ".jsonl"
_OURS = (b'"format":{"name":"reenact"', b'"captureId":"')
_HEADER = 8192
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
_LEFT = (".part", ".part.kept", ".part.streams", ".capture", ".update", ".new", ".old")
"""Suffixes of files next to a tape while it is written, or after a crash."""


class Cassette(msgspec.Struct, frozen=True, kw_only=True):
    """Tape of a test. ``manifest`` is None if it is unreadable; ``why`` has the reason."""

    path: Path
    status: Status
    size: int
    why: str = ""
    hint: str = ""
    manifest: Manifest | None = None
    calls: int = 0

    @property
    def events(self) -> int:
        return 0 if self.manifest is None else self.manifest.event_count


def find_tapes(places: Iterable[Path]) -> Iterator[Path]:
    """Yield every tape at or below ``places`` once, sorted by name.

    An unfinished tape has the name of its final file.
    """
    seen: set[Path] = set()
    for place in places:
        for path in _below(place) if place.is_dir() else [_finished_name(place)]:
            if path not in seen and (_is_tape(path) or part_path(path).exists()):
                seen.add(path)
                yield path


def _finished_name(path: Path) -> Path:
    name = path.name
    for end in _LEFT:
        if name.endswith(f"{_TAPE}{end}"):
            return path.with_name(name.removesuffix(end))
    return path


def _below(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        ours = Path(top).name == FOLDER
        folders[:] = sorted(
            name for name in folders if not _is_skipped(name) and not (ours and name == "runs")
        )
        if "manifest.json" in files and "events.jsonl" in files:
            folders.clear()
            continue  # a capture directory
        names = {Path(top) / name for name in files if _TAPE in name}
        yield from sorted({_finished_name(path) for path in names})


def _is_skipped(name: str) -> bool:
    hidden = name.startswith(".") and name != FOLDER
    return hidden or name in _SKIPPED or name.endswith((".blobs", ".capture"))


def _is_tape(path: Path) -> bool:
    if path.suffix != _TAPE:
        return False
    try:
        with path.open("rb") as file:
            start = file.read(_HEADER).partition(b"\n")[0]
    except OSError:
        return False
    return all(mark in start for mark in _OURS)


def inspect_cassette(path: Path, *, count: bool = False) -> Cassette:
    """Inspect the tape at ``path``; with ``count``, also count its calls."""
    try:
        with open_tape(path) as source:
            calls = 0
            if count:
                script = RecordedCalls(source)
                entries = script.keep_all()
                script.read_all()
                calls, _ = count_calls(entries)
            manifest = source.manifest()
            size = path.stat().st_size + manifest.blobs.bytes
            return Cassette(path=path, status="ok", size=size, manifest=manifest, calls=calls)
    except RecordingError as error:
        part = part_path(path)
        size = sum(one.stat().st_size for one in (path, part) if one.exists())
        return Cassette(
            path=path, status=status_of(error), size=size, why=error.message, hint=error.hint
        )


def status_of(error: RecordingError) -> Status:
    """Return the status of a recording that cannot be opened."""
    if isinstance(error, RecordingUnfinished):
        return "unfinished"
    if isinstance(error, RecordingTooNew):
        return "too new"
    return "outdated" if isinstance(error, RecordingOutdated) else "damaged"


def leftovers(tape: Path) -> list[Path]:
    """Return the files that an interrupted recording or update left next to ``tape``."""
    beside = (tape.with_name(f"{tape.name}{end}") for end in _LEFT)
    return [path for path in beside if path.exists()]


def files_of(tape: Path) -> list[Path]:
    """Return all files of ``tape``: the file, its blobs, its signature and leftovers."""
    named = [tape, tape_blobs(tape).folder, tape.with_name(f"{tape.name}.sig")]
    return [path for path in (*named, *leftovers(tape)) if path.exists()]


Pin = Literal["pinned", "changed", "unknown", "built-in"]

_STRENGTH: Final = {"none": 0, "default": 1, "strict": 2}


class Project:
    """Policies of the project of the cassettes. Each policy is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Pinned | None] = {}

    def policy(self, name: str) -> Pinned | None:
        """Return the pinned policy with this id; None if it is missing or invalid."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> Pinned | None:
        if not has_policies(self._root):
            return Pinned.of(DEFAULT) if name == DEFAULT.id else None
        from reenact.policy.index import load_policy

        try:
            return load_policy(self._root, name)
        except ReenactError:
            return None  # ``reenact policy check`` reports the error

    def pin(self, manifest: Manifest) -> Pin:
        """Compare the policy of a recording with the pinned one."""
        said = manifest.policy
        now = None if said is None else self.policy(said.id)
        if said is None or now is None:
            return "unknown"
        if said.digest != now.digest:
            return "changed"
        return "built-in" if now.policy is DEFAULT else "pinned"

    def reasons(self, cassette: Cassette) -> Iterator[str]:
        """Yield the reasons to record ``cassette`` again."""
        if cassette.status != "ok":
            yield f"{cassette.status}: {cassette.why}"
        for path in leftovers(cassette.path):
            if cassette.status != "unfinished":
                yield f"{path.name} is a leftover of an unfinished recording"
        if cassette.manifest is not None:
            yield from self._about(cassette.manifest)

    def _about(self, manifest: Manifest) -> Iterator[str]:
        if manifest.format.version != FORMAT.version or Flag.REVIEWED not in manifest.flags:
            yield "an older form of the format"
        if manifest.status != "ok":
            yield f"its status is {manifest.status}"
        pin = self.pin(manifest)
        said = manifest.policy
        if pin == "changed" and said is not None:
            yield f"the policy {said.id} is not the one it was recorded under"
        elif pin == "unknown" and said is not None:
            yield f"its policy {said.id} cannot be found"
        yield from self._about_redaction(manifest)

    def _about_redaction(self, manifest: Manifest) -> Iterator[str]:
        found = None if manifest.policy is None else self.policy(manifest.policy.id)
        wanted = (None if found is None else found.policy.redaction) or "default"
        if found is not None and found.sanitizer is not None and found.policy.redaction is None:
            wanted = found.sanitizer.profile
        if _STRENGTH[manifest.redaction.profile] < _STRENGTH[wanted]:
            yield f"redacted with the profile {manifest.redaction.profile}, now it is {wanted}"


_SAYS = "the report that `pytest --reenact-report FILE` writes"
_LAST_LINES = 4


class _Test(msgspec.Struct):
    id: str
    cassette: str | None = None


class _Report(msgspec.Struct):
    version: int
    tests: list[_Test]
    root: str = ""
    errors: int = 0
    partial: bool = False


class CassetteUsage(msgspec.Struct, frozen=True):
    """Cassettes that tests use, as absolute paths; ``tests`` is the number of these tests."""

    cassettes: frozenset[Path]
    tests: int


def read_report(file: Path) -> CassetteUsage:
    """Read a report of pytest. Raises :class:`UsageError`.

    An incomplete report is refused, because deleting cassettes that it does not name could break tests.
    """
    try:
        report = msgspec.json.decode(file.read_bytes(), type=_Report)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", hint=_SAYS) from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is not a report of tests: {error}", hint=_SAYS) from None
    if report.version != 1:
        raise UsageError(
            f"{file} has version {report.version}; this version reads 1",
            hint="pip install --upgrade reenact",
        )
    if report.errors:
        raise UsageError(
            f"{report.errors} test file(s) could not be collected: what they ask for is not known",
            hint="fix the errors of `pytest --collect-only` first",
        )
    if report.partial:
        raise UsageError(
            f"{file} is about some of the tests: what the others ask for is not known",
            hint="write it for all: pytest --collect-only --reenact-report FILE",
        )
    root = Path(report.root).absolute()
    named = [root / one.cassette for one in report.tests if one.cassette is not None]
    if not named:
        raise UsageError(
            f"no test in {file} uses a cassette",
            hint="collect the whole suite, from the folder where pytest runs",
        )
    return CassetteUsage(frozenset(path.resolve() for path in named), len(named))


def collect_usage() -> CassetteUsage:
    """Collect the tests with pytest and this Python. Raises :class:`UsageError`."""
    with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
        file = Path(folder) / "tests.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--reenact-report"]
        ran = subprocess.run(
            [*command, str(file)], capture_output=True, text=True, errors="replace", check=False
        )
        if ran.returncode != 0 or not file.exists():
            said = "; ".join((ran.stdout + ran.stderr).strip().splitlines()[-_LAST_LINES:])
            raise UsageError(
                f"pytest could not collect the tests (exit code {ran.returncode}): {said}",
                hint="run it yourself and give the report: reenact cassettes unused --report FILE",
            )
        return read_report(file)
