"""Sweeps (``reenact fork --sweep``): forks of one run at each step, to find where it goes wrong.

Each fork is a separate command, so several can run in parallel. Each has a folder for its output
and its recording.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import msgspec

from reenact.engine.fork.plan import ForkPoint, fork_points
from reenact.errors import RecordingExists, UsageError
from reenact.policy.paths import find_root
from reenact.runs.fork import ForkOptions
from reenact.runs.options import LAST, last_run
from reenact.store.files import new_capture_path, unwritable
from reenact.store.reader import open_recording

__all__ = ["Step", "sweep"]

Outcome = Literal["ok", "failed", "diverged"]

_RECORDING, _OUTPUT, _REPORT = "capture", "output", "report.json"


class Step(msgspec.Struct, kw_only=True, rename="camel"):
    """Fork point, with the outcomes and folders of its forks."""

    point: ForkPoint
    outcomes: list[Outcome] = msgspec.field(default_factory=list)
    folders: list[str] = msgspec.field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        """Return the number of forks with this outcome."""
        return self.outcomes.count(outcome)

    @property
    def share(self) -> float | None:
        """Return the share of failures among the forks that did not diverge; None without any."""
        failed, fine = self.count("failed"), self.count("ok")
        return failed / (failed + fine) if failed + fine else None


def sweep(
    options: ForkOptions,
    *,
    each: str = "llm",
    times: int = 1,
    jobs: int = 1,
    check: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Path, list[Step]]:
    """Fork ``times`` times at every call of kind ``each``.

    A fork has failed if its program or ``check`` ends with a non-zero code. ``REENACT_FORK`` and
    ``REENACT_OUTPUT`` contain the paths of the recording and the output for ``check``. Returns the
    folder of all forks, and the steps.
    """
    root = find_root(Path.cwd(), os.environ)
    path = last_run(root) if str(options.path) == LAST else options.path.absolute()
    with open_recording(path) as source:
        found = [Step(point=point) for point in fork_points(source, each)]
        count = len(source)
    if not found:
        raise UsageError(
            f"the recording has no call of the kind {each} in its {count} events",
            hint="--each llm, tool, call, or another kind such as network",
        )
    folder = _folder(options, root)
    work = [(step, number) for step in found for number in range(1, times + 1)]
    sweeping = _Sweeping(msgspec.structs.replace(options, path=path), folder, check)
    with ThreadPoolExecutor(jobs) as pool:
        for (step, number), outcome in zip(work, pool.map(sweeping, work), strict=True):
            step.outcomes.append(outcome)
            step.folders.append(_name(step, number))
            tell(f"{_name(step, number)}: {outcome}")
    return folder, found


def _folder(options: ForkOptions, root: Path) -> Path:
    path = options.into
    if path is None:
        path = new_capture_path(root)
        # Next to the runs, because `last` must not select a fork of a sweep.
        path = path.parent.with_name("sweeps") / path.name
    try:
        if path.exists() and (path.is_file() or any(path.iterdir())):
            raise RecordingExists(
                f"{path} is there already", hint="choose another place: --into DIR"
            )
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None
    return path.absolute()


def _name(step: Step, number: int) -> str:
    return f"event-{step.point.seq}-{number}"


class _Sweeping:
    """Function that makes one fork and returns its outcome."""

    def __init__(self, options: ForkOptions, folder: Path, check: str | None) -> None:
        self._options = options
        self._folder = folder
        self._check = None if check is None else shlex.split(check)

    def __call__(self, work: tuple[Step, int]) -> Outcome:
        step, number = work
        folder = self._folder / _name(step, number)
        folder.mkdir()
        with open(folder / _OUTPUT, "wb") as output:
            code = _run(self._words(step.point, folder), os.environ, output)
        if self._has_diverged(folder):
            return "diverged"
        if code != 0 or not self._is_fine(folder):
            return "failed"
        return "ok"

    def _words(self, point: ForkPoint, folder: Path) -> list[str]:
        options = self._options
        words = [sys.executable, "-m", "reenact", "fork", str(options.path)]
        words += ["--at", str(point.seq), "--into", str(folder / _RECORDING), "--quiet"]
        words += ["--report", str(folder / _REPORT)]
        for path, value in options.at.set.items():
            words += ["--set", f"{path}={json.dumps(value)}"]
        for flag, values in self._flags().items():
            words += [word for one in values if one is not None for word in (flag, one)]
        return [*words, "--", *options.command]

    def _flags(self) -> dict[str, Sequence[str | None]]:
        options = self._options
        live = options.at.live
        return {
            "--model": [options.at.model],
            "--live": [None if live is None else ",".join(live)],
            "--policy": [options.policy],
            "--allow": options.allow,
            "--boundary": options.boundaries,
        }

    def _has_diverged(self, folder: Path) -> bool:
        """Return True if the fork diverged or did not reach its point, or has written no report."""
        try:
            report: Any = json.loads((folder / _REPORT).read_bytes())
        except (OSError, ValueError):
            return True
        return bool(report.get("status") == "diverged")

    def _is_fine(self, folder: Path) -> bool:
        if self._check is None:
            return True
        variables = {
            "REENACT_FORK": str(folder / _RECORDING),
            "REENACT_OUTPUT": str(folder / _OUTPUT),
        }
        with open(folder / "check", "wb") as output:
            return _run(self._check, {**os.environ, **variables}, output) == 0


def _run(words: Sequence[str], environ: Any, output: Any) -> int:
    try:
        done = subprocess.run(
            words,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise UsageError(
            f"cannot start {words[0]}: {error.strerror}", hint="check the path and its permissions"
        ) from None
    return done.returncode
