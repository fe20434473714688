"""Options of ``reenact run``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from reenact.errors import RecordingMissing, UsageError
from reenact.policy.model import SessionMode
from reenact.store.files import runs_folder

__all__ = ["Job", "Options", "last_run"]

Job = Literal["record", "replay", "live"]

LAST = "last"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one run.

    ``path`` is the recording; None selects a new capture at a default path.
    """

    command: tuple[str, ...]
    job: Job = "record"
    path: Path | None = None
    net: bool = False
    """True for HTTP and websockets only, on a tape."""
    mode: SessionMode | None = None
    policy: str | None = None
    strict: bool | None = None
    allow: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    isolate: bool = False
    report: Path | None = None
    overwrite: bool = False
    append: bool = False
    quiet: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError("no program is given", hint="reenact run [OPTIONS] -- CMD …")
        for flag, value in self._only_recording().items():
            if value and self.job != "record":
                raise UsageError(
                    f"{flag} goes with recording", hint="--capture DIR or --record-net-to TAPE"
                )
        for flag, value in self._never_live().items():
            if value and self.job == "live":
                raise UsageError(
                    f"--live neither records nor replays: {flag} has no meaning with it",
                    hint="leave one of them out",
                )
        if self.isolate and self.job == "record":
            raise UsageError(
                "--isolate goes with a replay: a program without a network has little to record",
                hint="leave it out, or replay",
            )
        if self.overwrite and self.append:
            raise UsageError("--overwrite and --append exclude each other", hint="use one of them")
        if self.mode is not None and (self.overwrite or self.append):
            raise UsageError(
                "--overwrite and --append go with plain recording, not with --mode",
                hint="use one of them",
            )

    def _only_recording(self) -> dict[str, object]:
        return {"--mode": self.mode, "--overwrite": self.overwrite, "--append": self.append}

    def _never_live(self) -> dict[str, object]:
        return {
            "--policy": self.policy,
            "--strict": self.strict is True,
            "--lenient": self.strict is False,
            "--allow": self.allow,
            "--boundary": self.boundaries,
            "--isolate": self.isolate,
            "--report": self.report,
        }


def last_run(root: Path) -> Path:
    """Return the newest capture of the project.

    Raises :class:`RecordingMissing` if there is none.
    """
    folder = runs_folder(root)
    found = sorted(path for path in folder.glob("*") if path.is_dir()) if folder.is_dir() else []
    if not found:
        raise RecordingMissing(f"no run found in {folder}", hint="create one: reenact run -- CMD …")
    return found[-1]
