"""Reports of a run: the summary line, the report file, and the last report of a diverged replay."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from reenact._system import interpreter_and_platform
from reenact._version import __version__
from reenact.engine.call import DRAWS, SLEEP, Entry
from reenact.errors import ReenactError, UsageError
from reenact.policy.paths import FOLDER
from reenact.runs.plan import ProcessReport
from reenact.store.files import replace_file, write_private

__all__ = [
    "REPORTS_VARIABLE",
    "Summary",
    "check_report_path",
    "count_calls",
    "delete_last_report",
    "load_last_report",
    "load_newest_report",
    "platform_facts",
    "print_error",
    "print_message",
    "store_last_report",
    "with_command_options",
    "write_report",
]


class Summary(msgspec.Struct, kw_only=True):
    """Totals of all processes of a run."""

    mode: str
    recording: Path
    exit_code: int
    calls: int = 0
    draws: int = 0
    """Number of clock readings, random values and environment values."""
    lanes: int = 0
    live: int = 0
    unused: int = 0
    passed: dict[str, int] = msgspec.field(default_factory=dict)
    divergences: list[dict[str, Any]] = msgspec.field(default_factory=list)
    status: str | None = None
    """``ok``, ``diverged`` or ``error`` (nothing was recorded).

    None derives it from the divergences.
    """
    update: dict[str, Any] | None = None
    """Changes of an update: the number of kept calls, and the changed, added and dropped calls."""
    arguments: dict[str, list[str]] | None = None
    """Recorded and given arguments, if they differ."""
    content_hash: str | None = None
    """Content hash of the replayed recording."""
    environment: dict[str, str] | None = None
    """Platform of a replay, as in a manifest."""
    only: str | None = None
    """``network`` for a replay in which everything else was live."""

    def add(self, reports: Iterable[ProcessReport]) -> None:
        """Add the reports of processes."""
        for report in reports:
            self.live += report.live
            for name, number in report.passed.items():
                self.passed[name] = self.passed.get(name, 0) + number
            # A forked child may repeat the report of its parent.
            self.update = report.update or self.update
            self.divergences += [one for one in report.divergences if one not in self.divergences]

    def line(self) -> str:
        """Return a summary such as ``replayed 42 calls in 7 lanes, 0 live, 0 unused``.

        A run without calls shows the number of draws instead.
        """
        drew = self.draws and not self.calls
        calls = _count(self.draws, "draw") if drew else _count(self.calls, "call")
        lanes = _count(self.lanes, "lane")
        if self.mode == "fork":
            text = f"forked: {calls} in {lanes}, {self.live} live, to {_short(self.recording)}"
        elif self.mode == "replay":
            text = f"replayed {calls} in {lanes}, {self.live} live, {self.unused} unused"
        elif self.update is not None:
            done = "not updated" if self.exit_code else "updated"
            text = f"{done} {_short(self.recording)}: {_counted(self.update)}"
        else:
            text = f"recorded {calls} in {lanes} to {_short(self.recording)}"
        if self.passed:
            text += "".join(
                f", {number} passed through {name}" for name, number in sorted(self.passed.items())
            )
        if self.divergences:
            text += f", {_count(len(self.divergences), 'divergence')}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Return the stable JSON form: the report of a session, with lanes, exit code and
        platform."""
        # Deferred: most runs write no report, and the module loads the scheduler.
        from reenact.engine.session.final_report import VERSION

        served = self.calls if self.mode == "replay" else 0
        other: dict[str, Any] = {
            "contentHash": self.content_hash,
            "environment": self.environment,
            "only": self.only,
            "arguments": self.arguments,
        }
        return {
            "version": VERSION,
            "mode": self.mode,
            "status": self.status or ("diverged" if self.divergences else "ok"),
            "counts": {
                "served": served,
                "live": self.live,
                "passed": dict(sorted(self.passed.items())),
                "divergences": len(self.divergences),
                "unused": self.unused,
            },
            "divergences": self.divergences,
            "recording": str(self.recording),
            "lanes": self.lanes,
            "exitCode": self.exit_code,
            **(self.update or {}),
            **{name: item for name, item in other.items() if item is not None},
        }


def _short(path: Path) -> str:
    """Return a path relative to the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _counted(update: dict[str, Any]) -> str:
    numbers = {name: one if isinstance(one, int) else len(one) for name, one in update.items()}
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items())


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def count_calls(entries: Iterable[Entry]) -> tuple[int, int]:
    """Return the number of calls and the number of draws among ``entries``.

    Sleeps are not counted.
    """
    calls = draws = 0
    for entry in entries:
        if entry.kind in DRAWS:
            draws += entry.count
        elif entry.kind != SLEEP:
            calls += 1
    return calls, draws


def print_message(text: str) -> None:
    """Print a line to standard error."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def print_error(message: str, hint: str) -> None:
    """Print an error with its hint to standard error."""
    print_message(f"reenact: error: {message}")
    if hint:
        print_message(f"hint: {hint}")


def with_command_options(text: str) -> str:
    """Replace session arguments in a hint by command-line options."""
    return re.sub(r"mode='(record_missing|rewrite|update)'", r"--mode \1", text)


def check_report_path(path: Path | None) -> None:
    """Raise :class:`UsageError` if the folder of the report is missing, before the program runs."""
    if path is not None and not path.parent.is_dir():
        raise UsageError(
            f"--report: {path.parent} is not a folder", hint="create it, or choose a different path"
        )


def write_report(path: Path | None, summary: Summary) -> None:
    """Write the report to ``path``, if there is one. Raises :class:`ReenactError`."""
    if path is None:
        return
    try:
        write_private(path, (json.dumps(summary.to_json(), indent=2) + "\n").encode())
    except OSError as error:
        raise ReenactError(
            f"the report cannot be written to {path}: {error.strerror}", hint="choose another place"
        ) from None


REPORTS_VARIABLE = "REENACT_REPORTS"
"""Variable that disables stored reports: ``off``, ``no``, ``false`` or ``0``."""

_MOST = 100
_OFF = ("0", "no", "off", "false")


def store_last_report(root: Path, recording: Path, report: Mapping[str, Any]) -> bool:
    """Store the report of a diverged replay and replace an earlier one of the recording.

    Returns False if it was not stored.
    """
    if os.environ.get(REPORTS_VARIABLE, "").lower() in _OFF:
        return False
    folder = _folder(root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
        content = json.dumps({**report, "recording": str(recording.resolve())}) + "\n"
        replace_file(_report_file(root, recording), content.encode(), sync=False)
        _drop_oldest(folder)
    except (OSError, ValueError):
        return False
    return True


def delete_last_report(root: Path, recording: Path) -> None:
    """Delete the stored report of a recording, after a replay without divergences."""
    if not _folder(root).is_dir():
        return
    with contextlib.suppress(OSError):
        _report_file(root, recording).unlink(missing_ok=True)


def load_last_report(root: Path, recording: Path) -> Any:
    """Return the stored report of a recording; None if there is none."""
    return _read(_report_file(root, recording))


def load_newest_report(root: Path) -> Any:
    """Return the report of the last replay that diverged; None if there is none."""
    found = _by_age(_folder(root))
    return _read(found[0]) if found else None


def platform_facts() -> dict[str, str]:
    """Return the platform facts of a report, as in a manifest."""
    return {**interpreter_and_platform(), "reenact": __version__}


def _folder(root: Path) -> Path:
    return root / FOLDER / "reports"


def _report_file(root: Path, recording: Path) -> Path:
    path = recording.resolve()
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", path.stem)[:40].strip(".-") or "recording"
    return _folder(root) / f"{name}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}.json"


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None


def _by_age(folder: Path) -> list[Path]:
    """Return the stored reports, newest first."""
    ages: list[tuple[int, str, Path]] = []
    for file in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            ages.append((file.stat().st_mtime_ns, file.name, file))
    return [file for _, _, file in sorted(ages, reverse=True)]


def _drop_oldest(folder: Path) -> None:
    for file in _by_age(folder)[_MOST:]:
        with contextlib.suppress(OSError):
            file.unlink()
