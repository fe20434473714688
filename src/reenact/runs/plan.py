"""Files that ``reenact run`` shares with the processes of the program.

The environment variable ``REENACT_RUN`` contains their folder. The folder contains the plan, the
lanes that processes have claimed, the ledger of a replay, and one report per process. It also
contains the version and the import paths of Reenact.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any, Literal

import msgspec

from reenact._plugins import EntryPoint, find_entry_points
from reenact.engine.fork.plan import At
from reenact.errors import UsageError
from reenact.policy.model import SessionMode

__all__ = [
    "INJECT",
    "LANE",
    "MODULES",
    "RUN",
    "Match",
    "Plan",
    "ProcessReport",
    "claim_lane",
    "read_plan",
    "read_process_reports",
    "with_injection",
    "write_plan",
    "write_process_report",
]

RUN = "REENACT_RUN"
"""Variable with the folder of the run."""

LANE = "REENACT_LANE"
"""Variable with the lane of the process.

It is missing if a program without Reenact, such as a shell, started the process.
"""

INJECT = str(Path(__file__).with_name("inject"))
"""Folder of the start hook. Python processes with this folder on their path start Reenact."""

MODULES = "modules"
"""Folder for lists of imported modules. It exists only for ``--explain-boundaries``."""

Match = Literal["lane", "transcript", "lookup"]

_PLAN, _CLAIMS, _REPORTS = "plan.json", "claims", "reports"
_PATHS = ("path", "root", "into")
"""Fields that contain paths.

They are encoded as bytes, because the processes use the recorded locale instead of the command's.
"""


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Plan for the processes of a run.

    ``path`` is the recording that they replay or extend, or the capture that they join.
    """

    mode: SessionMode
    path: str
    tape: bool
    root: str
    strict: bool
    policy: str | None = None
    allow: tuple[str, ...] = ()
    match: Match | None = None
    only: str | None = None
    owner: bool = False
    """True if the first process writes the recording without the parent."""
    append: bool = False
    seal: bool = True
    boundaries: tuple[str, ...] = ()
    """Modules of the user that cover further libraries."""
    verbose: bool = False
    seed: int | None = None
    """Seed of :class:`reenact.runs.environment.Environment`."""
    fork: At | None = None
    """Fork point. ``into`` is the capture that processes join after it."""
    into: str | None = None
    plugins: tuple[EntryPoint, ...] = ()
    """Boundaries and lenses of installed packages, which :func:`write_plan` finds."""


class ProcessReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Report of one process, written at its start, after each problem, and at its end."""

    pid: int
    lane: str
    served: int = 0
    live: int = 0
    passed: dict[str, int] = {}
    divergences: list[dict[str, Any]] = []
    texts: list[str] = []
    """Rendered divergences."""
    problem: dict[str, Any] | None = None
    """Error of a recording that could not be read."""
    approximate: str = ""
    update: dict[str, Any] | None = None
    """Changes of an update: the number of kept calls, and the changed, added and dropped calls."""
    ended: bool = False


def write_plan(folder: Path, plan: Plan) -> None:
    """Write the plan and create the folders for claims and reports."""
    for name in (_CLAIMS, _REPORTS):
        (folder / name).mkdir()
    fields = msgspec.to_builtins(msgspec.structs.replace(plan, plugins=find_entry_points()))
    for name in _PATHS:
        if fields[name] is not None:
            fields[name] = os.fsencode(fields[name]).hex()
    (folder / _PLAN).write_bytes(msgspec.json.encode(fields))


def read_plan(folder: Path) -> Plan:
    """Read the plan of a run.

    Raises :class:`UsageError` if the run has ended or a different version of Reenact wrote the
    plan.
    """
    try:
        fields = msgspec.json.decode((folder / _PLAN).read_bytes())
        for name in _PATHS:
            if fields[name] is not None:
                fields[name] = os.fsdecode(bytes.fromhex(fields[name]))
        return msgspec.convert(fields, Plan)
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"{RUN} is set, but {folder} contains no plan of a run: {error}",
            hint=f"unset {RUN}; it is not valid in a process that outlives `reenact run`",
        ) from None


def with_injection(environ: dict[str, str], folder: str) -> dict[str, str]:
    """Return ``environ`` with the variables that start Reenact in a process of the run."""
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if INJECT not in paths:
        paths.insert(0, INJECT)
    return {**environ, RUN: folder, "PYTHONPATH": os.pathsep.join(paths)}


def claim_lane(folder: Path, wish: str | None) -> str:
    """Claim a lane that no other process of the run has.

    ``wish`` is the lane in which the process was started. If it is taken, the process gets a lane
    below it. Processes without a wish get ``0``, ``1``, … in the order of their start.
    """
    for name in _names(wish):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(folder / _CLAIMS / name, os.O_CREAT | os.O_EXCL, 0o600))
            return name
    raise AssertionError("unreachable: the numbers do not end")


def _names(wish: str | None) -> Iterator[str]:
    if wish is not None:
        yield wish
    for number in count():
        yield str(number) if wish is None else f"{wish}.0.{number}"


def write_process_report(folder: Path, report: ProcessReport) -> None:
    """Write the report of this process and replace an earlier one. Thread-safe."""
    path = folder / _REPORTS / f"{report.lane}-{report.pid}.json"
    temporary = path.with_name(f"{path.name}.{get_ident()}.new")
    temporary.write_bytes(msgspec.json.encode(report))
    temporary.replace(path)


def read_process_reports(folder: Path) -> list[ProcessReport]:
    """Return the reports of all processes, sorted by lane. Unreadable reports are skipped."""
    found: list[ProcessReport] = []
    for path in sorted((folder / _REPORTS).glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found.append(msgspec.json.decode(path.read_bytes(), type=ProcessReport))
    return sorted(found, key=lambda report: report.lane)
